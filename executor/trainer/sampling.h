/** @file sampling.h  The next token from the logits of one sequence. Pure. */
#ifndef REDCO_SAMPLING_H
#define REDCO_SAMPLING_H

#include "topology/base/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Applied in this order, as transformers does. */
typedef struct redco_sampling {
    double temperature; /**< logits are divided by it; 0: the largest logit, of equals the first */
    uint64_t top_k;     /**< only the k largest; 0: all */
    double top_p;       /**< only the largest whose probabilities together first reach it; 1: all */
    uint64_t seed;
} redco_sampling;

/** @return REDCO_EVALUE if a number is out of range; the text names it */
redco_status redco_sampling_check(const redco_sampling *sampling, redco_error *err);

/** Draws by a number that seed, sequence and place determine: neither batches nor ranks change it.
 *  @param order     room for @p count numbers
 *  @param sequence  its number in the file
 *  @param place     of the token in what is generated
 *  @return the token, or -1 if a logit is not a number */
int32_t redco_sample(const redco_sampling *sampling, const double *logits, uint32_t count, uint32_t *order,
                     uint64_t sequence, uint64_t place);

#ifdef __cplusplus
}
#endif
#endif
