/** @file runs.h  The offsets of a rank's elements in a file of whole tensors, and a checksum that is the sum over
 * parts. Pure. Internal to executor/checkpoint. */
#ifndef REDCO_CHECKPOINT_RUNS_H
#define REDCO_CHECKPOINT_RUNS_H

#include "costmodel/layouts/tensor_layout.h"

/** A tensor of which a rank holds a part, as memory and files have it. */
typedef struct redcoi_placing {
    redco_tensor_type whole; /**< as the executor stores it */
    bool transposed;         /**< the file has it the other way round; of matrices only */
    redco_tp_layout layout;  /**< replicated or split; fits */
    uint32_t ranks, rank;    /**< tensor-parallel ranks */
} redcoi_placing;

/** Consecutive elements of the file. */
typedef struct redcoi_run {
    uint64_t file_at;  /**< element of the file's tensor */
    uint64_t local_at; /**< element of this rank's part, from the beginning of the range that is walked */
    uint64_t count;
    uint64_t stride; /**< between them in the part */
} redcoi_run;

typedef redco_status (*redcoi_run_visit)(void *context, const redcoi_run *run, redco_error *err);

/** All runs of elements @p begin to @p begin + @p count of this rank's part. Stops at the first failure. */
redco_status redcoi_runs_walk(const redcoi_placing *placing, uint64_t begin, uint64_t count, redcoi_run_visit visit,
                              void *context, redco_error *err);

/** The sum over elements, modulo 2^64, of a number that depends on the element's bits and its place in the file's
 *  tensor. So parts can be summed in any order by anybody, and one element that is another is always seen:
 *
 *      mix(bits + (place + 1) 0x9e3779b97f4a7c15),  mix being the output function of SplitMix64 (Steele, Lea and Flood,
 *      OOPSLA 2014), which is one-to-one
 *
 *  @param element_bytes  4 or 8
 *  @param place          of the first element */
uint64_t redcoi_checksum(const void *elements, uint64_t count, uint32_t element_bytes, uint64_t place);

#endif
