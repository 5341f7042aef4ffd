/** @file exchange_weights.h  Imports and exports weights of sharded states: safetensors with the names and shapes that
 *  HuggingFace transformers loads. Optimizer states are in checkpoints alone (checkpoint.h). */
#ifndef REDCO_EXCHANGE_WEIGHTS_H
#define REDCO_EXCHANGE_WEIGHTS_H

#include "executor/checkpoint/checkpoint.h"
#include "executor/data/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Sets this rank's part of all weights. Each rank calls it and reads only what it holds.
 *  @param weights  of the states' task
 *  @return REDCO_EVALUE, on the rank that meets it, if a value is no finite number */
redco_status redco_weights_import(redco_weights *weights, const redco_checkpoint_states *states, redco_error *err);

typedef struct redco_weights_export {
    const char *folder;  /**< one that is not there yet, or is empty */
    redco_dtype dtype;   /**< type in the files: BF16, F32 or, where master weights have it, F64 */
    uint64_t file_bytes; /**< bytes of data after which another file begins; 0 = 4 GiB */
    const json_t *model_config;
} redco_weights_export;

/** Checks that a folder can be written to, before the training.
 *  @return REDCO_EVALUE if something is in it, or REDCO_ESYSTEM if it cannot be made */
redco_status redco_weights_export_check(const char *folder, redco_error *err);
/** Removes files of an interrupted export: the temporary ones, and those in their place without "config.json", which is
 * written last. */
void redco_weights_export_clean(const char *folder);
/** Writes them, with "config.json" and, of several files, an index. Every rank of the world calls it and writes a part.
 *  @return on all ranks alike; after a failure no file of it is left. REDCO_EINFEASIBLE: a value is not finite */
redco_status redco_weights_export_write(const redco_weights_export *options, const redco_checkpoint_states *states,
                                        redco_world *world, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
