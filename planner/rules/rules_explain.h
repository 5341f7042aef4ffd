/** @file rules_explain.h  RedCoast's rules explained: why each rule is what it is, and where the result is poor. The
 *  concerns are those that a reader of the reference's algorithm would raise: it looks at names and sizes only. */
#ifndef REDCO_RULES_EXPLAIN_H
#define REDCO_RULES_EXPLAIN_H

#include "planner/rules/rules_costs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_concern {
    REDCO_CONCERN_SHARED_KEY,    /**< one key for linears that want different dimensions */
    REDCO_CONCERN_DIRECTION,     /**< an attention or FFN linear split by the other dimension than its pair needs */
    REDCO_CONCERN_FLIPPED,       /**< likewise, because a key that has nothing to do with it took the turn before */
    REDCO_CONCERN_FUSED_ROW,     /**< fused query-key-value split by its input */
    REDCO_CONCERN_FUSED_MIXED,   /**< fused [Q|K|V] cut across */
    REDCO_CONCERN_HEADS_CUT,     /**< a boundary inside a head */
    REDCO_CONCERN_VOCABULARY,    /**< table or head not split by the vocabulary */
    REDCO_CONCERN_RELATIVE_BIAS, /**< cut by bucket, not by head */
    REDCO_CONCERN_WHOLE,         /**< a matrix that every shard holds whole */
    REDCO_CONCERN_OTHER_KEY      /**< taken by the rule of another key, as its names stand in the path */
} redco_concern;

/** One concern about the parameters of one role that take one rule. */
typedef struct redco_rules_warning {
    redco_concern concern;
    size_t rule;    /**< index in the list of rules */
    size_t param;   /**< the first of them */
    size_t count;   /**< number of parameters */
    char text[320]; /**< one sentence without the names of rule and parameter */
} redco_rules_warning;

/** The inputs of the functions below; all borrowed. */
typedef struct redco_rules_view {
    const redco_rules_param *params;
    const redco_rules_part *parts;
    const redco_rules_cost *costs;
    size_t count;
    const redco_rules *rules;
    const redco_rules_setting *setting;
} redco_rules_view;

/** @param warnings_out  in the order of their first parameters, to be freed with free(); NULL when there is none */
redco_status redco_rules_warnings(const redco_rules_view *view, redco_rules_warning **warnings_out, size_t *count_out,
                                  redco_error *err);
/** "shared-key", "flipped", ... */
const char *redco_concern_name(redco_concern concern);

/** "a" to "g" for the cases of the reference; "leaf", "ranks", "indivisible", "user". */
const char *redco_rule_case_name(redco_rule_case reason);
/** One sentence: "alternates: a/kernel took dimension 1". @return @p buffer */
const char *redco_rule_why(const redco_rule *list, size_t index, uint32_t shards, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
