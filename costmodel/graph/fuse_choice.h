/** @file fuse_choice.h  The question of a pass that fuses operators before it makes one: does the device have it? */
#ifndef REDCO_GRAPH_FUSE_CHOICE_H
#define REDCO_GRAPH_FUSE_CHOICE_H

#include "costmodel/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_fuse_choice {
    /** @param op  kind, attributes, input_count and output_count are set */
    bool (*supports)(void *context, const redco_op *op, const redco_tensor_type *inputs,
                     const redco_tensor_type *outputs);
    void *context;
} redco_fuse_choice;

#ifdef __cplusplus
}
#endif
#endif
