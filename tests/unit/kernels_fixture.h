/** @file kernels_fixture.h  One operator at a time on a CUDA device and on the host: results within bounds, the same
 *  again and in place, and nothing written outside of them. Nothing here knows of mock libraries. */
#ifndef REDCO_TEST_KERNELS_FIXTURE_H
#define REDCO_TEST_KERNELS_FIXTURE_H

#include "costmodel/graph/build_calls.h"
#include "executor/backend/backend.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    redco_backend *host, *cuda;
    redco_device_stream *host_stream, *stream;
    uint64_t random;
    uint32_t cases, launches_in_place;
} fixture;

/** A case: types and attributes are the operator's; data is random. */
typedef struct kernel_case {
    redco_op_kind kind;
    redco_attributes attributes;
    uint32_t input_count;
    redco_tensor_type in[REDCO_INPUTS_MAX];
    const void *given[REDCO_INPUTS_MAX]; /**< data, or NULL: random */
    double low, high;                    /**< range of floating-point data */
    int32_t first, end;                  /**< range of whole numbers */
    bool special;                        /**< infinities, not-a-number, zeros among the data */
    bool shifted;                        /**< tensors begin at 16 bytes, as parts of vectors may */
    /** Difference allowed, in units of the last place of the output's type; 0: the same bits, or both not-a-number.
     * Types of 16 bits: one unit, wherever it is not 0, since both round a result computed in F32. */
    double units;
    bool whole; /**< relative to the largest result, not to each */
} kernel_case;

/** Ends the program with 77 and the reason where there is no device. */
int fixture_open(void **state);
int fixture_close(void **state);
uint64_t fixture_below(fixture *r, uint64_t n);

/** Fails the test where the device does not do as the host. */
void fixture_check(fixture *r, const kernel_case *c);
/** Runs it on the device and waits. @return what came of it, with @p err filled */
redco_status fixture_try(fixture *r, const kernel_case *c, redco_error *err);

redco_tensor_type fixture_dims(redco_dtype dtype, uint32_t rank, const uint64_t *dim);

#define DIMS(dtype, ...)                                                                                               \
    fixture_dims(dtype, (uint32_t)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (uint64_t[]){__VA_ARGS__})

#endif
