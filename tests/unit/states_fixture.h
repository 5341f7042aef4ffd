/** @file states_fixture.h  A small model with gradients made up from rank, micro-batch, step, element and weight, the
 *  training of it on one rank by loops over doubles, and the same through sharded states. */
#ifndef REDCO_TESTS_STATES_FIXTURE_H
#define REDCO_TESTS_STATES_FIXTURE_H

#include "executor/backend/host/host.h"
#include "tests/unit/states_step.h"

#include <stdio.h>

/** To be printed by a rank. */
#define SAY(rank, trial, ...)                                                                                          \
    do {                                                                                                               \
        (void)fprintf(stderr, "rank %u, trial %u: ", (rank), (trial));                                                 \
        (void)fprintf(stderr, __VA_ARGS__);                                                                            \
        (void)fprintf(stderr, "\n");                                                                                   \
    } while (0)

enum { FIX_TENSORS = 9, FIX_MODULES = 6, FIX_LAYERS = 5, FIX_MOST = 128 };

/** The way to train. */
struct trial {
    redco_rank_mesh mesh;
    redco_mesh secondary;
    redco_shards shards[FIX_LAYERS];
    redco_scheme scheme;
    redco_optimizer optimizer;
    redco_dtype dtype;
    uint32_t micro_batches, steps;
    uint64_t bucket_bytes;
    bool tight;  /**< granules of 1 element instead of the usual ones */
    bool coarse; /**< gradients are few small integers, so that 16-bit sums are exact */
    bool nan;    /**< one gradient of the second step is not a number */
    /** For a single rank: each gradient is the sum over so many replicas and micro-batches. */
    uint32_t sum_replicas, sum_micro_batches;
};

/** Values of all tensors, the split ones of all tensor-parallel ranks one behind the other. */
struct values {
    double of[FIX_TENSORS][FIX_MOST];
};

struct reference {
    struct values weights, state[REDCO_OPTIMIZER_STATES_MAX];
    double norm; /**< after the last step */
};

/** Borrowed by states: the model of a trial. */
struct fixture_model {
    redco_state_layer layers[FIX_LAYERS];
    redco_state_model model;
};
void fixture_model_make(struct fixture_model *fixture, const redco_shards *shards);

uint64_t fixture_elements(uint32_t tensor); /**< on one tensor-parallel rank */
bool fixture_replicated(uint32_t tensor);
/** Place in struct values of element @p i of rank @p tp's tensor. */
uint64_t fixture_place(uint32_t tensor, uint32_t tp, uint64_t i);
double fixture_initial(uint32_t tensor, uint64_t place);
double fixture_gradient(const struct trial *trial, uint32_t tensor, uint64_t place, uint32_t replica,
                        uint32_t micro_batch, uint64_t step, double weight);
/** All steps of the trial, unsharded. */
void fixture_reference(const struct trial *trial, struct reference *reference);

/** A rank's states under a trial. */
struct run {
    const struct trial *trial;
    struct fixture_model model;
    redco_backend *backend;
    redco_device_comm *device_comm;
    redco_states *states;
    redco_states_worker *worker;
    uint64_t step;
    uint32_t rank;
    double norm;
};

/** With initial weights. */
redco_status run_open(struct run *run, const struct trial *trial, redco_world *world, redco_error *err);
void run_close(struct run *run);
/** The inputs of states_step(). */
redco_status run_gradient(void *context, redco_micro_batch micro_batch, uint32_t module, const void *weights,
                          void *gradient, redco_error *err);
redco_status run_step(struct run *run, redco_error *err);
/** The whole module as this rank gathers it. @return NULL when memory is short or a call failed */
void *run_gathered(struct run *run, uint32_t module, bool backward);

/** Gives new weights: initial ones plus @p shift. */
redco_status run_set(struct run *run, double shift, redco_error *err);

double error_of(double got, double want); /**< relative, of values of the order of 1 */
/** Worst of the weights as this rank gathers them, of the states that it owns (1 where it wrote others). */
double weights_error(struct run *run, const struct reference *reference);
double states_error(struct run *run, const struct reference *reference);

double load(redco_dtype dtype, const void *data, uint64_t at);
void store(redco_dtype dtype, void *data, uint64_t at, double value);

#endif
