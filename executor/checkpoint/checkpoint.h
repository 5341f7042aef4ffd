/** @file checkpoint.h  Checkpoints of sharded states: a folder of them, of which the last few are kept. None depends on
 *  the plan or the ranks that wrote it: each name has one whole tensor, whoever held which part.
 *
 *      FOLDER/step-0000000020/checkpoint.json                  what it is, its files, a checksum of every tensor
 *                            /config.json                      the model's, as transformers reads it
 *                            /model.safetensors.index.json     weights in the master type, matrices [out, in]
 *                            /model-00001-of-00001.safetensors
 *                            /optimizer.safetensors.index.json, /optimizer-...: "NAME.exp_avg" and the like
 *
 *  Every rank writes its parts of the files to a folder with a temporary name, which is renamed when all is on the
 * disk: a checkpoint is complete or absent. All hosts must see the folder, on a file system on which several may write
 * to one file.
 *
 *  Calls are collective: every rank of the world makes them. A failure of one rank (REDCO_ESYSTEM: a full disk) is the
 * same error on all, which names that rank; only the loss of a peer looks different on each rank. */
#ifndef REDCO_CHECKPOINT_H
#define REDCO_CHECKPOINT_H

#include "costmodel/layouts/tensor_layout.h"
#include "costmodel/models/task.h"
#include "executor/comm/communicator.h"
#include "executor/states/states.h"

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_checkpoints redco_checkpoints;
typedef struct redco_checkpoint redco_checkpoint;

/** The best checkpoint of a run so far, by loss or metric of its evaluation. */
typedef struct redco_checkpoint_best {
    uint64_t step;  /**< 0: there is none */
    double value;   /**< its loss or metric */
    const char *by; /**< the quantity that decides: "loss", for one; static or the checkpoint's */
} redco_checkpoint_best;

/** The metadata of a checkpoint. */
typedef struct redco_checkpoint_info {
    uint64_t step;           /**< steps done */
    uint64_t seed;           /**< seed of first weights and tokens */
    uint64_t sequences;      /**< consumed so far: the run's position in its data */
    uint64_t global_batch;   /**< sequences of a step */
    uint64_t data_windows;   /**< sequences in the file of tokens; 0: they are made from the seed */
    const char *data_sha256; /**< digest of the data, made by the trainer; NULL: not known */
    uint32_t seq_len;
    uint32_t ranks; /**< that wrote it */
    double learning_rate;
    redco_dtype master; /**< type of all tensors: F64 or F32 */
    redco_optimizer_kind optimizer;
    const char *model_name, *model_sha256; /**< as in plan files */
    const char *plan_sha256;               /**< hash of the plan that wrote it */
    const json_t *model_config;
    const json_t *settings;     /**< training_settings.h; NULL: not known */
    const json_t *collected;    /**< a pipeline's state and the examples that it made; NULL: none */
    bool in_order;              /**< data are taken in the order of their file, not shuffled */
    redco_checkpoint_best best; /**< when it was written: of checkpoints until then, itself included */
} redco_checkpoint_info;

/** The tensors: tensor i of the states is the part that @p layouts gives this rank of parameter i. */
typedef struct redco_checkpoint_states {
    const redco_task *task;
    const redco_tp_layout *layouts;
    redco_states *states;
    redco_states_worker *worker;
    redco_optimizer optimizer;
    /** Where the states are of a pipeline stage: by tensor of theirs, the parameter of the task, and whether another
     *  stage has it, too, and writes it. NULL: tensor i is parameter i. */
    const size_t *parameter_of;
    const bool *written_elsewhere;
} redco_checkpoint_states;

/** The parameter that a tensor of the states is. */
static inline uint32_t redco_checkpoint_parameter(const redco_checkpoint_states *states, uint32_t tensor)
{
    return states->parameter_of != NULL ? (uint32_t)states->parameter_of[tensor] : tensor;
}

typedef struct redco_checkpoints_options {
    const char *folder;  /**< borrowed as long as it is open */
    uint32_t keep;       /**< checkpoints, at least 1: older ones are removed when a new one is on the disk, but for
                            the best */
    uint64_t file_bytes; /**< bytes of data after which another file begins; 0 = 4 GiB */
    bool resume;         /**< continue what is there; else there must be no checkpoint yet, and the folder is made */
    /** Rank 0: reports a checkpoint that is skipped, or a file or folder that is renamed. The caller shows it even if
     * quiet. May be NULL. */
    void (*tell)(void *context, const char *text);
    void *context;
} redco_checkpoints_options;

/** Locks the folder for this run and removes unfinished checkpoints of earlier runs. Files that redco did not write are
 * never removed: where they have a name that is needed, they are renamed to "damaged-step-NNNNNNNNNN", and reported.
 *  @param world  must outlive it
 *  @return REDCO_EVALUE if another run has it, or if there is a checkpoint that is not to be resumed */
redco_status redco_checkpoints_open(const redco_checkpoints_options *options, redco_world *world,
                                    redco_checkpoints **checkpoints_out, redco_error *err);
void redco_checkpoints_close(redco_checkpoints *checkpoints); /**< NULL is accepted */

/** Opens the newest intact checkpoint, every byte verified. @return REDCO_EVALUE if there is none */
redco_status redco_checkpoints_find(redco_checkpoints *checkpoints, redco_checkpoint **checkpoint_out,
                                    redco_error *err);
void redco_checkpoint_free(redco_checkpoint *checkpoint); /**< NULL is accepted */
const redco_checkpoint_info *redco_checkpoint_get_info(const redco_checkpoint *checkpoint);
const char *redco_checkpoint_path(const redco_checkpoint *checkpoint);
/** Parses "checkpoint.json" from memory; the files that it lists are not checked. @param name  the file's name in
 * errors */
redco_status redco_checkpoint_parse(const char *text, size_t size, const char *name, redco_checkpoint **checkpoint_out,
                                    redco_error *err);

/** Sets all weights and optimizer states.
 *  @return REDCO_EVALUE if its tensors are not those of the task and the optimizer: nothing was set then */
redco_status redco_checkpoint_load(redco_checkpoints *checkpoints, const redco_checkpoint *checkpoint,
                                   const redco_checkpoint_states *states, redco_error *err);

/** Writes a checkpoint, and removes those beyond the number to keep: only files that their manifests list and that are
 * unchanged. Changed checkpoints, and those that redco_checkpoints_find() skipped, are renamed. A failure leaves
 * earlier checkpoints as they were.
 *  @return REDCO_EINFEASIBLE if a value is not finite */
redco_status redco_checkpoints_save(redco_checkpoints *checkpoints, const redco_checkpoint_info *info,
                                    const redco_checkpoint_states *states, redco_error *err);

/** Marks the checkpoint of this step, the next to be written, as the best: it is kept until a better one. */
void redco_checkpoints_set_best(redco_checkpoints *checkpoints, const redco_checkpoint_best *best);
/** The best checkpoint; after redco_checkpoints_find() the one that the found checkpoint names, if it still exists. */
redco_checkpoint_best redco_checkpoints_best(const redco_checkpoints *checkpoints);

/** Removes a run's unfinished checkpoint after all its ranks have ended; leaves another run's alone. */
void redco_checkpoints_clean(const char *folder);

#ifdef __cplusplus
}
#endif
#endif
