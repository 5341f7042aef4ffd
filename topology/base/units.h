/** @file units.h  Quantities as people write them ("4.8 TB/s", "80 GiB", "10 us") to SI numbers and back.
 *  Alone in knowing prefixes: k M G T P are powers of 1000, Ki Mi Gi Ti powers of 1024. A number without unit is an
 *  error. Pure functions. */
#ifndef REDCO_BASE_UNITS_H
#define REDCO_BASE_UNITS_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_unit {
    REDCO_UNIT_BYTES,       /**< "80 GB", "512 MiB" */
    REDCO_UNIT_BYTES_PER_S, /**< "4.8 TB/s"; "200 Gb/s" and "200 Gbit/s" are bits and divide by 8 */
    REDCO_UNIT_SECONDS,     /**< "5 us", "1.2 ms", "3 s", "800 ns" */
    REDCO_UNIT_FLOPS_PER_S, /**< "312 TFLOP/s" */
    REDCO_UNIT_WATTS        /**< "400 W" */
} redco_unit;

/** Reads one quantity. Negative, infinite, NaN and values above 1e30 are refused.
 *  @param place      for the error text
 *  @param value_out  SI base units; written only on success
 *  @return REDCO_OK or REDCO_EVALUE */
redco_status redco_unit_parse(const char *text, redco_unit unit, const char *place, double *value_out,
                              redco_error *err);

/** Writes @p value with four significant digits and the prefix that keeps it below 1000, e.g. "57.12 GB".
 *  @return @p buffer */
const char *redco_unit_format(double value, redco_unit unit, char *buffer, size_t size);

/** a * b, or false when it does not fit into 64 bits. */
bool redco_mul_u64(uint64_t a, uint64_t b, uint64_t *product_out);

#ifdef __cplusplus
}
#endif
#endif
