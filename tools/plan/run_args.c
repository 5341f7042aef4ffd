#include "tools/plan/run_args.h"

#include "planner/search/strategy.h"
#include "tools/plan/plan_args.h"
#include "topology/base/number.h"

#include <string.h>
#include <unistd.h>

enum key {
    KEY_TOKENS = 0x300,
    KEY_PRICE,
    KEY_FAILURES,
    KEY_RECOVERY,
    KEY_CHECKPOINT,
    KEY_STORAGE,
    KEY_SPARES,
    KEY_FAULT_TOLERANT,
    KEY_CRITICAL_BATCH,
    KEY_NOISE,
    KEY_SLOW_RANK,
    KEY_PUE,
    KEY_GRID,
    KEY_HOST_WATTS, /* so far in the order of redco_run_keys */
    KEY_DEADLINE,
    KEY_BUDGET,
    KEY_RUN,
    KEY_COMPARE_RUNS
};

/* clang-format off */
static const struct argp_option flags[] = {
    {NULL, 0, NULL, 0, "A whole run:", 5},
    {"tokens", KEY_TOKENS, "N", 0, "Train on so many tokens (15T, 300B): days, GPU-hours, failures, money, energy", 5},
    {"run", KEY_RUN, "FILE", 0, "Phases of a run, a JSON file: see redco-plan(1)", 5},
    {"deadline", KEY_DEADLINE, "TIME", 0, "At most so long (60d): the cheapest and the fastest choice that keeps it", 5},
    {"budget", KEY_BUDGET, "MONEY", 0, "At most so much money", 5},
    {"price", KEY_PRICE, "P|FILE", 0, "Price of a GPU-hour (2.5/gpu-hour), or a preset or file of prices", 5},
    {"failures", KEY_FAILURES, "PRESET|N/TIME", 0, "Failure rates: a preset or file (default tuned-large), or a count (12/30d; on 2048 nodes of 8 GPUs 466/54d/2048)", 5},
    {"recovery", KEY_RECOVERY, "LIST", 0, "detect=1min,restart=4min,reload=30s,repair=24h; any of them", 5},
    {"checkpoint", KEY_CHECKPOINT, "MODE[,...]", 0, "blocking, async (default) or memory; interval=10min,wait=5s,write=60s (default: the best interval, times from bytes and rates)", 5},
    {"storage", KEY_STORAGE, "RATE", 0, "Rate at which storage takes data from all nodes together (2 TB/s)", 5},
    {"spares", KEY_SPARES, "N", 0, "Nodes that stand by and are paid for (default: a pool that is not)", 5},
    {"fault-tolerant", KEY_FAULT_TOLERANT, "TIME", OPTION_ARG_OPTIONAL, "A failure stops one data-parallel replica; all others wait so long (default 3min)", 5},
    {"critical-batch", KEY_CRITICAL_BATCH, "N|FILE", 0, "Tokens of the critical batch, or a preset or file of batches: larger batches need more tokens", 5},
    {"noise", KEY_NOISE, "LIST", 0, "static=0.01,transient=0.02: deviation of GPUs, and noise of a micro-batch, as shares of a rank's time", 5},
    {"slow-rank", KEY_SLOW_RANK, "X", 0, "One rank computes X times as long", 5},
    {"pue", KEY_PUE, "X", 0, "Power of the building over that of the machines (default 1.2)", 5},
    {"grid", KEY_GRID, "NAME|G", 0, "Carbon of a kWh: a preset or file, or grams (56 gCO2/kWh)", 5},
    {"host-watts", KEY_HOST_WATTS, "W", 0, "A GPU's share of hosts, fans and network (default: half of its rated power)", 5},
    {"compare-runs", KEY_COMPARE_RUNS, "A.json B.json", 0, "Differences between two runs (--json), in days and money, cause by cause", 5},
    {0}
};
/* clang-format on */

static error_t take(struct plan_args *args, int key, const char *text)
{
    char option[32];
    const char *const name = redco_run_keys[key - KEY_TOKENS];
    (void)snprintf(option, sizeof option, "--%s", name);
    if (key == KEY_FAULT_TOLERANT && text != NULL && text[0] == '\0') {
        return cli_bad_option(&args->cli, option, "is empty; write 3min, or nothing");
    }
    if (key != KEY_TOKENS && args->run.term == NULL) { args->run.term = name; }
    const redco_status st =
        redco_run_words_take(&args->run.words, name, text != NULL ? text : "", option, &args->cli.err);
    return st == REDCO_OK ? 0 : EINVAL;
}

static error_t read_flag(int key, char *text, struct argp_state *state)
{
    struct plan_args *args = state->input;
    struct run_args *run = &args->run;
    if (key >= KEY_TOKENS && key < KEY_COMPARE_RUNS) { args->plans = true; }
    if (key >= KEY_TOKENS && key <= KEY_HOST_WATTS) { return take(args, key, text); }
    switch (key) {
    case KEY_DEADLINE:
        run->term = run->term != NULL ? run->term : "deadline";
        if (redco_run_parse(text, REDCO_RUN_SECONDS, "--deadline", &run->deadline_s, &args->cli.err) != REDCO_OK) {
            return EINVAL;
        }
        return run->deadline_s > 0.0 ? 0 : cli_bad_option(&args->cli, "--deadline", "is no time at all");
    case KEY_BUDGET:
        run->term = run->term != NULL ? run->term : "budget";
        return cli_real(&args->cli, "--budget", text, 1e-3, 1e30, &run->budget);
    case KEY_RUN: return cli_name(&args->cli, "--run", text, &run->file);
    case KEY_COMPARE_RUNS: return cli_name(&args->cli, "--compare-runs", text, &run->compared[0]);
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp run_argp = {.options = flags, .parser = read_flag};

static error_t add_size(struct plan_args *args, uint64_t gpus)
{
    if (args->question.size_count == REDCO_MOST_SIZES) {
        return cli_bad_option(&args->cli, "--gpus", "has more than %d numbers", REDCO_MOST_SIZES);
    }
    args->question.sizes[args->question.size_count++] = gpus;
    return 0;
}

bool run_args_sizes(struct plan_args *args, const char *text, error_t *why)
{
    const uint64_t most_gpus = (uint64_t)1 << 24;
    const char *const dots = strstr(text, "..");
    uint64_t from = 0, to = 0;
    if (dots == NULL && strchr(text, ',') == NULL) { return false; }
    args->run.sizes = true;
    *why = 0;
    if (dots != NULL) {
        const size_t used = redco_whole_read(text, strlen(text), &from);
        if (used != (size_t)(dots - text) || !redco_whole_parse(dots + 2, 1, most_gpus, &to) || from == 0 ||
            from > to) {
            *why = cli_bad_option(&args->cli, "--gpus", "\"%.40s\" is not of the form 256..16384", text);
        }
        for (uint64_t gpus = from; *why == 0 && gpus < to; gpus *= 2) { *why = add_size(args, gpus); }
        if (*why == 0) { *why = add_size(args, to); }
        return true;
    }
    for (const char *at = text;; at++) {
        uint64_t gpus = 0;
        at += redco_whole_read(at, strlen(at), &gpus);
        if (gpus == 0 || gpus > most_gpus || (*at != ',' && *at != '\0')) {
            *why = cli_bad_option(&args->cli, "--gpus", "\"%.40s\" is not of the form 256,512,1024", text);
        } else {
            *why = add_size(args, gpus);
        }
        if (*why != 0 || *at == '\0') { return true; }
    }
}

bool run_args_objective(struct plan_args *args, const char *text)
{
    static const char *const words[] = {"time-to-train", "cost", "energy"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            args->run.objective = (enum run_objective)i;
            args->run.objective_given = true;
            return true;
        }
    }
    return false;
}

void run_args_clusters(struct plan_args *args)
{
    struct run_args *run = &args->run;
    const char *const text = args->question.names.cluster;
    char *rest = NULL;
    if (text == NULL || strchr(text, ',') == NULL || access(text, F_OK) == 0) { return; }
    if (strlen(text) >= sizeof run->cluster_text) {
        (void)cli_bad_option(&args->cli, "--cluster", "\"%.40s...\" is too long", text);
        return;
    }
    (void)snprintf(run->cluster_text, sizeof run->cluster_text, "%s", text);
    for (char *name = strtok_r(run->cluster_text, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        if (run->cluster_count == RUN_MOST_CLUSTERS) {
            (void)cli_bad_option(&args->cli, "--cluster", "names more than %d clusters", RUN_MOST_CLUSTERS);
            return;
        }
        run->clusters[run->cluster_count++] = name;
    }
    if (run->cluster_count == 0) { (void)cli_bad_option(&args->cli, "--cluster", "\"%.40s\" names none", text); }
}

bool run_args_frontier(const struct plan_args *args)
{
    const struct run_args *const run = &args->run;
    return run->sizes || run->cluster_count > 1 || args->precisions || run->deadline_s > 0.0 || run->budget > 0.0;
}

bool run_args_contradict(struct plan_args *args)
{
    const struct run_args *const run = &args->run;
    const redco_search_options *const o = &args->question.options;
    struct cli *const cli = &args->cli;
    const bool asked = run->words.tokens_given || run->file != NULL;
    char option[48];
    (void)snprintf(option, sizeof option, "--%s", run->term != NULL ? run->term : "");
    if (run->compared[0] != NULL) {
        if (args->plans || args->check != NULL || args->from != NULL || args->exports_any) {
            (void)cli_bad_option(cli, "--compare-runs", "goes only with --json and --quiet");
        } else if (run->compared[1] == NULL) {
            (void)cli_bad_option(cli, "--compare-runs", "takes two files: A.json B.json");
        }
    } else if (run->term != NULL && !asked) {
        (void)cli_bad_option(cli, option, "is a term of a run: give --tokens or --run, too");
    } else if (run->objective_given && !asked) {
        (void)cli_bad_option(cli, "--objective", "time-to-train, cost and energy are a run's: give --tokens, too");
    } else if (args->precisions && !run->words.tokens_given) {
        (void)cli_bad_option(cli, "--precision", "auto is chosen for a run: give --tokens, too");
    } else if (run->sizes && !run->words.tokens_given) {
        (void)cli_bad_option(cli, "--gpus",
                             "several numbers are compared for a run: give --tokens, or --sweep gpus=...");
    } else if (run->words.tokens_given && run->file != NULL) {
        (void)cli_bad_option(cli, "--run", "says the tokens of each phase: leave out --tokens");
    } else if (asked && (args->compare || args->compare_engines || o->top > 0 ||
                         (args->question.size_count > 0 && !run->sizes))) {
        (void)cli_bad_option(cli, run->file != NULL ? "--run" : "--tokens",
                             "asks for a run: leave out --compare, --sweep and --top");
    } else if ((run->file != NULL || run_args_frontier(args)) &&
               (args->out != NULL || args->timeline != NULL || args->explain || args->exports_any || o->verify ||
                args->question.try_engines)) {
        (void)cli_bad_option(
            cli, run->file != NULL ? "--run" : "--tokens",
            "gives several plans here: leave out -o, --engine auto, --explain, --export, --timeline and "
            "--verify");
    } else if (run->file != NULL && (run->sizes || run->cluster_count > 0 || run->deadline_s > 0.0 ||
                                     run->budget > 0.0 || run->objective_given)) {
        (void)cli_bad_option(cli, "--run",
                             "is one run: leave out --deadline, --budget and --objective, several "
                             "clusters and numbers of GPUs");
    } else if (!asked && run->cluster_count > 1 &&
               (args->compare || args->compare_engines || o->top > 0 || args->question.size_count > 0 ||
                args->out != NULL || args->timeline != NULL || args->report != NULL || args->explain || args->kept ||
                args->memory || args->exports_any || o->verify || args->question.try_engines || args->log != NULL ||
                args->write != NULL)) {
        (void)cli_bad_option(cli, "--cluster",
                             "names several: they are rows of one table, with --json and options of the question");
    } else if (run->budget > 0.0 && run->words.price == NULL) {
        (void)cli_bad_option(cli, "--budget", "needs --price");
    }
    return cli->err.status != REDCO_OK;
}
