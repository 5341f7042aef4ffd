/** @file products_fixture.h  One operator on a device and, decomposed, on the host. */
#ifndef REDCO_TESTS_PRODUCTS_FIXTURE_H
#define REDCO_TESTS_PRODUCTS_FIXTURE_H

#include "costmodel/graph/graph.h"
#include "executor/backend/backend.h"
#include "executor/backend/cuda/cuda.h"

enum { INPUTS = 4, OUTPUTS = 2 };

/** The operands of products. */
extern const redco_dtype dtypes[4];

typedef struct fixture {
    redco_backend *host, *cuda;
    redco_device_stream *stream;
    unsigned char *memory; /**< on the device, for the tensors and the workspace of any product that is checked */
} fixture;

/** Ends the program as skipped where there is no device. */
redco_backend *open_cuda(const redco_cuda_options *options);
/** Queue and memory. */
void take_memory(fixture *r);
void return_memory(fixture *r);
/** Setup and teardown of a test. */
int open_fixture(void **state);
int close_fixture(void **state);

uint64_t next(uint64_t *seed);
/** Sixteenths in [-2, 2]: every type has them. */
void fill(const redco_tensor_type *type, void *data, uint64_t *seed);

typedef struct outcome {
    redco_tensor_type type[OUTPUTS];
    void *data[OUTPUTS];
} outcome;

void discard(outcome *o);

/** An operator on inputs of its own. */
typedef struct single {
    redco_graph *g;
    const redco_op *op;
    redco_tensor_type out[OUTPUTS];
} single;

single open_single(redco_op_kind kind, const redco_attributes *attributes, const redco_tensor_type *types,
                   uint32_t count);
/** On the host, decomposed. */
redco_status on_host(redco_backend *host, const single *s, uint64_t seed, outcome *o, redco_error *err);
/** On the device, as it is. */
redco_status on_cuda(const fixture *r, const single *s, uint64_t seed, outcome *o, redco_error *err);
/** Fails the test where they differ by more than rounding: sums are of @p k terms. */
void compare(const outcome *have, const outcome *want, const char *what, double k);
/** Against f64, in which all that is computed from sixteenths is exact but for GELU.
 *  @param k  terms of the longest sum, times the size of what the epilogue may make of a term */
void check(const fixture *r, redco_op_kind kind, const redco_attributes *attributes, const redco_tensor_type *types,
           uint32_t count, double k, uint64_t seed);

/** The terms that GELU adds to those of check(), whose bound has 16 unit roundoffs for each: its argument of up to 4 k
 * + 2 is rounded about 20 times, nearly half of them next to 1 (five operations of tanh's argument, its scaling, the
 * exponential (4 of 2 ulp), a sum, a quotient (4), a difference, a sum, two products), as a library may compute it in
 * any way. */
double gelu_terms(double k);

redco_tensor_type matrices(redco_dtype dtype, uint32_t batch, const uint64_t *dims, bool turned, uint64_t rows,
                           uint64_t columns);
/** Attributes of a product. */
redco_attributes turned(bool ta, bool tb);

#endif
