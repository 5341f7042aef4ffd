/** @file evidence.h  The measured runs that a calibration set was fitted to, as layouts, and whether an answer lies
 *  among them. */
#ifndef REDCO_EVIDENCE_H
#define REDCO_EVIDENCE_H

#include "planner/assemble/inputs.h"
#include "planner/search/hull.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_EVIDENCE_NAME = 48, REDCO_EVIDENCE_NEAREST = 3, REDCO_EVIDENCE_TEXT = 320 };

/** One layout that ran. */
typedef struct redco_evidence_run {
    char source[REDCO_EVIDENCE_NAME], model[REDCO_EVIDENCE_NAME];
    uint32_t gpus, tp, cp, pp, chunks;
    redco_reach reach;
} redco_evidence_run;

typedef struct redco_evidence {
    redco_evidence_run *runs;
    size_t count;
    redco_hull hull;
} redco_evidence;

/** @param set  name of a calibration set
 *  @param evidence_out  NULL where no runs of it ship: it is the user's own, of redco-exec's operators, or a GPU's that
 *                       nobody measured. Freed with redco_evidence_free() */
redco_status redco_evidence_read(const char *set, redco_evidence **evidence_out, redco_error *err);
void redco_evidence_free(redco_evidence *evidence);

/** "pp 32 (measured up to 16), 2,048 tokens a rank and micro-batch (measured from 8,192)"; "" inside. @return @p buffer
 */
const char *redco_evidence_beyond(const redco_evidence *evidence, const redco_parallelism *parallelism,
                                  const redco_reach *reach, char *buffer, size_t size);

/** Indices of the nearest runs, nearest first: by the sum of distances in octaves. @return their number */
size_t redco_evidence_nearest(const redco_evidence *evidence, uint64_t gpus, const redco_parallelism *parallelism,
                              const redco_reach *reach, size_t nearest_out[REDCO_EVIDENCE_NEAREST]);

/** The member "evidence" of a plan file: a layout against the measured ones, and the nearest of them.
 *  @param seq_len  tokens of a sequence. @return new reference, or NULL when out of memory */
json_t *redco_evidence_describe(const redco_evidence *evidence, const redco_inputs *inputs, uint32_t seq_len,
                                const redco_parallelism *parallelism);

#ifdef __cplusplus
}
#endif
#endif
