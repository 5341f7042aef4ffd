/* redco-sim: a plan's step, operator by operator: where the time goes, what communication is exposed, what is in
 * memory. */
#include "tools/cli/overlap_option.h"
#include "tools/report/sim_report.h"

#include <stdio.h>

const char *argp_program_version = "redco-sim " REDCO_VERSION;

enum key { KEY_TIMELINE = 0x100, KEY_OVERLAP, KEY_PROFILE, KEY_CHUNKS };
enum { MOST_PROFILES = 64, MOST_CHUNKS = 64 };

struct sim_args {
    struct cli cli; /* first: see cli.h */
    const char *plan, *timeline;
    const char *profiles[MOST_PROFILES];
    uint32_t profile_count;
    bool overlap_given;
    uint32_t overlap, chunks;
};

/* clang-format off */
static const struct argp_option flags[] = {
    {"timeline", KEY_TIMELINE, "TRACE", 0, "Write the step as a trace for Perfetto", 1},
    {"overlap", KEY_OVERLAP, "LIST|none", 0, "Traffic hidden behind compute: ag_rs, ar, bc (default: the plan's)", 1},
    {"chunks", KEY_CHUNKS, "N", 0, "Model chunks of a pipeline stage: interleaved 1F1B (default: the plan's)", 1},
    {"profile", KEY_PROFILE, "FILE", 0, "Measured collectives that the plan was made with; may be repeated", 1},
    CLI_OPTIONS,
    {0}
};
/* clang-format on */

static error_t read_flag(int key, char *text, struct argp_state *state)
{
    struct sim_args *const args = state->input;
    uint64_t number = 0;
    error_t why = 0;
    switch (key) {
    case KEY_TIMELINE: return cli_name(&args->cli, "--timeline", text, &args->timeline);
    case KEY_OVERLAP: args->overlap_given = true; return overlap_option(&args->cli, "--overlap", text, &args->overlap);
    case KEY_CHUNKS:
        why = cli_u64(&args->cli, "--chunks", text, 1, MOST_CHUNKS, &number);
        args->chunks = (uint32_t)number;
        return why;
    case KEY_PROFILE:
        if (args->profile_count == MOST_PROFILES) {
            return cli_bad_option(&args->cli, "--profile", "is given more than %d times", MOST_PROFILES);
        }
        return cli_name(&args->cli, "--profile", text, &args->profiles[args->profile_count++]);
    case ARGP_KEY_ARG:
        if (args->plan != NULL) { return cli_bad_option(&args->cli, text, "is a second plan; one is simulated"); }
        return cli_name(&args->cli, "PLAN", text, &args->plan);
    case ARGP_KEY_END:
        if (args->plan == NULL && args->cli.err.status == REDCO_OK) {
            return cli_bad_option(&args->cli, "PLAN", "is missing; redco-plan -o writes one");
        }
        return 0;
    default: return cli_option(key, text, state);
    }
}

static redco_status write_timeline(const struct sim_args *args, const redco_plan_case *c, redco_error *err)
{
    redco_trace *trace = NULL;
    redco_status st =
        redco_simulate_trace(c->costs, &c->parallelism, c->assignments, c->assignment_count, NULL, &trace, err);
    if (st == REDCO_OK) { st = redco_trace_write(trace, args->timeline, err); }
    redco_trace_free(trace);
    return st;
}

static redco_status simulate(const struct sim_args *args, redco_plan_case *c, struct sim_answer *answer,
                             redco_error *err)
{
    redco_status st = redco_plan_reopen(answer->plan, args->plan, args->profiles, args->profile_count, c, err);
    if (st != REDCO_OK) { return st; }
    if (args->chunks > 0) {
        c->parallelism.chunks = args->chunks;
        c->parallelism.schedule = REDCO_PIPELINE_1F1B;
        c->parallelism.group = 0;
        c->parallelism.split = NULL;
        if ((st = redco_step_chunks_check(c->costs, &c->parallelism, err)) != REDCO_OK) { return st; }
    }
    answer->chunks = redco_parallelism_chunks(&c->parallelism);
    const uint32_t overlap = args->overlap_given ? args->overlap : c->workload.overlap;
    if ((st = redco_plan_case_overlap(c, overlap, err)) != REDCO_OK) { return st; }
    answer->closed = redco_cost_step(c->costs, &c->parallelism, c->assignments, c->assignment_count);
    st = redco_simulate(c->costs, &c->parallelism, c->assignments, c->assignment_count, NULL, &answer->simulation, err);
    return st == REDCO_OK && args->timeline != NULL ? write_timeline(args, c, err) : st;
}

static int print(const struct sim_args *args, const struct sim_answer *answer)
{
    redco_error err = {0};
    if (args->cli.json) {
        json_t *const json = sim_json(answer);
        const int rc = cli_print_json(&args->cli, json);
        json_decref(json);
        return rc;
    }
    if (!sim_report(answer)) {
        (void)redco_fail(&err, REDCO_ENOMEM, "", "out of memory");
        return cli_fail(&args->cli, &err);
    }
    if (args->timeline != NULL) { cli_wrote(args->timeline); }
    return cli_finish(&args->cli, CLI_DONE);
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = flags,
        .parser = read_flag,
        .args_doc = "PLAN",
        .doc = "Simulates the training step of a plan file: every operator on its stream, in the engine's order."
               "\vExit code: 0 done, 2 bad input, 3 a system failure."};
    struct sim_args args = {.chunks = 0};
    redco_plan_case reopened = {.costs = NULL};
    redco_plan *plan = NULL;
    redco_error err = {0};
    int rc = cli_parse(&argp, argc, argv, &args.cli);
    if (rc != CLI_RUN) { return rc; }
    struct sim_answer answer = {.reopened = &reopened, .chunks = 1};
    redco_status st = args.timeline != NULL ? cli_writable(args.timeline, &err) : REDCO_OK;
    if (st == REDCO_OK) { st = redco_plan_read(args.plan, &plan, &err); }
    answer.plan = plan;
    if (st == REDCO_OK) { st = simulate(&args, &reopened, &answer, &err); }
    rc = st == REDCO_OK ? print(&args, &answer) : cli_fail(&args.cli, &err);
    redco_plan_case_free(&reopened);
    redco_plan_free(plan);
    return rc;
}
