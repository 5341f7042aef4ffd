/** @file run_json.h  Estimates of runs as JSON (planner/run/run.schema.json). */
#ifndef REDCO_RUN_JSON_H
#define REDCO_RUN_JSON_H

#include "planner/run/run_estimate.h"
#include "topology/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A new reference, NULL when out of memory. */
json_t *redco_run_to_json(const redco_run_estimate *estimate, uint64_t gpus);

/** The definition of ETTR, for people. */
extern const char redco_ettr_definition[];
/** "blocking", "async", "memory": by redco_saving, NULL-terminated. */
extern const char *const redco_saving_words[];

#ifdef __cplusplus
}
#endif
#endif
