/** @file run_phases.h  A run of several phases (growing batch, longer sequences, other numbers of GPUs) as a JSON file,
 *  format redco-run (planner/run/phases.schema.json). Nothing here prints. */
#ifndef REDCO_RUN_PHASES_H
#define REDCO_RUN_PHASES_H

#include "planner/answer/question.h"
#include "planner/run/run_terms.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_MOST_PHASES = 64 };

typedef struct redco_phase {
    const char *name; /**< borrowed from the document */
    double tokens;
    uint64_t gpus, global_batch; /**< 0: as the question has it */
    uint32_t seq_len, tp, pp, cp, micro_batch;
} redco_phase;

/** The file. */
typedef struct redco_phases redco_phases;

/** Reads phases; terms of the file ("failures", "price", ...: redco_run_words_take()) go into @p words, "model" and
 *  "cluster" into @p names, both where not said before: the command line wins. @param words, names  texts are borrowed
 *  @param phases_out  freed with redco_phases_free(), after words and names */
redco_status redco_phases_read(const char *path, redco_run_words *words, redco_input_names *names,
                               redco_phases **phases_out, redco_error *err);
redco_status redco_phases_from_json(redco_json *document, redco_run_words *words, redco_input_names *names,
                                    redco_phases **phases_out, redco_error *err);
void redco_phases_free(redco_phases *phases);
uint32_t redco_phases_count(const redco_phases *phases);

/** One phase as it comes out. */
typedef struct redco_phase_answer {
    const char *name; /**< borrowed from the phases */
    uint64_t gpus, global_batch;
    uint32_t seq_len;
    redco_parallelism parallelism;
    double mfu;
    redco_run_estimate run;
} redco_phase_answer;

/** Plans each phase and adds them up.
 *  @param answers_out  redco_phases_count() of them
 *  @return REDCO_EINFEASIBLE naming the phase that no plan fits */
redco_status redco_phases_plan(const redco_phases *phases, const redco_question *question, const redco_run_words *words,
                               redco_phase_answer *answers_out, redco_run_estimate *total_out, redco_error *err);

/** {"format": "redco-run-phases", "phases", "total"}: a new reference, NULL when out of memory. */
json_t *redco_phases_to_json(const redco_phase_answer *answers, uint32_t count, const redco_run_estimate *total);

#ifdef __cplusplus
}
#endif
#endif
