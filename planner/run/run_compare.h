/** @file run_compare.h  The changes between two runs, cause by cause. Days are a product,
 *      days = tokens x inflation / (speed of a GPU x GPUs) x (1 + checkpoints + lost work + restarts),
 *  and money is days x GPUs paid for x price, so that the logarithmic mean of both ends divides the difference among
 * the factors without a remainder (Ang, Energy Policy 33, 2005: LMDI). Pure but for reading. */
#ifndef REDCO_RUN_COMPARE_H
#define REDCO_RUN_COMPARE_H

#include "topology/base/json.h"
#include "topology/base/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A run as documents of redco-plan tell it. */
typedef struct redco_run_summary {
    double tokens; /**< without inflation */
    double inflation, days, gpus, paid_gpus;
    double checkpoint, failures, restart; /**< time over that of steps that count */
    double ettr, days_low, days_high;
    bool priced;
    double money, price; /**< price of a GPU-hour that is paid for */
} redco_run_summary;

/** Reads the output of redco-plan --json with --tokens (its "run"), --run (its total) or several sizes (the chosen
 * one). */
redco_status redco_run_summary_from_json(const redco_json_value *root, redco_run_summary *out, redco_error *err);
redco_status redco_run_summary_read(const char *path, redco_run_summary *out, redco_error *err);

enum { REDCO_RUN_CHANGES = 8 };
typedef struct redco_run_change {
    const char *cause; /**< static */
    double days, money;
} redco_run_change;

/** The change that each cause adds from @p a to @p b; the changes add up to the differences of days and, where both are
 * priced, of money. */
void redco_run_changes(const redco_run_summary *a, const redco_run_summary *b,
                       redco_run_change changes_out[REDCO_RUN_CHANGES]);

#ifdef __cplusplus
}
#endif
#endif
