/** @file run_terms.h  Terms of a run as people write them, on a command line or in a file: a key and a text. */
#ifndef REDCO_RUN_TERMS_H
#define REDCO_RUN_TERMS_H

#include "planner/run/run_estimate.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The given terms, until the GPU is known; texts are borrowed. */
typedef struct redco_run_words {
    redco_run_terms terms;
    bool failures_given, tokens_given;
    uint32_t said;          /**< bit by place in redco_run_keys */
    bool recovery_given[3]; /**< detection, restart, repair */
    double recovery_s[3];
    const char *price; /**< NULL: none */
} redco_run_words;

redco_run_words redco_run_words_default(void);

/** Takes one term:
 *      tokens          "15T"
 *      price           "2.5/gpu-hour", a preset or a file of prices
 *      failures        "12/30d", "466/54d/2048", a preset or a file
 *      recovery        "detect=1min,restart=4min,reload=30s,repair=24h", any of them
 *      checkpoint      "blocking|async|memory[,interval=10min][,wait=5s][,write=60s]"
 *      storage         "2 TB/s", of all nodes together
 *      spares          "4" nodes
 *      fault-tolerant  how long all wait when a replica fails: "3min"; "" as assumed
 *      critical-batch  "40M" tokens, a preset or a file of batches
 *      noise           "static=0.01,transient=0.02"
 *      slow-rank       "1.2"
 *      pue             "1.2"
 *      grid            "56 gCO2/kWh", a preset or a file
 *      host-watts      "350": a GPU's share of hosts, fans and network
 *  @param place  of errors. @return REDCO_EVALUE also for an unknown key */
redco_status redco_run_words_take(redco_run_words *words, const char *key, const char *text, const char *place,
                                  redco_error *err);
/** @return whether a key was taken. */
bool redco_run_words_said(const redco_run_words *words, const char *key);
/** The keys above, NULL-terminated. */
extern const char *const redco_run_keys[];

/** The terms for one GPU, whose price is looked up.
 *  @param price_known_out  false where a table of prices has no row for it; may be NULL */
redco_status redco_run_words_finish(const redco_run_words *words, const char *gpu, redco_run_terms *terms_out,
                                    bool *price_known_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
