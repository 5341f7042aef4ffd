/** @file set_rules.h  The measured runs that each shipped calibration is fitted to, as a rule: what a fit of it takes,
 *  whoever makes one (redco-calibrate --set, fits that leave runs out). */
#ifndef REDCO_SET_RULES_H
#define REDCO_SET_RULES_H

#include "traces/measured.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_SET_GPUS = 3 };

typedef struct redco_set_rule {
    const char *name, *prior;         /**< names of the set; of the set around which it is fitted */
    const char *gpus[REDCO_SET_GPUS]; /**< beginnings of names of GPUs; NULL behind the last */
    redco_software software;          /**< REDCO_SOFTWARE_UNKNOWN: of any class */
    const char *framework;            /**< NULL: of any */
    bool derived;                     /**< no run is fitted: it is made of other sets (tools/fit-presets.sh) */
} redco_set_rule;

/** All of them; first those of a class of GPU and software, then those of one framework. */
const redco_set_rule *redco_set_rules(size_t *count_out);
/** The rule of a set; that of the set whose constants it has, for an H200. @return NULL: it is not fitted to runs */
const redco_set_rule *redco_set_rule_find(const char *name);
/** Says whether a fit of the set takes this run, were it usable: a dense model's, with a throughput, not held out. */
bool redco_set_rule_takes(const redco_set_rule *rule, const redco_measured_run *run);

#ifdef __cplusplus
}
#endif
#endif
