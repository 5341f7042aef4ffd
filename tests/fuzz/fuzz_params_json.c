/* A parameter list, RedCoast's rules on it and their explanation: split dimensions exist, one shard splits nothing and
 * costs nothing, what is shared points at something. */
#include "planner/rules/rules_explain.h"
#include "planner/rules/rules_params.h"

#include <stdlib.h>

static void explain(const redco_rules_param *params, size_t count, uint32_t shards, const redco_rules *rules)
{
    const redco_rules_setting setting = {shards, 12, 4, shards % 2 == 0};
    redco_rules_part *parts = NULL;
    redco_rules_warning *warnings = NULL;
    size_t warning_count = 0;
    redco_rules_cost *costs = calloc(count, sizeof *costs);
    int32_t *dims = calloc(count, sizeof *dims);
    if (costs == NULL || dims == NULL || redco_rules_parts(params, count, &parts, NULL) != REDCO_OK) { abort(); }
    for (size_t i = 0; i < count; i++) { dims[i] = redco_rules_dim(rules, i); }
    if (redco_rules_costs(params, parts, dims, count, &setting, costs, NULL) != REDCO_OK) { abort(); }
    for (size_t i = 0; i < count; i++) {
        if (costs[i].forward_count > REDCO_TRANSFERS || costs[i].backward_count > REDCO_TRANSFERS) { abort(); }
        if (shards == 1 && costs[i].forward_count + costs[i].backward_count > 0) { abort(); }
        if (costs[i].shares != REDCO_PART_NONE && (costs[i].shares >= count || costs[i].shares == i)) { abort(); }
    }
    const redco_rules_view view = {params, parts, costs, count, rules, &setting};
    if (redco_rules_warnings(&view, &warnings, &warning_count, NULL) != REDCO_OK) { abort(); }
    for (size_t i = 0; i < warning_count; i++) {
        if (warnings[i].param >= count || warnings[i].text[0] == '\0') { abort(); }
    }
    free(warnings);
    free(parts);
    free(costs);
    free(dims);
}

static void decide(const redco_rules_param *params, size_t count, uint32_t shards)
{
    redco_rules *rules = NULL;
    const redco_rule *list = NULL;
    if (redco_rules_decide(params, count, shards, &rules, NULL) != REDCO_OK) { abort(); }
    const size_t rule_count = redco_rules_list(rules, &list);
    if (rule_count > count || (shards == 1) != (rule_count == 0)) { abort(); }
    for (size_t i = 0; i < rule_count; i++) {
        if (list[i].dim >= (int32_t)list[i].rank && list[i].dim != REDCO_RULES_REPLICATED) { abort(); }
    }
    for (size_t i = 0; i < count; i++) {
        const int32_t dim = redco_rules_dim(rules, i);
        const redco_rule *rule = redco_rules_of(rules, i);
        if (dim < REDCO_RULES_REPLICATED || dim >= (int32_t)params[i].rank) { abort(); }
        if (rule == NULL ? shards != 1 : dim >= 0 && dim != rule->dim) { abort(); }
    }
    explain(params, count, shards, rules);
    redco_rules_free(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t shards[] = {1, 2, 3, 8};
    redco_json *document = NULL;
    redco_rules_tree *tree = NULL;
    const redco_rules_param *params = NULL;
    if (redco_json_parse((const char *)data, size, "params.json", &document, NULL) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_rules_tree_from_json(&root, &tree, NULL) == REDCO_OK) {
        const size_t count = redco_rules_tree_params(tree, &params);
        for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) { decide(params, count, shards[i]); }
    }
    redco_rules_tree_free(tree);
    redco_json_close(document);
    return 0;
}
