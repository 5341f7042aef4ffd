/* rules: milliseconds that deciding and explaining take, for models and for trees of 100,000 parameters, on one core.
 */
#include "planner/rules/rules_explain.h"
#include "planner/rules/rules_params.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 9, MANY = 100000, PATH = 64 };

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static redco_status explain(const redco_rules_param *params, size_t count, const redco_rules *rules,
                            const redco_rules_setting *setting)
{
    redco_rules_part *parts = NULL;
    redco_rules_warning *warnings = NULL;
    size_t warning_count = 0;
    int32_t *dims = calloc(count, sizeof *dims);
    redco_rules_cost *costs = calloc(count, sizeof *costs);
    redco_status st = dims != NULL && costs != NULL ? redco_rules_parts(params, count, &parts, NULL) : REDCO_ENOMEM;
    for (size_t i = 0; st == REDCO_OK && i < count; i++) { dims[i] = redco_rules_dim(rules, i); }
    if (st == REDCO_OK) { st = redco_rules_costs(params, parts, dims, count, setting, costs, NULL); }
    if (st == REDCO_OK) {
        const redco_rules_view view = {params, parts, costs, count, rules, setting};
        st = redco_rules_warnings(&view, &warnings, &warning_count, NULL);
    }
    free(warnings);
    free(parts);
    free(costs);
    free(dims);
    return st;
}

/* The best of some runs: what else the machine does is not measured. */
static redco_status measure(const char *name, const redco_rules_param *params, size_t count)
{
    const redco_rules_setting setting = {8, 64, 8, false};
    const redco_rule *list = NULL;
    double decide_s = 1e9;
    double explain_s = 1e9;
    size_t rule_count = 0;
    for (int i = 0; i < RUNS; i++) {
        redco_rules *rules = NULL;
        const double start_s = now_s();
        redco_status st = redco_rules_decide(params, count, setting.shards, &rules, NULL);
        const double decided_s = now_s();
        if (st == REDCO_OK) { st = explain(params, count, rules, &setting); }
        const double explained_s = now_s();
        if (st == REDCO_OK) { rule_count = redco_rules_list(rules, &list); }
        redco_rules_free(rules);
        if (st != REDCO_OK) { return st; }
        if (decided_s - start_s < decide_s) { decide_s = decided_s - start_s; }
        if (explained_s - decided_s < explain_s) { explain_s = explained_s - decided_s; }
    }
    (void)printf("%-32s %10zu %7zu %10.3f %10.3f\n", name, count, rule_count, 1e3 * decide_s, 1e3 * explain_s);
    return REDCO_OK;
}

static redco_status measure_model(const char *preset)
{
    redco_model *model = NULL;
    redco_rules_tree *tree = NULL;
    const redco_rules_param *params = NULL;
    redco_status st = redco_model_read(preset, &model, NULL);
    if (st == REDCO_OK) { st = redco_rules_tree_from_model(model, true, &tree, NULL); }
    if (st == REDCO_OK) {
        const size_t count = redco_rules_tree_params(tree, &params);
        st = measure(preset, params, count);
    }
    redco_rules_tree_free(tree);
    redco_model_free(model);
    return st;
}

/* @param own_keys  each parameter has a key of its own */
static redco_status measure_many(const char *name, bool own_keys)
{
    static const char *const modules[] = {"q_proj", "k_proj",    "v_proj",  "o_proj",
                                          "out",    "gate_proj", "up_proj", "down_proj"};
    enum { MODULES = sizeof modules / sizeof modules[0] };
    redco_rules_param *params = calloc(MANY, sizeof *params);
    char(*paths)[PATH] = calloc(MANY, sizeof *paths);
    redco_status st = params != NULL && paths != NULL ? REDCO_OK : REDCO_ENOMEM;
    for (int i = 0; st == REDCO_OK && i < MANY; i++) {
        if (own_keys) {
            (void)snprintf(paths[i], PATH, "layers/%d/module_%d/kernel", i % 100, i);
        } else {
            (void)snprintf(paths[i], PATH, "layers/%d/%s/%s/kernel", i / MODULES, i % MODULES < 5 ? "attn" : "mlp",
                           modules[i % MODULES]);
        }
        params[i] = (redco_rules_param){paths[i], 2, {64, 64}};
    }
    if (st == REDCO_OK) { st = measure(name, params, MANY); }
    free(params);
    free(paths);
    return st;
}

int main(void)
{
    static const char *const presets[] = {"llama-7b", "llama-3.1-405b", "t5-11b", "bloom-176b"};
    redco_status st = REDCO_OK;
    (void)printf("%-32s %10s %7s %10s %10s\n", "RedCoast's rules, 8 shards", "parameters", "rules", "decide ms",
                 "explain ms");
    for (size_t i = 0; i < sizeof presets / sizeof presets[0] && st == REDCO_OK; i++) {
        st = measure_model(presets[i]);
    }
    if (st == REDCO_OK) { st = measure_many("100,000 parameters, 8 keys", false); }
    if (st == REDCO_OK) { st = measure_many("100,000 parameters, 100,000 keys", true); }
    if (st != REDCO_OK) { (void)fprintf(stderr, "rules: failed\n"); }
    return st == REDCO_OK ? 0 : 1;
}
