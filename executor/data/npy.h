/** @file npy.h  Arrays as numpy.save() writes them. Source of the format: NumPy 2.1, numpy/lib/format.py (versions 1, 2
 *  and 3): magic, version, length of the header, a Python dictionary, then the elements. Pure. */
#ifndef REDCO_NPY_H
#define REDCO_NPY_H

#include "topology/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_NPY_RANK_MAX = 8 };

typedef struct redco_npy {
    char kind;              /**< 'b' truth values, 'i' and 'u' whole numbers, 'f' floating */
    uint32_t element_bytes; /**< 1, 2, 4 or 8; of floating numbers 4 or 8 */
    uint32_t rank;
    uint64_t dim[REDCO_NPY_RANK_MAX];
    uint64_t elements;
    const unsigned char *data; /**< in the bytes that were given, little-endian, the last dimension without gaps */
} redco_npy;

/** @param name  stands for the file in errors
 *  @return REDCO_EVALUE if it is no such array, has elements of another kind or order, or is cut off */
redco_status redco_npy_parse(const void *bytes, size_t size, const char *name, redco_npy *array_out, redco_error *err);

/** An element that is a whole number or a truth value. @return false if it does not fit */
bool redco_npy_whole(const redco_npy *array, uint64_t index, int64_t *out);
double redco_npy_real(const redco_npy *array, uint64_t index);

/** Row @p row of the first dimension as lists of numbers, or one number of an array of rank 1. New reference, NULL when
 *  out of memory or if an element is no number. */
json_t *redco_npy_row(const redco_npy *array, uint64_t row);

#ifdef __cplusplus
}
#endif
#endif
