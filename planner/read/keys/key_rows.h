/** @file key_rows.h  Short words for the rows of the tables of trainers' keys (keys_*.c). */
#ifndef REDCO_READ_KEY_ROWS_H
#define REDCO_READ_KEY_ROWS_H

#include "planner/read/trainers.h"

#define OPTION REDCOI_MEANS_OPTION
#define MODEL REDCOI_MEANS_MODEL
#define TRAIT REDCOI_MEANS_TRAIT
#define ENGINE REDCOI_MEANS_ENGINE
#define LIMIT REDCOI_MEANS_LIMIT
#define HARMLESS(key)                                                                                                  \
    {                                                                                                                  \
        key, REDCOI_MEANS_HARMLESS, "", NULL                                                                           \
    }
#define END_OF_KEYS                                                                                                    \
    {                                                                                                                  \
        NULL, REDCOI_MEANS_HARMLESS, NULL, NULL                                                                        \
    }
/** Values of a flag: "yes", or the default stays. */
#define YES "true=yes false="
/* Words of transformers' TrainingArguments.optim (training_args.py, OptimizerNames), which others took over. */
#define TORCH_OPTIMIZERS                                                                                               \
    "adamw_torch= adamw_torch_fused= adamw_hf= adamw_apex_fused= adamw= adamw_bnb_8bit=adamw-8bit "                    \
    "adamw_8bit=adamw-8bit paged_adamw_8bit=adamw-8bit adafactor=adafactor lion_32bit=lion sgd=sgd"

#endif
