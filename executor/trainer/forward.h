/** @file forward.h  A graph of the trained model on the plan's ranks without gradients: losses and predictions, with
 * the weights where training has them. Parameters that are sharded are gathered before their first use and given up
 * behind their last. Between steps only. Internal to executor/trainer. */
#ifndef REDCOI_FORWARD_H
#define REDCOI_FORWARD_H

#include "costmodel/layouts/partition.h"
#include "executor/memory_plan/planned_memory.h"
#include "executor/trainer/trainer_internal.h"

/** A value that stays on the device from run to run, such as the keys of a generation. */
typedef struct redcoi_kept {
    const char *name;  /**< name of the graph's input */
    redco_value value; /**< the value that a run makes in its place, lying as it does; REDCO_NO_VALUE: nothing */
    bool split;        /**< along dimension 2, heads, where the ranks divide it; else whole on every rank */
    redco_tensor_type type;
} redcoi_kept;

typedef struct redcoi_forward_options {
    const redco_graph *graph;   /**< graph of the whole model; borrowed for the call */
    const redco_value *results; /**< its values that are read: whole on every rank */
    uint32_t result_count;
    const redcoi_kept *kept;
    uint32_t kept_count;
} redcoi_forward_options;

typedef struct redcoi_forward redcoi_forward;

/** Every rank calls it. Takes the memory of a run, gathered parameters and results. */
redco_status redcoi_forward_create(redco_trainer *trainer, const redcoi_forward_options *options,
                                   redcoi_forward **forward_out, redco_error *err);
void redcoi_forward_free(redcoi_forward *forward); /**< NULL is accepted */

/** Bytes of a kept tensor on this rank. */
uint64_t redcoi_kept_bytes(const redco_trainer *trainer, const redcoi_kept *kept);

/** Data of an input, in the program's memory: of the input's type. An input that the graph does not read is passed
 * over. */
typedef struct redcoi_fed {
    const char *name;
    const void *data;
} redcoi_fed;

/** Every rank calls it as often, as parameters are gathered by all; graphs may differ.
 *  @param kept_in, kept_out  device memory, by the options' kept tensors; NULL without any */
redco_status redcoi_forward_run(redcoi_forward *forward, const redcoi_fed *fed, uint32_t fed_count,
                                void *const *kept_in, void *const *kept_out, redco_error *err);
/** A result of the last run, into the program's memory. */
redco_status redcoi_forward_read(const redcoi_forward *forward, uint32_t result, void *out, redco_error *err);

#endif
