/* Checks of graphs whose operators were fused, which several tests share. */
#ifndef REDCO_TEST_FUSION_CHECKS_H
#define REDCO_TEST_FUSION_CHECKS_H

#include "costmodel/graph/fuse.h"

#include <stdbool.h>
#include <stdint.h>

/* Fails the test on an error. */
void fusion_must(redco_status st, const redco_error *err);
/* Operators of one kind; for REDCO_OP_COUNT, those that are no elementwise ones, constants or views. */
uint32_t fusion_count(const redco_graph *graph, redco_op_kind kind);
bool fusion_same_graph(const redco_graph *a, const redco_graph *b);
/* Bytes that elementwise operators read and write for the outputs: each operator its inputs, once each, and its
 * outputs. choose is asked for each such operator whether it counts; NULL: all do. */
uint64_t fusion_elementwise_bytes(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                  bool (*choose)(void *context, const redco_op *op), void *context);
/* The promises of fuse.h; outputs of both graphs. */
void fusion_check_promises(const redco_graph *before, const redco_value *outputs, const redco_graph *after,
                           const redco_value *after_outputs, uint32_t count, const redco_fuse_options *options);

#endif
