/** @file program.h  A small elementwise graph run over long vectors in memory, piece by piece: how gradients are added,
 *  squares summed and optimizers stepped on any backend. Internal to executor/states.
 *
 *  The graph is built over vectors of one chunk and scalars; a run gives vectors of any length. */
#ifndef REDCO_STATES_PROGRAM_H
#define REDCO_STATES_PROGRAM_H

#include "executor/backend/backend.h"

enum { REDCOI_PROGRAM_INPUTS = 8, REDCOI_PROGRAM_OUTPUTS = 4 };

/** No input lies in the output's memory. */
#define REDCOI_PROGRAM_APART UINT32_MAX

typedef struct redcoi_program {
    redco_graph *graph;
    uint64_t chunk; /**< elements that are worked on at once; set with the graph, at least 16 */
    uint32_t input_count, output_count;
    redco_value inputs[REDCOI_PROGRAM_INPUTS];
    redco_value outputs[REDCOI_PROGRAM_OUTPUTS];
    uint32_t
        over[REDCOI_PROGRAM_OUTPUTS];  /**< the owner of the memory that it is written to: an input's number, or none */
    bool late[REDCOI_PROGRAM_OUTPUTS]; /**< written at the end: what is in that memory is read until then */
    uint64_t *place;    /**< place of each value in working memory; inputs and outputs that are not late have none */
    uint32_t *last_use; /**< operator that reads a value last */
    uint64_t work_bytes, workspace_at;
} redcoi_program;

/** Working memory of one thread. */
typedef struct redcoi_worker_memory {
    redco_backend *backend;
    redco_device_stream *stream;
    unsigned char *work; /**< the largest work_bytes of the programs it runs */
} redcoi_worker_memory;

redco_value redcoi_program_input(redcoi_program *program, const char *name, redco_dtype dtype, bool scalar);
/** A few numbers, the same for all chunks. */
redco_value redcoi_program_numbers(redcoi_program *program, const char *name, redco_dtype dtype, uint32_t count);
redco_value redcoi_program_number(redcoi_program *program, redco_value numbers, uint32_t index); /**< one, rank 0 */
/** @param over  the input (as they were added, from 0) whose memory every run gives for it, or REDCOI_PROGRAM_APART */
void redcoi_program_output(redcoi_program *program, redco_value value, uint32_t over);
/** After all inputs and outputs: fuses the operators and plans working memory. */
redco_status redcoi_program_finish(redcoi_program *program, redco_backend *backend, redco_error *err);
void redcoi_program_free(redcoi_program *program); /**< frees its contents */

/** Queues it all.
 *  @param inputs   vectors of @p count elements and scalars, in the order in which they were added
 *  @param outputs  likewise. A scalar is of one chunk, so that @p count is at most a chunk then */
redco_status redcoi_program_run(const redcoi_program *program, const redcoi_worker_memory *memory,
                                const void *const *inputs, void *const *outputs, uint64_t count, const char *name,
                                redco_error *err);

#endif
