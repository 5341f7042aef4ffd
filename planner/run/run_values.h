/** @file run_values.h  Numbers that a run stands on: each with a band, the evidence for it and its source; and how
 * people write them: "15T" tokens, "12/30d" failures, "10 min", "2.5/gpu-hour", "56 gCO2/kWh". Pure but for presets and
 * files.
 */
#ifndef REDCO_RUN_VALUES_H
#define REDCO_RUN_VALUES_H

#include "topology/base/json.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** From the strongest to the weakest: what is computed of several has the weakest. */
typedef enum redco_run_evidence {
    REDCO_GIVEN,         /**< by the user */
    REDCO_MEASURED_HERE, /**< by a profile of this machine */
    REDCO_CALIBRATED,    /**< fitted to measured runs */
    REDCO_PUBLISHED,
    REDCO_ASSUMED
} redco_run_evidence;
/** "given", "measured here", "calibrated", "published", "assumed". @return static */
const char *redco_run_evidence_word(redco_run_evidence evidence);
redco_run_evidence redco_run_evidence_weaker(redco_run_evidence a, redco_run_evidence b);

typedef struct redco_run_value {
    double value, low, high; /**< low <= value <= high */
    redco_run_evidence evidence;
    char source[320];
} redco_run_value;

redco_run_value redco_run_given(double value);
/** @param source  what it is, for people */
redco_run_value redco_run_assumed(double value, double low, double high, const char *source);

typedef enum redco_run_unit {
    REDCO_RUN_SECONDS,   /**< "90 s", "10 min", "2h", "60d" */
    REDCO_RUN_TOKENS,    /**< "15T", "300 B", "2.5e12", "4194304" */
    REDCO_RUN_RATE,      /**< "3.8e-3 /node-day": failures of 8 GPUs a day */
    REDCO_RUN_PRICE,     /**< "2.5/gpu-hour", "2.5 USD/gpu-hour" */
    REDCO_RUN_INTENSITY, /**< "56 gCO2/kWh" */
    REDCO_RUN_RATIO      /**< "1.2" */
} redco_run_unit;

/** @param place  of the error. @return REDCO_OK or REDCO_EVALUE */
redco_status redco_run_parse(const char *text, redco_run_unit unit, const char *place, double *value_out,
                             redco_error *err);

/** The failures and recovery of machines of a kind. */
typedef struct redco_failures {
    char name[64];
    redco_run_value rate; /**< failures of 8 GPUs a second */
    redco_run_value detect_s, restart_s, repair_s;
    redco_run_value deep_ratio;          /**< share of failures: they take copies in memory, or several replicas */
    double count, count_low, count_high; /**< with its 90 % interval */
    double over_s;                       /**< time of the user's own count; 0: none */
    uint64_t count_nodes;                /**< nodes of 8 GPUs that it was counted on; 0: those of the run */
} redco_failures;

enum { REDCO_RUN_NODE_GPUS = 8 /**< GPUs that a failure rate of a node counts */ };

/** A preset's name or a file (format redco-failures), or a count: "12/30d", "466/54d/2048" (on 2048 nodes of 8 GPUs).
 *  The times of recovery of a count are those of the preset tuned-large. */
redco_status redco_failures_read(const char *text, redco_failures *out, redco_error *err);
redco_status redco_failures_from_json(const redco_json_value *root, redco_failures *out, redco_error *err);
/** Failures of 8 GPUs a second, with the band of a count. @param gpus  of the run */
redco_run_value redco_failures_rate(const redco_failures *failures, uint64_t gpus);

/** "2.5/gpu-hour", or a preset or file of prices (format redco-prices) with the newest row for @p gpu.
 *  @param known_out      whether there is one for it
 *  @param currency_out   "" where none is given */
redco_status redco_price_read(const char *text, const char *gpu, bool *known_out, redco_run_value *out,
                              char currency_out[16], redco_error *err);
redco_status redco_price_from_json(const redco_json_value *root, const char *gpu, bool *known_out, redco_run_value *out,
                                   char currency_out[16], redco_error *err);

/** "56" or "56 gCO2/kWh" (g/kWh), or a preset or file (format redco-grid). */
redco_status redco_grid_read(const char *text, redco_run_value *out, redco_error *err);
redco_status redco_grid_from_json(const redco_json_value *root, redco_run_value *out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
