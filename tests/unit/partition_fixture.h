/** @file partition_fixture.h  A model with its data, its partition among emulated ranks, and the comparison. The graphs
 * of all ranks are put into one, operator by operator, in which collectives are sums and concatenations of what the
 * ranks have: one process runs them in lockstep. */
#ifndef REDCO_TEST_PARTITION_FIXTURE_H
#define REDCO_TEST_PARTITION_FIXTURE_H

#include "costmodel/graph/differentiate.h"
#include "costmodel/layouts/partition.h"
#include "executor/backend/evaluate.h"
#include "executor/backend/host/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { RIG_INPUTS = 192, RIG_RANKS = 8 };

typedef struct fixture_input {
    char name[96];
    redco_value value;
    redco_tensor_type type;
    redco_tp_layout layout; /**< replicated until a test says otherwise */
    bool parameter;
    void *data;
} fixture_input;

/** A collective of a rank's graph. */
typedef struct fixture_traffic {
    uint32_t op; /**< in the rank's graph; its name is redco_op_name() */
    redco_op_kind kind;
    redco_rank_group group;
    /** The whole tensor: the buffer of an all-reduce, the output of an all-gather, the input of a reduce-scatter. */
    uint64_t size_bytes;
    uint64_t sent_bytes; /**< by one rank in a ring: (n-1)/n of it, an all-reduce twice that; rounded up */
} fixture_traffic;

typedef struct fixture {
    redco_graph *g;
    redco_backend *backend;
    uint64_t random;
    fixture_input input[RIG_INPUTS];
    uint32_t inputs;
    redco_value loss;
    redco_value gradient[RIG_INPUTS]; /**< by input; REDCO_NO_VALUE of what is no parameter */
    double *wanted[RIG_INPUTS + 1];   /**< gradients of the whole graph, and the loss behind them */
    double scale;                     /**< largest element of all of them */
    bool sequence_parallel;
    uint64_t batch, sequences[2];
    /* the last partition's, rank 0 */
    fixture_traffic *traffic;
    uint32_t traffic_count;
    char (*names)[120]; /**< names of the collectives */
    double worst;       /**< relative error */
} fixture;

/** The collectives of a rank's graph, in order, as the cost model counts them.
 *  @param traffic_out  the caller frees it with free(); NULL if there are none */
redco_status fixture_list_traffic(const redco_graph *local, fixture_traffic **traffic_out, uint32_t *count_out,
                                  redco_error *err);

void fixture_open(fixture *r, uint64_t seed);
void fixture_clear(fixture *r); /**< another model */
void fixture_close(fixture *r);
/** Teardown of a group of tests whose state is a fixture: tells the worst error, and closes it. */
int fixture_end(void **state);
/** Takes over a graph that was built elsewhere: its inputs get random data, integers below @p below. */
void fixture_adopt(fixture *r, redco_graph *g, int32_t below);
uint64_t fixture_below(fixture *r, uint64_t n);

redco_value fixture_parameter(fixture *r, const char *name, uint32_t rank, const uint64_t *dim);
redco_value fixture_data(fixture *r, const char *name, uint32_t rank, const uint64_t *dim); /**< f64, no parameter */
redco_value fixture_integers(fixture *r, const char *name, uint32_t rank, const uint64_t *dim, int32_t low,
                             int32_t high);
void fixture_set(fixture *r, const char *name, redco_tp_layout layout);
/** Gradients of all parameters, and all results of the whole graph. */
void fixture_finish(fixture *r, redco_value loss);

redco_status fixture_partition(const fixture *r, uint32_t ranks, uint32_t rank, redco_graph **local,
                               redco_value *outputs, redco_error *err);
/** Partitions among @p ranks and compares loss and gradients with the whole graph's.
 *  @param bound  of the error relative to the largest element of the tensor */
void fixture_check(fixture *r, uint32_t ranks, double bound, const char *what);

/** The part of an input's data that a rank has; the caller frees it. */
void *fixture_part(const fixture_input *input, const void *data, uint32_t ranks, uint32_t rank);

/** Bytes of the collectives of one kind whose names contain @p part. */
uint64_t fixture_bytes(const fixture *r, redco_op_kind kind, const char *part);
/** 1 for gathers and scatters, 2 for all-reduces, times bytes: redcost of all. */
uint64_t fixture_cost(const fixture *r);
void fixture_print(const fixture *r);

#endif
