/* redco-rules: RedCoast's tensor-parallel rules for a parameter tree. */
#include "planner/rules_params.h"
#include "tools/cli.h"
#include "topology/base/preset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "redco-rules " REDCO_VERSION;

enum { KEY_PARAMS = 0x100, KEY_MODEL, KEY_SHARDS };

struct arguments {
    struct cli cli; /* first */
    const char *params;
    const char *model;
    uint64_t shards;
};

static const struct argp_option options[] = {
    {"params", KEY_PARAMS, "FILE", 0,
     "Parameters: JSON {\"params\":[{\"path\":\"a/b/kernel\",\"shape\":[in,out]}]}, a .safetensors file or a "
     "model.safetensors.index.json",
     0},
    {"model", KEY_MODEL, "M", 0, "Instead of --params: a model preset or a HuggingFace config.json", 0},
    {"shards", KEY_SHARDS, "N", 0, "Number of shards", 0},
    CLI_OPTIONS,
    {0},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct cli *cli = &arguments->cli;
    switch (key) {
    case KEY_PARAMS: return cli_name(cli, "--params", text, &arguments->params);
    case KEY_MODEL: return cli_name(cli, "--model", text, &arguments->model);
    case KEY_SHARDS: return cli_u64(cli, "--shards", text, 1, 1U << 20, &arguments->shards);
    case ARGP_KEY_END:
        if ((arguments->params == NULL) == (arguments->model == NULL)) {
            return cli_bad_option(cli, "--params", "give either --params FILE or --model M");
        }
        return arguments->shards != 0 ? 0 : cli_bad_option(cli, "--shards", "is missing");
    default: return cli_option(key, text, state);
    }
}

static redco_status read_tree(const struct arguments *arguments, redco_rules_tree **tree_out, redco_error *err)
{
    redco_model *model = NULL;
    if (arguments->params != NULL) { return redco_rules_tree_read(arguments->params, tree_out, err); }
    redco_status st = redco_model_read(arguments->model, &model, err);
    if (st == REDCO_OK && redco_model_warning(model) != NULL) { cli_warn(&arguments->cli, redco_model_warning(model)); }
    if (st == REDCO_OK) { st = redco_rules_tree_from_model(model, true, tree_out, err); }
    redco_model_free(model);
    return st;
}

/* One entry for each dimension, null or "mp". */
static json_t *spec_json(uint32_t rank, int32_t dim)
{
    json_t *spec = json_array();
    for (uint32_t i = 0; i < rank; i++) {
        json_array_append_new(spec, (int32_t)i == dim ? json_string("mp") : json_null());
    }
    return spec;
}

static json_t *rules_json(const redco_rules *rules)
{
    const redco_rule *list = NULL;
    const size_t count = redco_rules_list(rules, &list);
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array,
                              json_pack("{s:s,s:o}", "key", list[i].key, "spec", spec_json(list[i].rank, list[i].dim)));
    }
    return array;
}

static json_t *specs_json(const redco_rules *rules, const redco_rules_param *params, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(object, params[i].path, spec_json(params[i].rank, redco_rules_dim(rules, i)));
    }
    return object;
}

static int print_json(const struct cli *cli, const redco_rules *rules, const redco_rules_param *params, size_t count)
{
    json_t *document = json_pack("{s:o,s:o}", "rules", rules_json(rules), "specs", specs_json(rules, params, count));
    const int code = cli_print_json(cli, document);
    json_decref(document);
    return code;
}

static double elements_of(const redco_rules_param *param)
{
    double elements = 1.0;
    for (uint32_t i = 0; i < param->rank; i++) { elements *= (double)param->shape[i]; }
    return elements;
}

/* "[in, out/8]": the split dimension divided by the number of shards. */
static const char *shape_text(const redco_rules_param *param, int32_t dim, uint64_t shards, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "[");
    for (uint32_t i = 0; i < param->rank && used < size; i++) {
        used += (size_t)snprintf(buffer + used, size - used, "%s%" PRIu64, i > 0 ? ", " : "", param->shape[i]);
        if ((int32_t)i == dim && used < size) {
            used += (size_t)snprintf(buffer + used, size - used, "/%" PRIu64, shards);
        }
    }
    if (used < size) { (void)snprintf(buffer + used, size - used, "]"); }
    return buffer;
}

/* "6.738 B", "124.4 M", "1111". */
static const char *count_text(double count, char *buffer, size_t size)
{
    static const char *const units[] = {"", " k", " M", " B", " T"};
    size_t unit = 0;
    if (count >= 1e5) {
        for (; count >= 999.95 && unit + 1 < sizeof units / sizeof units[0]; unit++) { count /= 1000.0; }
        (void)snprintf(buffer, size, "%.4g%s", count, units[unit]);
    } else {
        (void)snprintf(buffer, size, "%.0f", count);
    }
    return buffer;
}

/* What took one rule. */
struct taken {
    size_t count;
    size_t first;
};

static void print_rules(const redco_rules *rules, const struct taken *taken, const redco_rules_param *params,
                        uint64_t shards)
{
    char shape[128];
    const redco_rule *list = NULL;
    const size_t count = redco_rules_list(rules, &list);
    int width = (int)strlen("rule");
    for (size_t i = 0; i < count; i++) {
        if ((int)strlen(list[i].key) > width) { width = (int)strlen(list[i].key); }
    }
    (void)printf("%-*s  %-6s  %7s  %s\n", width, "rule", "split", "tensors", "first of them");
    for (size_t i = 0; i < count; i++) {
        char split[24] = "-";
        if (list[i].dim >= 0) { (void)snprintf(split, sizeof split, "dim %" PRId32, list[i].dim); }
        (void)printf("%-*s  %-6s  %7zu", width, list[i].key, split, taken[i].count);
        if (taken[i].count > 0) {
            const redco_rules_param *first = &params[taken[i].first];
            (void)printf("  %s %s", first->path,
                         shape_text(first, redco_rules_dim(rules, taken[i].first), shards, shape, sizeof shape));
        }
        (void)printf("\n");
    }
}

static int print_table(const struct arguments *arguments, const redco_rules *rules, const redco_rules_param *params,
                       size_t count)
{
    const redco_rule *list = NULL;
    const size_t rule_count = redco_rules_list(rules, &list);
    struct taken *taken = calloc(rule_count + 1, sizeof *taken);
    char all_text[32];
    char mine_text[32];
    double total = 0.0;
    double mine = 0.0;
    if (taken == NULL) {
        const redco_error err = {.status = REDCO_ENOMEM, .text = "out of memory"};
        return cli_fail(&arguments->cli, &err);
    }
    for (size_t i = 0; i < count; i++) {
        const double elements = elements_of(&params[i]);
        const redco_rule *rule = redco_rules_of(rules, i);
        total += elements;
        mine += redco_rules_dim(rules, i) >= 0 ? elements / (double)arguments->shards : elements;
        if (rule == NULL) { continue; }
        struct taken *row = &taken[rule - list];
        if (row->count++ == 0) { row->first = i; }
    }
    (void)count_text(total, all_text, sizeof all_text);
    if (rule_count > 0) {
        print_rules(rules, taken, params, arguments->shards);
        (void)printf("%zu tensor%s, %s parameters; %s on each of %" PRIu64 " shards (%.2f %%)\n", count,
                     count == 1 ? "" : "s", all_text, count_text(mine, mine_text, sizeof mine_text), arguments->shards,
                     100.0 * mine / total);
    } else {
        (void)printf("1 shard: no rules, all %zu tensors with %s parameters whole\n", count, all_text);
    }
    free(taken);
    return cli_finish(&arguments->cli, CLI_DONE);
}

int main(int argc, char **argv)
{
    static const struct argp argp = {.options = options,
                                     .parser = parse_option,
                                     .doc = "RedCoast's tensor-parallel rules: which dimension of which parameter is "
                                            "split over N shards."};
    struct arguments arguments = {.shards = 0};
    redco_rules_tree *tree = NULL;
    redco_rules *rules = NULL;
    const redco_rules_param *params = NULL;
    redco_error err = {0};
    const int parsed = cli_parse(&argp, argc, argv, &arguments.cli);
    if (parsed != CLI_RUN) { return parsed; }
    int code = CLI_DONE;
    size_t count = 0;
    redco_status st = read_tree(&arguments, &tree, &err);
    if (st == REDCO_OK) {
        count = redco_rules_tree_params(tree, &params);
        st = redco_rules_decide(params, count, (uint32_t)arguments.shards, &rules, &err);
    }
    if (st != REDCO_OK) {
        code = cli_fail(&arguments.cli, &err);
    } else if (arguments.cli.json) {
        code = print_json(&arguments.cli, rules, params, count);
    } else {
        code = print_table(&arguments, rules, params, count);
    }
    redco_rules_free(rules);
    redco_rules_tree_free(tree);
    return code;
}
