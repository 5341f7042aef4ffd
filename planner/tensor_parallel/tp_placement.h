/** @file tp_placement.h  Which dimension of each weight tensor parallelism splits, and what that costs: RedCoast's
 * rules (rules.h), or the best layout of each layer, found by GLPK. Both are priced by one model: the collectives
 * between operators whose layouts do not fit, computation at the size that is left to a rank, parameters and
 * activations. */
#ifndef REDCO_TP_PLACEMENT_H
#define REDCO_TP_PLACEMENT_H

#include "costmodel/closed_form/closed_form.h"
#include "planner/rules/rules_user.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_tp_placement {
    REDCO_TP_RULES,
    REDCO_TP_MILP,
    REDCO_TP_USER,  /**< rules of the user's before RedCoast's, or instead of them */
    REDCO_TP_PAIRED /**< the engine's own: column and row splits in pairs, as the closed form takes layouts to be */
} redco_tp_placement;

/** "rules", "milp", "user", "paired", NULL-terminated, indexed by the enum. */
extern const char *const redco_tp_placement_words[];

/** From here on @p costs prices every parallelism with tp > 1 under that placement (redco_costs_set_layouts).
 *  @param costs, model  the latter as given to redco_costs_create()
 *  @param user          for REDCO_TP_USER, borrowed as long as @p costs lives; layers of a class that it splits
 *                       differently are priced one layout at a time. Where it cannot be applied (the ranks do not
 * divide a dimension), RedCoast's rules are priced
 *  @return REDCO_ENOMEM */
redco_status redco_tp_attach(redco_costs *costs, const redco_model *model, redco_tp_placement placement,
                             const redco_user_rules *user, redco_error *err);

/** The same without GLPK: what the program would place keeps the cost model's layout. */
redco_status redco_tp_attach_rules(redco_costs *costs, const redco_model *model, redco_tp_placement placement,
                                   const redco_user_rules *user, redco_error *err);

/** One rule of a placement: the first whose names stand in a row in a parameter's path (Flax names and order) says how
 *  it is split. Names that no rule has are replicated. */
typedef struct redco_tp_rule {
    char *match;    /**< "attn/c_proj/kernel" */
    int32_t dim;    /**< -1: replicated. A dimension that tp does not divide is padded to a multiple of it */
    uint32_t unit;  /**< elements of that dimension that stay together, 1 mostly; where there are fewer units than
                         ranks, neighbouring ranks hold the same one */
    uint32_t parts; /**< the dimension consists of so many equal parts (queries, keys, values), each split alike */
} redco_tp_rule;

/** The program's answer for @p parallelism as rules. @param rules_out  freed by redco_tp_rules_free() */
redco_status redco_tp_rules(redco_costs *costs, const redco_model *model, const redco_parallelism *parallelism,
                            redco_tp_rule **rules_out, uint32_t *count_out, redco_error *err);
void redco_tp_rules_free(redco_tp_rule *rules, uint32_t count);

enum { REDCO_TP_REPORT_CLASSES = 16, REDCO_TP_REPORT_WEIGHTS = 12 };

/** One layer and micro-batch of one rank, forward and backward. */
typedef struct redco_tp_side {
    double compute_s;
    double tp_s;     /**< collectives, whole */
    double time_s;   /**< compute_s and what of tp_s is exposed */
    double tp_bytes; /**< sent by one rank */
    uint64_t params;
    uint64_t memory_bytes; /**< parameters with gradients and optimizer states, unsharded, and activations and logits */
} redco_tp_side;

typedef struct redco_tp_weight {
    const char *role; /**< "q", "down", "tokens": static */
    const char *rules,
        *milp; /**< static: "column", "row", "replicated"; of a table "vocabulary", "width"; "column, heads
                    cut" inside; "column, heads shared" by neighbours, where there are fewer than ranks */
} redco_tp_weight;

typedef struct redco_tp_class {
    char
        name[24]; /**< "block", "encoder", "decoder"; "embedding + head": they may share a table. Where the user's
                       rules give a class's layers several layouts, the first layer with one: "block 2", "block 0..." */
    uint32_t layers;
    redco_tp_side rules, milp;
    bool same; /**< every weight is split alike */
    uint32_t weight_count;
    redco_tp_weight weights[REDCO_TP_REPORT_WEIGHTS];
} redco_tp_class;

typedef struct redco_tp_report {
    uint32_t class_count;
    redco_tp_class classes[REDCO_TP_REPORT_CLASSES];
    redco_tp_side rules, milp; /**< all layers, one micro-batch */
    const char *solver;        /**< "GLPK 5.0" */
    const char *status;        /**< "optimal", "feasible": static */
    double gap_ratio, seconds; /**< the largest gap; all layers together */
} redco_tp_report;

/** Rules against the program, layer by layer.
 *  @param user     NULL: RedCoast's rules
 *  @param parallelism  tp > 1. @return REDCO_EVALUE if it is 1 */
redco_status redco_tp_compare(redco_costs *costs, const redco_model *model, const redco_user_rules *user,
                              const redco_parallelism *parallelism, redco_tp_report *report_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
