/* redco-rules: RedCoast's tensor-parallel rules for a parameter tree. */
#include "planner/rules/rules_user.h"
#include "tools/cli/cli.h"
#include "tools/report/rules_report.h"

#include <stdlib.h>

const char *argp_program_version = "redco-rules " REDCO_VERSION;

enum { KEY_PARAMS = 0x100, KEY_MODEL, KEY_SHARDS, KEY_RULES, KEY_RULES_MODE, KEY_EXPLAIN, KEY_HEADS, KEY_KV_HEADS };

enum { MOST_HEADS = 1 << 16 };

struct arguments {
    struct cli cli; /* first */
    const char *params;
    const char *model;
    const char *rules;
    int mode; /* -1: as the file says */
    uint64_t shards;
    bool explain;
    uint64_t heads, kv_heads;
};

static const struct argp_option options[] = {
    {"params", KEY_PARAMS, "FILE", 0,
     "Parameters: JSON {\"params\":[{\"path\":\"a/b/kernel\",\"shape\":[in,out]}]}, a .safetensors file or a "
     "model.safetensors.index.json",
     0},
    {"model", KEY_MODEL, "M", 0, "Instead of --params: a model preset or a HuggingFace config.json", 0},
    {"shards", KEY_SHARDS, "N", 0, "Number of shards", 0},
    {"rules", KEY_RULES, "FILE", 0,
     "Rules of your own, which come first: JSON {\"rules\":[{\"match\":\"c_proj/kernel\",\"dim\":0}]}, or what --json "
     "printed",
     0},
    {"rules-mode", KEY_RULES_MODE, "MODE", 0,
     "override: RedCoast's rules decide on the rest (the default); replace: there are no others", 0},
    {"explain", KEY_EXPLAIN, NULL, 0,
     "For every parameter which case of the algorithm decided, the collectives that it costs, and what is poor", 0},
    {"heads", KEY_HEADS, "N", 0, "Query heads, where no model tells them", 0},
    {"kv-heads", KEY_KV_HEADS, "N", 0, "Key-value heads (default: as many as query heads)", 0},
    CLI_OPTIONS,
    {0},
};

static error_t check_arguments(struct arguments *arguments)
{
    struct cli *cli = &arguments->cli;
    if ((arguments->params == NULL) == (arguments->model == NULL)) {
        return cli_bad_option(cli, "--params", "give either --params FILE or --model M");
    }
    if (arguments->shards == 0) { return cli_bad_option(cli, "--shards", "is missing"); }
    if (arguments->mode >= 0 && arguments->rules == NULL) {
        return cli_bad_option(cli, "--rules-mode", "needs --rules FILE");
    }
    if (arguments->kv_heads != 0 && arguments->heads == 0) {
        return cli_bad_option(cli, "--kv-heads", "needs --heads N");
    }
    if (arguments->heads != 0 && !arguments->explain) { return cli_bad_option(cli, "--heads", "needs --explain"); }
    if (arguments->kv_heads != 0 && arguments->heads % arguments->kv_heads != 0) {
        return cli_bad_option(cli, "--kv-heads", "must divide --heads");
    }
    return 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    static const char *const modes[] = {"override", "replace", NULL};
    struct arguments *arguments = state->input;
    struct cli *cli = &arguments->cli;
    switch (key) {
    case KEY_PARAMS: return cli_name(cli, "--params", text, &arguments->params);
    case KEY_MODEL: return cli_name(cli, "--model", text, &arguments->model);
    case KEY_SHARDS: return cli_u64(cli, "--shards", text, 1, 1U << 20, &arguments->shards);
    case KEY_RULES: return cli_name(cli, "--rules", text, &arguments->rules);
    case KEY_RULES_MODE: return cli_word(cli, "--rules-mode", text, modes, &arguments->mode);
    case KEY_EXPLAIN: arguments->explain = true; return 0;
    case KEY_HEADS: return cli_u64(cli, "--heads", text, 1, MOST_HEADS, &arguments->heads);
    case KEY_KV_HEADS: return cli_u64(cli, "--kv-heads", text, 1, MOST_HEADS, &arguments->kv_heads);
    case ARGP_KEY_END: return check_arguments(arguments);
    default: return cli_option(key, text, state);
    }
}

static redco_status read_tree(const struct arguments *arguments, redco_rules_tree **tree_out, redco_error *err)
{
    redco_model *model = NULL;
    redco_status st = REDCO_OK;
    if (arguments->params != NULL) {
        st = redco_rules_tree_read(arguments->params, tree_out, &model, err);
    } else if ((st = redco_model_read(arguments->model, &model, err)) == REDCO_OK) {
        st = redco_rules_tree_from_model(model, true, tree_out, err);
    }
    for (size_t i = 0; model != NULL && redco_model_warning(model, i) != NULL; i++) {
        cli_warn(&arguments->cli, redco_model_warning(model, i));
    }
    redco_model_free(model);
    return st;
}

static redco_status read_user_rules(const struct arguments *arguments, redco_user_rules **user_out, redco_error *err)
{
    if (arguments->rules == NULL) { return REDCO_OK; }
    const redco_status st = redco_user_rules_read(arguments->rules, user_out, err);
    if (st == REDCO_OK && arguments->mode >= 0) {
        redco_user_rules_set_mode(*user_out, arguments->mode == 1 ? REDCO_USER_REPLACE : REDCO_USER_OVERRIDE);
    }
    return st;
}

static redco_rules_setting setting_of(const struct arguments *arguments, const struct rules_answer *answer)
{
    redco_rules_setting setting = {.shards = answer->shards};
    const redco_model_dims *dims = redco_rules_tree_dims(answer->tree);
    if (dims != NULL) {
        setting.heads = dims->heads;
        setting.kv_heads = dims->kv_heads;
        setting.tied = dims->tied;
    } else {
        setting.tied = redco_rules_seem_tied(answer->params, answer->parts, answer->count);
    }
    if (arguments->heads != 0) {
        setting.heads = (uint32_t)arguments->heads;
        setting.kv_heads = (uint32_t)(arguments->kv_heads != 0 ? arguments->kv_heads : arguments->heads);
    }
    return setting;
}

static redco_status explain(const struct arguments *arguments, struct rules_answer *answer, redco_error *err)
{
    redco_status st = redco_rules_parts(answer->params, answer->count, &answer->parts, err);
    if (st != REDCO_OK) { return st; }
    int32_t *dims = calloc(answer->count + 1, sizeof *dims);
    answer->costs = calloc(answer->count + 1, sizeof *answer->costs);
    if (dims == NULL || answer->costs == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    for (size_t i = 0; i < answer->count; i++) { dims[i] = redco_rules_dim(answer->rules, i); }
    answer->setting = setting_of(arguments, answer);
    st = redco_rules_costs(answer->params, answer->parts, dims, answer->count, &answer->setting, answer->costs, err);
    if (st != REDCO_OK) { goto out; }
    const redco_rules_view view = {answer->params, answer->parts, answer->costs,
                                   answer->count,  answer->rules, &answer->setting};
    st = redco_rules_warnings(&view, &answer->warnings, &answer->warning_count, err);
out:
    free(dims);
    return st;
}

static redco_status decide(const struct arguments *arguments, struct rules_answer *answer, redco_error *err)
{
    redco_user_rules *user = NULL;
    redco_status st = read_tree(arguments, &answer->tree, err);
    if (st == REDCO_OK) { st = read_user_rules(arguments, &user, err); }
    if (st == REDCO_OK) {
        answer->count = redco_rules_tree_params(answer->tree, &answer->params);
        st = redco_rules_decide_user(answer->params, answer->count, answer->shards, user, &answer->rules, err);
    }
    if (st == REDCO_OK) {
        answer->rule_count = redco_rules_list(answer->rules, &answer->list);
        if (answer->explain) { st = explain(arguments, answer, err); }
    }
    redco_user_rules_free(user);
    return st;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {.options = options,
                                     .parser = parse_option,
                                     .doc = "RedCoast's tensor-parallel rules: which dimension of which parameter is "
                                            "split over N shards."};
    struct arguments arguments = {.shards = 0, .mode = -1};
    redco_error err = {0};
    const int parsed = cli_parse(&argp, argc, argv, &arguments.cli);
    if (parsed != CLI_RUN) { return parsed; }
    struct rules_answer answer = {.shards = (uint32_t)arguments.shards, .explain = arguments.explain};
    int code = CLI_DONE;
    if (decide(&arguments, &answer, &err) != REDCO_OK) {
        code = cli_fail(&arguments.cli, &err);
    } else if (arguments.cli.json) {
        code = rules_print_json(&arguments.cli, &answer);
    } else {
        code = rules_print_tables(&arguments.cli, &answer);
    }
    free(answer.warnings);
    free(answer.costs);
    free(answer.parts);
    redco_rules_free(answer.rules);
    redco_rules_tree_free(answer.tree);
    return code;
}
