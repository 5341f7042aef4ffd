/** @file rounds.h  Which examples are run together, by whom. Pure. Internal to executor/trainer. */
#ifndef REDCOI_ROUNDS_H
#define REDCOI_ROUNDS_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { REDCOI_PADDED_LENGTHS_MAX = 8 };

/** Examples in order of length, longest first, cut into batches; batch b is data-parallel rank b mod ranks' in round
 *  b / ranks. So what is run together does not depend on the ranks. */
typedef struct redcoi_rounds {
    uint64_t *order; /**< numbers of examples */
    uint32_t *lengths;
    uint64_t count; /**< examples */
    uint32_t batch;
    uint32_t longest;
    uint32_t unit; /**< padded lengths are its multiples, or the longest */
    uint64_t batches;
} redcoi_rounds;

/** @param lengths  of the examples, at least one; copied
 *  @param padded   how many lengths there may be, at least 1 */
redco_status redcoi_rounds_make(const uint32_t *lengths, uint64_t count, uint32_t batch, uint32_t padded,
                                redcoi_rounds *rounds_out, redco_error *err);
void redcoi_rounds_free(redcoi_rounds *rounds); /**< an all-zero one is accepted */

/** Rounds of @p ranks. */
uint64_t redcoi_rounds_of(const redcoi_rounds *rounds, uint64_t ranks);
/** The number of a padded length, from 1 to as many as there may be. */
uint32_t redcoi_rounds_number(const redcoi_rounds *rounds, uint32_t length);
/** The length that a batch is padded to: its longest example, rounded up. @param batch  from batches on: as the first
 */
uint32_t redcoi_rounds_length(const redcoi_rounds *rounds, uint64_t batch);
/** The example of a row of a batch. @return false if there is none: the row is of no meaning */
bool redcoi_rounds_example(const redcoi_rounds *rounds, uint64_t batch, uint32_t row, uint64_t *example_out);

#endif
