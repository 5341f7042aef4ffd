/** @file graph_fixture.h  A graph with its data on the host backend, or, where LAB_CUDA is defined, on a CUDA device;
 * and checks of its derivatives. */
#ifndef REDCO_TEST_GRAPH_FIXTURE_H
#define REDCO_TEST_GRAPH_FIXTURE_H

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/differentiate.h"
#include "costmodel/graph/transform.h"
#include "executor/backend/cuda/cuda.h"
#include "executor/backend/evaluate.h"
#include "executor/backend/host/host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LAB_INPUTS = 96, LAB_ELEMENTS = 4096 };

/** The outcome of derivative checks. */
typedef struct fixture_record {
    uint32_t checks;
    double worst; /**< relative error */
    char where[64];
} fixture_record;

typedef struct fixture {
    redco_graph *g;
    redco_backend *backend;
    uint64_t random; /**< state of the test's own generator */
    redco_value input[LAB_INPUTS];
    void *data[LAB_INPUTS];
    bool varied[LAB_INPUTS]; /**< derivatives with respect to it are checked */
    uint32_t inputs;
    fixture_record first, second, fused;
    bool seen[REDCO_OP_COUNT]; /**< operators whose derivatives were checked */
} fixture;

void fixture_open(fixture *l, uint64_t seed);
/** A new graph; backend and records stay. */
void fixture_clear(fixture *l);
void fixture_close(fixture *l);

double fixture_uniform(fixture *l, double low, double high);
uint64_t fixture_below(fixture *l, uint64_t n);
/** Sizes 1, 2, 3, 5 at random, at most @p limit elements. */
void fixture_dims(fixture *l, uint32_t rank, uint64_t limit, uint64_t *dim);

/** F64 inputs whose derivatives are checked: uniform in [low, high), or a shuffled grid of (k + phase) / 10, centred,
 * so that no two elements are near each other. */
redco_value fixture_real(fixture *l, uint32_t rank, const uint64_t *dim, double low, double high);
redco_value fixture_grid(fixture *l, uint32_t rank, const uint64_t *dim, double phase);
redco_value fixture_integers(fixture *l, uint32_t rank, const uint64_t *dim, int32_t low,
                             int32_t high); /**< in [low, high) */
redco_value fixture_bools(fixture *l, uint32_t rank, const uint64_t *dim, double share);
redco_value fixture_given(fixture *l, redco_dtype dtype, uint32_t rank, const uint64_t *dim, const void *data);

/** Runs the graph; fails the test on an error. @param out dense data of the value's type */
void fixture_run(fixture *l, redco_value value, void *out);
/** Fails the test unless running it ends with this error. */
void fixture_refuses(fixture *l, redco_value value, const char *text);
double fixture_scalar(fixture *l, redco_value value); /**< the value of an F64 scalar */
double fixture_first(fixture *l, redco_value value);  /**< first element of an F64 value */
/** Fails the test if the graph holds an error. */
void fixture_assert_ok(const fixture *l);

/** All of @p values, flat, one behind the other. */
redco_value fixture_join(fixture *l, const redco_value *values, uint32_t count);

/** Checks first and second derivatives of sum(y w), w random and varied too, with respect to all varied inputs along
 * random directions against central differences of fourth order, and all of them against the graph whose fused
 * operators are decomposed. */
void fixture_check_derivatives(fixture *l, const char *name, redco_value y);

/** Bounds of the relative errors, and why: differences of h = 1e-3 have a truncation error of h^4 f'''''/30, about
 * 1e-12, and the rounding of f, about 1e-16, divided by h; both relative to the sum of absolute parts of the
 * derivative. Sharp functions (x^-3 of a second derivative near 0.5) have larger fifth derivatives. */
#define LAB_FIRST_BOUND 1e-8
#define LAB_SECOND_BOUND 2e-7
#define LAB_FUSED_BOUND 1e-10

#endif
