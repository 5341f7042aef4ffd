/** @file type.h  Element types and shapes of tensors. Pure functions, no allocation.
 *  Tensors are dense and row-major: the last dimension is contiguous. Every dimension is at least 1; rank 0 is a
 * scalar. */
#ifndef REDCO_GRAPH_TYPE_H
#define REDCO_GRAPH_TYPE_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_RANK_MAX = 8, REDCO_TYPE_TEXT_BYTES = 200 };

typedef enum redco_dtype {
    REDCO_F32,
    REDCO_F64,
    REDCO_BFLOAT16, /**< 8 bits of exponent, 8 of significand: the upper half of an F32 */
    REDCO_F16,      /**< IEEE 754 binary16 */
    REDCO_I32,
    REDCO_BOOL, /**< one byte, 0 or 1 */
    REDCO_DTYPE_COUNT
} redco_dtype;

typedef struct redco_tensor_type {
    redco_dtype dtype;
    uint32_t rank;
    uint64_t dim[REDCO_RANK_MAX]; /**< those from rank on are 0 */
} redco_tensor_type;

/** A type of given dimensions; it is checked where it meets a graph. @param dim rank entries, borrowed for the call */
redco_tensor_type redco_type(redco_dtype dtype, uint32_t rank, const uint64_t *dim);

const char *redco_dtype_name(redco_dtype dtype);      /**< static: "f32", "bf16", "bool" */
uint32_t redco_dtype_bytes(redco_dtype dtype);        /**< bytes of one element */
bool redco_dtype_is_float(redco_dtype dtype);         /**< F32, F64, BF16, F16 */
redco_dtype redco_dtype_statistic(redco_dtype dtype); /**< sums are kept in F64 for F64, else in F32 */

uint64_t redco_type_elements(const redco_tensor_type *type); /**< product of the dimensions; 1 for a scalar */
uint64_t redco_type_bytes(const redco_tensor_type *type);
bool redco_type_equal(const redco_tensor_type *a, const redco_tensor_type *b);
bool redco_type_same_dims(const redco_tensor_type *a, const redco_tensor_type *b);
/** Rank, dimensions and total size (below 2^48 elements) are in range. @param place of the error: who asked */
redco_status redco_type_check(const redco_tensor_type *type, const char *place, redco_error *err);
/** "f32[2,3]". @return @p text */
const char *redco_type_text(const redco_tensor_type *type, char text[REDCO_TYPE_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
