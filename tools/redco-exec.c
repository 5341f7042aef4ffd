/* redco-exec: trains the model of a plan file on the plan's ranks. */
#include "costmodel/step.h"
#include "planner/assemble.h"
#include "tools/exec_ranks.h"
#include "tools/exec_report.h"
#include "tools/launched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *argp_program_version = "redco-exec " REDCO_VERSION;

enum key {
    KEY_BACKEND = 0x100,
    KEY_STEPS,
    KEY_DATA,
    KEY_CHECK,
    KEY_SEED,
    KEY_RATE,
    KEY_DTYPE,
    KEY_PROFILE,
    KEY_EMULATE,
    KEY_TIMELINE,
    KEY_TIMELINE_RANK,
    KEY_TIMELINE_STEPS,
    KEY_FAULT
};
enum { MOST_STEPS = 1000000, MOST_PROFILES = 64 };

struct exec_args {
    struct cli cli; /* first: see cli.h */
    const char *path, *data;
    uint64_t steps, seed;
    double learning_rate;
    int dtype; /* index of dtype_words, -1: the plan's */
    bool check, emulate;
    const char *timeline;
    uint64_t timeline_rank, timeline_steps;
    const char *profiles[MOST_PROFILES];
    uint32_t profile_count;
    redco_trainer_fault fault;
    char fault_tensor[200]; /* "": none */
    const redco_plan *plan;
    redco_plan_case prices;
    redco_fixed_cost fixed;
    redco_step *schedule;
};

static const char *const dtype_words[] = {"f32", "f64", "bf16", "f16", NULL};
static const redco_dtype dtypes[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};
static const char *const backend_words[] = {"host", NULL};

/* clang-format off */
static const struct argp_option flags[] = {
    {"backend", KEY_BACKEND, "NAME", 0, "Who computes: host, this machine's processors (default)", 1},
    {"steps", KEY_STEPS, "N", 0, "Steps to train (default: 10)", 1},
    {"data", KEY_DATA, "FILE", 0, "Token ids, 16 bits each (32 for vocabularies above 65536), little-endian; default: made from the seed", 1},
    {"seed", KEY_SEED, "N", 0, "Of first weights and made tokens (default: 1)", 1},
    {"learning-rate", KEY_RATE, "R", 0, "Of AdamW, the same in every step (default: 0.001)", 1},
    {"dtype", KEY_DTYPE, "TYPE", 0, "f32, f64, bf16 or f16, instead of the plan's precision", 1},
    {"check", KEY_CHECK, NULL, 0, "Train on one rank, too, and compare losses and weights (of bf16 and f16 losses alone); in f32 where --dtype says nothing", 1},
    {"fault", KEY_FAULT, "TENSOR@RANK:STEP", 0, "Add 0.01 to one element of the tensor on one rank after a step: see --check notice it", 1},
    {"emulate-compute", KEY_EMULATE, NULL, 0, "Computation is waited for as long as the plan predicts, communication is real", 1},
    {"timeline", KEY_TIMELINE, "TRACE", 0, "Write the last steps as measured as a trace for Perfetto, with the names of redco-sim --timeline", 1},
    {"timeline-rank", KEY_TIMELINE_RANK, "R", 0, "Whose (default: 0)", 1},
    {"timeline-steps", KEY_TIMELINE_STEPS, "N", 0, "How many; the first step, which warms up, is never among several (default: 3)", 1},
    {"profile", KEY_PROFILE, "FILE", 0, "Measurements that the plan was made with; may be repeated", 1},
    CLI_OPTIONS,
    {0}
};
/* clang-format on */

static error_t read_rate(struct exec_args *args, const char *text)
{
    char *end = NULL;
    args->learning_rate = strtod(text, &end);
    return *end == '\0' && end != text && args->learning_rate >= 0.0 && args->learning_rate <= 1e30
               ? 0
               : cli_bad_option(&args->cli, "--learning-rate", "\"%.40s\" is not a number from 0 on", text);
}

static error_t read_fault(struct exec_args *args, const char *text)
{
    const char *const at = strrchr(text, '@');
    unsigned long long step = 0;
    unsigned rank = 0;
    int end = 0;
    if (at == NULL || at == text || (size_t)(at - text) >= sizeof args->fault_tensor ||
        sscanf(at, "@%9u:%9llu%n", &rank, &step, &end) != 2 || at[end] != '\0' || step == 0) {
        return cli_bad_option(&args->cli, "--fault", "\"%.60s\" is not TENSOR@RANK:STEP, with steps from 1", text);
    }
    (void)snprintf(args->fault_tensor, sizeof args->fault_tensor, "%.*s", (int)(at - text), text);
    args->fault = (redco_trainer_fault){args->fault_tensor, rank, step, 0.01};
    return 0;
}

static error_t read_flag(int key, char *text, struct argp_state *state)
{
    struct exec_args *const args = state->input;
    int word = 0;
    switch (key) {
    case KEY_BACKEND: return cli_word(&args->cli, "--backend", text, backend_words, &word);
    case KEY_STEPS: return cli_u64(&args->cli, "--steps", text, 1, MOST_STEPS, &args->steps);
    case KEY_DATA: return cli_name(&args->cli, "--data", text, &args->data);
    case KEY_SEED: return cli_u64(&args->cli, "--seed", text, 0, INT64_MAX, &args->seed);
    case KEY_RATE: return read_rate(args, text);
    case KEY_DTYPE: return cli_word(&args->cli, "--dtype", text, dtype_words, &args->dtype);
    case KEY_CHECK: args->check = true; return 0;
    case KEY_FAULT: return read_fault(args, text);
    case KEY_EMULATE: args->emulate = true; return 0;
    case KEY_TIMELINE: return cli_name(&args->cli, "--timeline", text, &args->timeline);
    case KEY_TIMELINE_RANK:
        return cli_u64(&args->cli, "--timeline-rank", text, 0, REDCO_WORLD_MAX, &args->timeline_rank);
    case KEY_TIMELINE_STEPS: return cli_u64(&args->cli, "--timeline-steps", text, 1, MOST_STEPS, &args->timeline_steps);
    case KEY_PROFILE:
        if (args->profile_count == MOST_PROFILES) {
            return cli_bad_option(&args->cli, "--profile", "is given more than %d times", MOST_PROFILES);
        }
        return cli_name(&args->cli, "--profile", text, &args->profiles[args->profile_count++]);
    case ARGP_KEY_ARG:
        if (args->path != NULL) { return cli_bad_option(&args->cli, text, "is a second plan; one is run"); }
        return cli_name(&args->cli, "PLAN", text, &args->path);
    case ARGP_KEY_END:
        if (args->cli.err.status != REDCO_OK) { return 0; }
        if (args->path == NULL) { return cli_bad_option(&args->cli, "PLAN", "is missing; redco-plan -o writes one"); }
        if (args->check && args->emulate) {
            return cli_bad_option(&args->cli, "--check", "needs real computation, not --emulate-compute");
        }
        return 0;
    default: return cli_option(key, text, state);
    }
}

static redco_dtype dtype_of(const struct exec_args *args)
{
    if (args->dtype >= 0) { return dtypes[args->dtype]; }
    return args->check ? REDCO_F32 : redco_trainer_dtype(args->plan->precision);
}

/* What all ranks meet alike is told by one: before the first step, and losses that are no numbers. What one meets is
 * told with its number and where it was. */
static int fail(const struct exec_args *args, uint32_t rank, uint64_t step, const redco_error *err)
{
    const bool own =
        err->status == REDCO_ENOMEM || err->status == REDCO_ESYSTEM || (step > 0 && err->status != REDCO_EINFEASIBLE);
    redco_error named = {.status = REDCO_OK};
    char place[sizeof named.place];
    if (!own && rank != 0) { return err->status == REDCO_EINFEASIBLE ? CLI_NO : CLI_USAGE; }
    if (step == 0 && !own) { return cli_fail(&args->cli, err); }
    if (step == 0) {
        (void)snprintf(place, sizeof place, "rank %u: %.400s", rank, err->place);
    } else {
        (void)snprintf(place, sizeof place, "rank %u, step %llu: %.400s", rank, (unsigned long long)step, err->place);
    }
    (void)redco_fail(&named, err->status, place, "%s", err->text);
    return cli_fail(&args->cli, &named);
}

static int report(const struct exec_args *args, const struct exec_run *run)
{
    const int code = run->verdict == NULL || run->verdict->same ? CLI_DONE : CLI_NO;
    redco_error err = {.status = REDCO_OK};
    if (!args->cli.json) {
        exec_print_tail(run);
        return cli_finish(&args->cli, code);
    }
    json_t *const json = exec_json(run);
    if (json == NULL) {
        (void)redco_fail(&err, REDCO_ENOMEM, "", "out of memory");
        return cli_fail(&args->cli, &err);
    }
    const int rc = cli_print_json(&args->cli, json);
    json_decref(json);
    return rc == CLI_DONE ? code : rc;
}

/* The steps of the timeline: the last ones, without the first where there are others. */
static bool is_shown(const struct exec_args *args, uint64_t step)
{
    const uint64_t most = args->steps > 1 ? args->steps - 1 : 1;
    const uint64_t shown = args->timeline_steps < most ? args->timeline_steps : most;
    return step > args->steps - shown;
}

/* One step more of this rank's timeline. */
static redco_status add_step(const redco_trainer *trainer, uint64_t step, redco_trace *trace, double *from_s,
                             redco_error *err)
{
    redco_timeline *timeline = NULL;
    redco_status st = redco_trainer_timeline(trainer, &timeline, err);
    if (st == REDCO_OK) { st = redco_timeline_add(timeline, *from_s, step, trace, err); }
    if (st == REDCO_OK) { *from_s += timeline->span_s; }
    redco_timeline_free(timeline);
    return st;
}

static redco_status write_trace(const struct exec_args *args, const struct exec_run *run, redco_trace *trace,
                                redco_error *err)
{
    char text[64];
    redco_trace_add_note(trace, "format", "redco-timeline");
    redco_trace_add_note(trace, "source", args->emulate ? "measured, computation emulated" : "measured");
    (void)snprintf(text, sizeof text, "%llu of %llu", (unsigned long long)args->timeline_rank,
                   (unsigned long long)redco_plan_gpus(args->plan));
    redco_trace_add_note(trace, "rank", text);
    (void)snprintf(text, sizeof text, "%llu of %llu", (unsigned long long)args->plan->micro_batches,
                   (unsigned long long)args->plan->micro_batches);
    redco_trace_add_note(trace, "micro_batches", text);
    (void)snprintf(text, sizeof text, "%.9g", exec_median_step_s(run));
    redco_trace_add_note(trace, "step_s", text);
    return redco_trace_write(trace, args->timeline, err);
}

/* All steps of a rank, and the check. */
static int train(const struct exec_args *args, redco_world *world)
{
    const redco_trainer_options options = {.dtype = dtype_of(args),
                                           .optimizer = redco_optimizer_default(),
                                           .learning_rate = args->learning_rate,
                                           .seed = args->seed,
                                           .data = args->data,
                                           .steps = args->schedule,
                                           .emulate = args->emulate,
                                           .fault = args->fault_tensor[0] != '\0' ? &args->fault : NULL};
    const uint32_t rank = redco_world_rank(world);
    const bool speaks = rank == 0 && !args->cli.json && !args->cli.quiet;
    const bool traced = args->timeline != NULL && rank == args->timeline_rank;
    redco_trainer *trainer = NULL;
    redco_trainer_verdict verdict = {.same = true};
    redco_error err = {.status = REDCO_OK};
    uint64_t step = 0;
    double from_s = 0.0;
    redco_trainer_step *const steps = calloc(args->steps, sizeof *steps);
    redco_trace *const trace = redco_trace_new();
    redco_status st =
        steps == NULL || trace == NULL ? redco_fail(&err, REDCO_ENOMEM, "steps", "out of memory") : REDCO_OK;
    if (st == REDCO_OK) { st = redco_trainer_create(args->plan, args->path, &options, world, &trainer, &err); }
    redco_trainer_memory memory = {.total_bytes = 0};
    if (st == REDCO_OK) { memory = redco_trainer_memory_of(trainer); }
    if (st == REDCO_OK && speaks) { exec_print_head(args->plan, options.dtype, &memory); }
    while (step < args->steps && st == REDCO_OK) {
        st = redco_trainer_run(trainer, &steps[step++], &err);
        if (st == REDCO_OK && speaks) { exec_print_step(args->plan, step, &steps[step - 1]); }
        if (st == REDCO_OK && traced && is_shown(args, step)) { st = add_step(trainer, step, trace, &from_s, &err); }
    }
    if (st == REDCO_OK && args->check) { st = redco_trainer_compare(trainer, steps, args->steps, &verdict, &err); }
    const struct exec_run run = {.plan = args->plan,
                                 .dtype = options.dtype,
                                 .steps = steps,
                                 .count = args->steps,
                                 .memory = memory,
                                 .model_flops_per_token = args->fixed.model_flops_per_token,
                                 .peak_flops_per_s = args->fixed.peak_flops_per_s,
                                 .emulated = args->emulate,
                                 .verdict = args->check ? &verdict : NULL};
    if (st == REDCO_OK && traced) { st = write_trace(args, &run, trace, &err); }
    int rc = CLI_DONE;
    if (st != REDCO_OK) {
        rc = fail(args, rank, step, &err);
    } else if (rank == 0) {
        rc = report(args, &run);
    }
    redco_trainer_free(trainer);
    redco_trace_free(trace);
    free(steps);
    return rc;
}

/* The step as the simulator has it. Prices decide nothing but how long emulated computation takes. */
static redco_status make_schedule(struct exec_args *args, redco_error *err)
{
    redco_plan_case *const c = &args->prices;
    redco_status st = redco_plan_case_open(args->plan, args->path, args->profiles, args->profile_count,
                                           redco_tp_attach_rules, args->emulate || args->profile_count > 0, c, err);
    if (st != REDCO_OK) { return st; }
    args->fixed = redco_cost_fixed(c->costs, &c->setting);
    st = redco_step_build(c->costs, &c->setting, c->assignments, c->assignment_count, NULL, &args->schedule, err);
    if (st == REDCO_OK && args->timeline != NULL && args->timeline_rank >= redco_plan_gpus(args->plan)) {
        st = redco_fail(err, REDCO_EVALUE, "--timeline-rank", "%llu is not one of the plan's %llu ranks",
                        (unsigned long long)args->timeline_rank, (unsigned long long)redco_plan_gpus(args->plan));
    }
    return st == REDCO_OK && args->timeline != NULL ? cli_writable(args->timeline, err) : st;
}

static int run_rank(const redco_world_options *options, void *context)
{
    const struct exec_args *const args = context;
    redco_world *world = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_world_open(options, &world, &err) != REDCO_OK) { return fail(args, options->rank, 0, &err); }
    const int rc = train(args, world);
    redco_world_close(world);
    return rc;
}

/* Weights, gradients, masters and states of all ranks on this machine, activations aside. */
static redco_status check_memory(const struct exec_args *args, uint64_t ranks, redco_error *err)
{
    const double have_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double element_bytes = (double)redco_dtype_bytes(dtype_of(args));
    const double need_bytes = (double)ranks / args->plan->tp * (double)args->plan->params * 2.0 * element_bytes;
    if (!(have_bytes > 0.0) || need_bytes <= have_bytes) { return REDCO_OK; }
    return redco_fail(
        err, REDCO_EVALUE, args->path,
        "weights and gradients of %llu ranks take %.0f GB, but this machine has %.0f GB; start the ranks on "
        "several machines with mpirun",
        (unsigned long long)ranks, need_bytes / 1e9, have_bytes / 1e9);
}

static int run_here(struct exec_args *args)
{
    const uint64_t ranks = redco_plan_gpus(args->plan);
    const redco_world_options alone = {.transport = REDCO_TRANSPORT_SELF, .size = 1};
    redco_error err = {.status = REDCO_OK};
    redco_status st = redco_trainer_check_plan(args->plan, args->path, ranks, &err);
    if (st == REDCO_OK && ranks > EXEC_RANKS_MAX) {
        st =
            redco_fail(&err, REDCO_EVALUE, args->path, "is for %llu ranks; at most %d are started here, more by mpirun",
                       (unsigned long long)ranks, EXEC_RANKS_MAX);
    }
    if (st == REDCO_OK) { st = check_memory(args, ranks, &err); }
    if (st == REDCO_OK) { st = make_schedule(args, &err); }
    if (st != REDCO_OK) { return cli_fail(&args->cli, &err); }
    return ranks == 1 ? run_rank(&alone, args) : exec_start_ranks(&args->cli, (uint32_t)ranks, run_rank, args);
}

/* As one rank of mpirun's, or of another launcher's. */
static int run_launched(struct exec_args *args, const redco_world_options *options, uint64_t ranks)
{
    redco_error err = {.status = REDCO_OK};
    if (redco_trainer_check_plan(args->plan, args->path, ranks, &err) != REDCO_OK ||
        make_schedule(args, &err) != REDCO_OK) {
        return fail(args, options->rank, 0, &err);
    }
    return run_rank(options, args);
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = flags,
        .parser = read_flag,
        .args_doc = "PLAN",
        .doc =
            "Trains the model of a plan file on as many ranks as the plan has GPUs: those of mpirun, else processes of "
            "this machine."
            "\vExit code: 0 done, 1 "
            "the check found a difference or a loss is no number, 2 bad input, 3 a system "
            "failure."};
    struct exec_args args = {.steps = 10, .seed = 1, .learning_rate = 1e-3, .dtype = -1, .timeline_steps = 3};
    redco_plan *plan = NULL;
    redco_error err = {.status = REDCO_OK};
    redco_world_options world = {.transport = REDCO_TRANSPORT_MPI};
    uint64_t rank = 0, ranks = 1;
    bool launched = false;
    int rc = cli_parse(&argp, argc, argv, &args.cli);
    if (rc != CLI_RUN) { return rc; }
    (void)setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* lines of several ranks do not mix */
    if (launched_world(&world, &launched, &err) != REDCO_OK) { return cli_fail(&args.cli, &err); }
    if (launched) {
        rank = world.rank;
        ranks = world.size;
    } else if (exec_under_mpi(&rank, &ranks)) {
        world.rank = (uint32_t)rank;
        launched = true;
    }
    if (redco_plan_read(args.path, &plan, &err) != REDCO_OK) { return fail(&args, (uint32_t)rank, 0, &err); }
    args.plan = plan;
    rc = launched ? run_launched(&args, &world, ranks) : run_here(&args);
    redco_step_free(args.schedule);
    redco_plan_case_free(&args.prices);
    redco_plan_free(plan);
    return rc;
}
