/* redco-rules --json */
#include "tools/report/rules_report.h"

#include <stdlib.h>

/* One entry for each dimension, null or "mp". */
static json_t *spec_json(uint32_t rank, int32_t dim)
{
    json_t *spec = json_array();
    for (uint32_t i = 0; i < rank; i++) {
        json_array_append_new(spec, (int32_t)i == dim ? json_string("mp") : json_null());
    }
    return spec;
}

static json_t *rules_json(const struct rules_answer *answer, const size_t *taken)
{
    char why[256];
    json_t *array = json_array();
    for (size_t i = 0; i < answer->rule_count; i++) {
        const redco_rule *rule = &answer->list[i];
        if (rule->overridden) { continue; }
        json_t *row = json_pack("{s:s,s:o}", "key", rule->key, "spec", spec_json(rule->rank, rule->dim));
        if (answer->explain) {
            json_object_set_new(row, "case", json_string(redco_rule_case_name(rule->reason)));
            json_object_set_new(row, "why",
                                json_string(redco_rule_why(answer->list, i, answer->shards, why, sizeof why)));
            json_object_set_new(row, "parameters", json_integer((json_int_t)taken[i]));
        }
        json_array_append_new(array, row);
    }
    return array;
}

static json_t *specs_json(const struct rules_answer *answer)
{
    json_t *object = json_object();
    for (size_t i = 0; i < answer->count; i++) {
        json_object_set_new(object, answer->params[i].path,
                            spec_json(answer->params[i].rank, redco_rules_dim(answer->rules, i)));
    }
    return object;
}

/* The size in the one of two units that it has. */
static json_t *transfers_json(const redco_transfer *transfers, uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const bool tokens = transfers[i].elements_per_token > 0.0;
        json_array_append_new(array,
                              json_pack("{s:s,s:i,s:f}", "collective", redco_collective_word(transfers[i].kind),
                                        "calls", (int)transfers[i].calls, tokens ? "elements_per_token" : "elements",
                                        tokens ? transfers[i].elements_per_token : transfers[i].elements));
    }
    return array;
}

static json_t *shape_json(const redco_rules_param *param)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < param->rank; i++) {
        json_array_append_new(shape, json_integer((json_int_t)param->shape[i]));
    }
    return shape;
}

static json_t *explanation_json(const struct rules_answer *answer, size_t i)
{
    const redco_rule *rule = redco_rules_of(answer->rules, i);
    const redco_rules_cost *cost = &answer->costs[i];
    json_t *row = json_pack("{s:o,s:s,s:s?,s:s?,s:o,s:o}", "shape", shape_json(&answer->params[i]), "role",
                            redco_role_name(answer->parts[i].role), "rule", rule != NULL ? rule->key : NULL, "case",
                            rule != NULL ? redco_rule_case_name(rule->reason) : NULL, "forward",
                            transfers_json(cost->forward, cost->forward_count), "backward",
                            transfers_json(cost->backward, cost->backward_count));
    if (cost->shares != REDCO_PART_NONE) {
        json_object_set_new(row, "shares", json_string(answer->params[cost->shares].path));
    }
    if (cost->heads_cut) { json_object_set_new(row, "heads_cut", json_true()); }
    return row;
}

static json_t *explain_json(const struct rules_answer *answer)
{
    json_t *object = json_object();
    for (size_t i = 0; i < answer->count; i++) {
        json_object_set_new(object, answer->params[i].path, explanation_json(answer, i));
    }
    return object;
}

static json_t *warnings_json(const struct rules_answer *answer)
{
    json_t *array = json_array();
    for (size_t i = 0; i < answer->warning_count; i++) {
        const redco_rules_warning *warning = &answer->warnings[i];
        json_array_append_new(array, json_pack("{s:s,s:s,s:s,s:I,s:s}", "concern", redco_concern_name(warning->concern),
                                               "rule", answer->list[warning->rule].key, "parameter",
                                               answer->params[warning->param].path, "count", (json_int_t)warning->count,
                                               "text", warning->text));
    }
    return array;
}

int rules_print_json(const struct cli *cli, const struct rules_answer *answer)
{
    int code = CLI_SYSTEM;
    size_t *taken = calloc(answer->rule_count + 1, sizeof *taken);
    if (taken == NULL) {
        const redco_error err = {.status = REDCO_ENOMEM, .text = "out of memory"};
        return cli_fail(cli, &err);
    }
    for (size_t i = 0; i < answer->count && answer->rule_count > 0; i++) {
        taken[redco_rules_of(answer->rules, i) - answer->list]++;
    }
    json_t *document = json_pack("{s:s,s:i,s:i,s:o,s:o}", "format", "redco-rules", "version", 1, "shards",
                                 (int)answer->shards, "rules", rules_json(answer, taken), "specs", specs_json(answer));
    if (answer->explain) {
        json_object_set_new(document, "explain", explain_json(answer));
        json_object_set_new(document, "warnings", warnings_json(answer));
    }
    code = cli_print_json(cli, document);
    json_decref(document);
    free(taken);
    return code;
}
