/* Rules against the program, for people and for plan files. */
#include "costmodel/graph/names.h"
#include "planner/glpk/glpk_run.h"
#include "planner/tensor_parallel/placed.h"
#include "planner/tensor_parallel/tp_placement.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls back for every graph of the model under both placements. */
typedef redco_status (*visitor)(void *context, const redcoi_tp_placed *placed, redco_error *err);

static redco_status visit(redco_costs *costs, const redco_model *model, const redco_user_rules *user,
                          const redco_parallelism *parallelism, visitor each, void *context, redco_error *err)
{
    redcoi_tp_pricing pricing = {.costs = costs};
    redcoi_tp_ruled_splits ruled = {.count = 0};
    redcoi_tp_placed *placed = NULL;
    bool more = true;
    if (parallelism->tp <= 1) { return redco_fail(err, REDCO_EVALUE, "tp", "is 1: nothing is split"); }
    redco_status st = redcoi_tp_rules_splits(model, parallelism->tp, user, &ruled, err);
    if (st == REDCO_OK && (placed = malloc(sizeof *placed)) == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    const redcoi_tp_base base = redcoi_tp_base_of(&pricing, model, parallelism);
    for (uint32_t i = 0; st == REDCO_OK; i++) {
        st = redcoi_tp_place(&base, &ruled, redcoi_tp_solve, i, placed, &more, err);
        if (st != REDCO_OK || !more) { break; }
        st = each(context, placed, err);
    }
    free(placed);
    redcoi_tp_rules_splits_free(&ruled);
    return st;
}

static redco_tp_side side_of(const redcoi_tp_total *total)
{
    redco_tp_side side = {.time_s = total->time_s, .memory_bytes = total->memory_bytes};
    for (int c = 0; c < REDCOI_TP_CLASSES; c++) {
        const redcoi_tp_cost *const cost = &total->classes[c];
        side.compute_s += cost->forward_s + cost->backward_s;
        side.tp_s += cost->tp_forward_s + cost->tp_backward_s;
        side.tp_bytes += cost->tp_bytes;
        side.params += cost->params;
    }
    return side;
}

static void add_side(redco_tp_side *sum, const redco_tp_side *side, uint32_t layers)
{
    sum->compute_s += layers * side->compute_s;
    sum->tp_s += layers * side->tp_s;
    sum->time_s += layers * side->time_s;
    sum->tp_bytes += layers * side->tp_bytes;
    sum->params += layers * side->params;
    sum->memory_bytes += layers * side->memory_bytes;
}

/* More than its share: several ranks hold the same head of keys. */
static bool shares_heads(const redcoi_tp_graph *graph, uint32_t node, const redcoi_tp_option *option)
{
    const redcoi_tp_node *const of = &graph->nodes[node];
    for (uint32_t o = 0; o < of->option_count; o++) {
        if (of->options[o].split != REDCOI_TP_REPLICATE) { continue; }
        return 2 * option->params * graph->ranks >= 3 * of->options[o].params && of->options[o].params > 0;
    }
    return false;
}

static const char *split_word(const redcoi_tp_graph *graph, uint32_t node, const redcoi_tp_option *option, bool table)
{
    switch (option->split) {
    case REDCOI_TP_COLUMN:
        if (table) { return "vocabulary"; }
        if (option->output == REDCOI_TP_CUT) { return "column, heads cut"; }
        return shares_heads(graph, node, option) ? "column, heads shared" : "column";
    case REDCOI_TP_ROW: return table ? "width" : "row";
    case REDCOI_TP_REPLICATE:
    case REDCOI_TP_NO_WEIGHT: break;
    }
    return "replicated";
}

/* As people call a weight. */
static const char *const use_words[REDCO_USES] = {[REDCO_USE_TABLE] = "tokens",
                                                  [REDCO_USE_POSITIONS] = "positions",
                                                  [REDCO_USE_ENCODER_POSITIONS] = "positions",
                                                  [REDCO_USE_RELATIVE_BIAS] = "relative bias",
                                                  [REDCO_USE_ENCODER_RELATIVE_BIAS] = "relative bias",
                                                  [REDCO_USE_PROJECT_IN] = "project in",
                                                  [REDCO_USE_QUERY] = "q",
                                                  [REDCO_USE_KEY] = "k",
                                                  [REDCO_USE_VALUE] = "v",
                                                  [REDCO_USE_QKV] = "qkv",
                                                  [REDCO_USE_OUTPUT] = "o",
                                                  [REDCO_USE_CROSS_QUERY] = "cross q",
                                                  [REDCO_USE_CROSS_KEY] = "cross k",
                                                  [REDCO_USE_CROSS_VALUE] = "cross v",
                                                  [REDCO_USE_CROSS_OUTPUT] = "cross o",
                                                  [REDCO_USE_GATE] = "gate",
                                                  [REDCO_USE_UP] = "up",
                                                  [REDCO_USE_GATE_UP] = "gate up",
                                                  [REDCO_USE_DOWN] = "down",
                                                  [REDCO_USE_PROJECT_OUT] = "project out",
                                                  [REDCO_USE_HEAD] = "head"};

static void list_weights(const redcoi_tp_placed *placed, const redco_param *params, redco_tp_class *class)
{
    const redcoi_tp_layer *const layer = &placed->layer;
    class->same = true;
    for (uint32_t n = 0; n < layer->graph.node_count; n++) {
        const redco_layer_node *const node = layer->nodes[n];
        const bool own = node->param_count > 0 && layer->graph.nodes[n].tied == REDCOI_TP_NONE;
        if (!own || class->weight_count == REDCO_TP_REPORT_WEIGHTS) { continue; }
        const redcoi_tp_option *const rules = redcoi_tp_chosen(layer, &placed->rules_choice, n);
        const redcoi_tp_option *const milp = redcoi_tp_chosen(layer, &placed->milp.choice, n);
        const bool table = node->kind == REDCO_NODE_TABLE;
        class->weights[class->weight_count++] =
            (redco_tp_weight){use_words[params[node->params[0]].use], split_word(&layer->graph, n, rules, table),
                              split_word(&layer->graph, n, milp, table)};
        /* A tie of tables is no difference, cut heads are. */
        class->same = class->same && rules->split == milp->split && rules->output == milp->output;
    }
}

struct comparison {
    const redco_layer_class *classes;
    const redco_param *params;
    redco_tp_report *report;
};

static redco_status compare_one(void *context, const redcoi_tp_placed *placed, redco_error *err)
{
    const struct comparison *const c = context;
    redco_tp_report *const report = c->report;
    const uint32_t first = placed->layer.classes[0], second = placed->layer.classes[1];
    (void)err;
    redco_tp_class beyond = {.layers = 0}; /* counts, and has no room in the list */
    const bool listed = report->class_count < REDCO_TP_REPORT_CLASSES;
    redco_tp_class *const class = listed ? &report->classes[report->class_count++] : &beyond;
    const bool edges = second != UINT32_MAX;
    class->layers = placed->members;
    if (edges) {
        (void)snprintf(class->name, sizeof class->name, "embedding + head");
    } else if (placed->layouts == 1) {
        (void)snprintf(class->name, sizeof class->name, "%s", c->classes[first].name);
    } else { /* "block 2", "block 0..." */
        (void)snprintf(class->name, sizeof class->name, "%.12s %u%s", c->classes[first].name, placed->first,
                       placed->members > 1 ? "..." : "");
    }
    class->rules = side_of(&placed->rules);
    class->milp = side_of(&placed->milp.total);
    list_weights(placed, c->params, class);
    add_side(&report->rules, &class->rules, class->layers);
    add_side(&report->milp, &class->milp, class->layers);
    if (!placed->milp.proven) { report->status = "feasible"; }
    report->gap_ratio = fmax(report->gap_ratio, placed->milp.gap_ratio);
    report->seconds += placed->milp.seconds;
    return REDCO_OK;
}

redco_status redco_tp_compare(redco_costs *costs, const redco_model *model, const redco_user_rules *user,
                              const redco_parallelism *parallelism, redco_tp_report *report_out, redco_error *err)
{
    redco_tp_report report = {.solver = redcoi_glpk_name(), .status = "optimal"};
    struct comparison comparison = {.report = &report};
    (void)redco_model_classes(model, &comparison.classes);
    (void)redco_model_tensors(model, &comparison.params);
    const redco_status st = visit(costs, model, user, parallelism, compare_one, &comparison, err);
    if (st == REDCO_OK) { *report_out = report; }
    return st;
}

/* Rules that grow in number. */
struct rule_list {
    redco_tp_rule *rules;
    uint32_t count, capacity;
};

struct listing {
    const redco_model *model;
    const redco_layer_class *classes;
    struct rule_list general; /* for all layers */
    redco_names matches;      /* matches of the general ones, in their order */
    struct rule_list exact;   /* for one: where encoder and decoder differ */
};

enum { MATCH_SIZE = 256 };

/* "model.layers.{}.mlp.up_proj.weight" to "mlp/up_proj/kernel", what stands behind the layer's number; or with it. */
static void write_match(char match[MATCH_SIZE], const redco_param *param, bool exact, uint32_t layer)
{
    const char *brace = strchr(param->name, '{');
    if (brace == NULL) {
        (void)snprintf(match, MATCH_SIZE, "%s", param->name);
    } else if (exact) {
        (void)snprintf(match, MATCH_SIZE, "%.*s%u%s", (int)(brace - param->name), param->name, layer, brace + 2);
    } else {
        (void)snprintf(match, MATCH_SIZE, "%s", brace + 3);
    }
    for (char *c = match; *c != '\0'; c++) {
        if (*c == '.') { *c = '/'; }
    }
    char *last = strrchr(match, '/');
    const char *leaf = param->role == REDCO_PARAM_TABLE ? "embedding" : "kernel";
    if (last != NULL) { (void)snprintf(last + 1, MATCH_SIZE - (size_t)(last + 1 - match), "%s", leaf); }
}

static redco_tp_rule rule_of(const redco_model *model, const redco_layer_node *node, const redco_param *param,
                             const redcoi_tp_option *option)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const bool outputs_first = param->role != REDCO_PARAM_LINEAR; /* in Flax order */
    const bool column = option->split == REDCOI_TP_COLUMN;
    redco_tp_rule rule = {.dim = -1, .unit = 1, .parts = 1};
    redco_extent out, in;
    if (option->split == REDCOI_TP_REPLICATE) { return rule; }
    redco_param_maps(param, &out, &in);
    rule.dim = column == outputs_first ? 0 : 1;
    if (column) { rule.parts = node->blocks; }
    if ((column ? out : in).power[REDCO_AXIS_HEAD_DIM] == 0) { return rule; }
    rule.unit = dims->head_dim;
    /* Each group of heads has its queries, its key and its value. */
    if (param->use == REDCO_USE_QKV && rule.parts == 1) { rule.unit *= dims->heads / dims->kv_heads + 2; }
    return rule;
}

static redco_status append(struct rule_list *list, const redco_tp_rule *rule, const char *match, redco_error *err)
{
    if (list->count == list->capacity) {
        const uint32_t capacity = list->capacity > 0 ? 2 * list->capacity : 16;
        redco_tp_rule *more = realloc(list->rules, capacity * sizeof *more);
        if (more == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
        list->rules = more;
        list->capacity = capacity;
    }
    redco_tp_rule made = *rule;
    made.match = strdup(match);
    if (made.match == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    list->rules[list->count++] = made;
    return REDCO_OK;
}

/* One rule for encoder and decoder; where they differ, one for each layer of the latter. */
static redco_status add_rule(struct listing *listing, const redco_tp_rule *rule, const redco_param *param,
                             redco_error *err)
{
    const redco_layer_class *const class = &listing->classes[param->class_index];
    char match[MATCH_SIZE];
    write_match(match, param, false, 0);
    const uint32_t at = redco_names_add(&listing->matches, match);
    if (at == REDCO_NO_NAME) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (at < listing->general.count) {
        const redco_tp_rule *const known = &listing->general.rules[at];
        if (known->dim == rule->dim && known->unit == rule->unit && known->parts == rule->parts) { return REDCO_OK; }
        redco_status st = REDCO_OK;
        for (uint32_t layer = 0; layer < class->layers && st == REDCO_OK; layer++) {
            write_match(match, param, true, layer);
            st = append(&listing->exact, rule, match, err);
        }
        return st;
    }
    return append(&listing->general, rule, match, err);
}

static redco_status list_one(void *context, const redcoi_tp_placed *placed, redco_error *err)
{
    struct listing *const listing = context;
    const redcoi_tp_layer *const layer = &placed->layer;
    const redco_param *params = NULL;
    const uint32_t count = (uint32_t)redco_model_tensors(listing->model, &params);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t n = redcoi_tp_node_of(layer, i);
        if (n == REDCOI_TP_NONE || params[i].class_index != layer->classes[layer->graph.nodes[n].class_slot]) {
            continue;
        }
        const redcoi_tp_option *const option = redcoi_tp_chosen(layer, &placed->milp.choice, n);
        const redco_tp_rule rule = rule_of(listing->model, layer->nodes[n], &params[i], option);
        const redco_status st = add_rule(listing, &rule, &params[i], err);
        if (st != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

redco_status redco_tp_rules(redco_costs *costs, const redco_model *model, const redco_parallelism *parallelism,
                            redco_tp_rule **rules_out, uint32_t *count_out, redco_error *err)
{
    struct listing listing = {.model = model};
    struct rule_list *const exact = &listing.exact;
    (void)redco_model_classes(model, &listing.classes);
    redco_status st = visit(costs, model, NULL, parallelism, list_one, &listing, err);
    for (uint32_t i = 0; i < listing.general.count && st == REDCO_OK; i++) { /* the first that matches counts */
        st = append(exact, &listing.general.rules[i], listing.general.rules[i].match, err);
    }
    redco_tp_rules_free(listing.general.rules, listing.general.count);
    redco_names_free(&listing.matches);
    if (st != REDCO_OK) {
        redco_tp_rules_free(exact->rules, exact->count);
        return st;
    }
    *rules_out = exact->rules;
    *count_out = exact->count;
    return REDCO_OK;
}

void redco_tp_rules_free(redco_tp_rule *rules, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) { free(rules[i].match); }
    free(rules);
}

redco_status redco_tp_attach(redco_costs *costs, const redco_model *model, redco_tp_placement placement,
                             const redco_user_rules *user, redco_error *err)
{
    return redcoi_tp_attach(costs, model, placement, user, redcoi_tp_solve, err);
}
