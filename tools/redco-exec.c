/* redco-exec: trains the model of a plan file on the plan's ranks. */
#include "costmodel/step.h"
#include "executor/comm/nccl/nccl.h"
#include "executor/comm/replay.h"
#include "executor/trainer/devices.h"
#include "planner/assemble.h"
#include "tools/cuda_folders.h"
#include "tools/exec_device.h"
#include "tools/exec_ranks.h"
#include "tools/exec_report.h"
#include "tools/exec_timeline.h"
#include "tools/launched.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *argp_program_version = "redco-exec " REDCO_VERSION;

enum key {
    KEY_BACKEND = 0x100,
    KEY_FUSE,
    KEY_GRAPHS,
    KEY_STEPS,
    KEY_DATA,
    KEY_CHECK,
    KEY_SEED,
    KEY_RATE,
    KEY_DTYPE,
    KEY_PROFILE,
    KEY_EMULATE,
    KEY_REPLAY,
    KEY_TIMELINE,
    KEY_TIMELINE_RANK,
    KEY_TIMELINE_STEPS,
    KEY_FAULT,
    KEY_FOLDER,
    KEY_EVERY,
    KEY_KEEP,
    KEY_RESUME,
    KEY_TIMEOUT
};
enum { MOST_STEPS = 1000000, MOST_PROFILES = 64, MOST_KEPT = 10000, MOST_TIMEOUT_S = 86400 };

struct exec_args {
    struct cli cli;                   /* first: see cli.h */
    const char *path, *data, *folder; /* folder: of checkpoints */
    uint64_t steps, seed, every, keep, timeout_s;
    double learning_rate;
    bool has_seed, has_rate, has_every, has_keep, has_timeline_rank, resume;
    int backend; /* index of backend_words */
    int fuse;    /* index of fuse_words */
    int graphs;  /* index of graph_words */
    int dtype;   /* index of dtype_words, -1: the plan's */
    bool check, emulate;
    bool replay; /* one rank alone */
    uint64_t replay_rank;
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
    struct exec_start start;
};

static const char *const dtype_words[] = {"f32", "f64", "bf16", "f16", NULL};
static const redco_dtype dtypes[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};
static const char *const fuse_words[] = {"auto", "on", "off", NULL}; /* redco_trainer_fusing */
static const char *const graph_words[] = {"on", "off", NULL};
static const char *const backend_words[] = {"host", "cuda", NULL};
enum { BACKEND_HOST, BACKEND_CUDA };

/* clang-format off */
static const struct argp_option flags[] = {
    {"backend", KEY_BACKEND, "NAME", 0, "Who computes: host, this machine's processors (default), or cuda, a GPU for each rank", 1},
    {"steps", KEY_STEPS, "N", 0, "Steps to train (default: 10); 0: only take the memory, and report it", 1},
    {"data", KEY_DATA, "FILE", 0, "Token ids, 16 bits each (32 for vocabularies above 65536), little-endian; default: made from the seed", 1},
    {"seed", KEY_SEED, "N", 0, "Of first weights and made tokens (default: 1)", 1},
    {"learning-rate", KEY_RATE, "R", 0, "Of AdamW, the same in every step (default: 0.001)", 1},
    {"dtype", KEY_DTYPE, "TYPE", 0, "f32, f64, bf16 or f16, instead of the plan's precision", 1},
    {"fuse", KEY_FUSE, "WHEN", 0, "Run operators that stand together as one, products with what follows them and elementwise ones: auto (default; on GPUs), on, off", 1},
    {"cuda-graphs", KEY_GRAPHS, "WHEN", 0, "On GPUs, what a step computes between communication is captured in the second step and launched as graphs from then on: on (default), off", 1},
    {"check", KEY_CHECK, NULL, 0, "Train on one rank, too, and compare losses and weights (of bf16 and f16 losses alone); in f32 where --dtype says nothing", 1},
    {"fault", KEY_FAULT, "TENSOR@RANK:STEP", 0, "Add 0.01 to one element of the tensor on one rank after a step: see --check notice it", 1},
    {"emulate-compute", KEY_EMULATE, NULL, 0, "Computation is waited for as long as the plan predicts, communication is real", 1},
    {"replay-rank", KEY_REPLAY, "R", 0, "One rank of a plan of any size, alone, at its full size: its communication is work of the device for as long as the plan predicts", 1},
    {"timeline", KEY_TIMELINE, "TRACE", 0, "Write the last steps as measured as a trace for Perfetto, with the names of redco-sim --timeline", 1},
    {"timeline-rank", KEY_TIMELINE_RANK, "R", 0, "Whose (default: 0, or that of --replay-rank)", 1},
    {"timeline-steps", KEY_TIMELINE_STEPS, "N", 0, "How many; the first step, which warms up, is never among several (default: 3)", 1},
    {"profile", KEY_PROFILE, "FILE", 0, "Measurements that the plan was made with; may be repeated", 1},
    {"checkpoint", KEY_FOLDER, "DIR", 0, "Write checkpoints there: after every so many steps, and after the last", 2},
    {"checkpoint-every", KEY_EVERY, "N", 0, "Steps between two checkpoints (default: 100)", 2},
    {"keep", KEY_KEEP, "K", 0, "Checkpoints that are kept, the newest ones (default: 2)", 2},
    {"resume", KEY_RESUME, NULL, 0, "Go on from the newest whole checkpoint of DIR, on any plan of the same model and global batch, to step --steps", 2},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0, "How long a rank may be silent before the run is ended (default: 60); longer than any rank computes, or writes to the disk, between two communications", 2},
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

/* What says nothing of a rank alone. */
static error_t check_replay(struct exec_args *args)
{
    const struct {
        bool given;
        const char *flag;
    } others[] = {{args->check, "--check"},
                  {args->folder != NULL, "--checkpoint"},
                  {args->resume, "--resume"},
                  {args->fault_tensor[0] != '\0', "--fault"},
                  {args->emulate, "--emulate-compute"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (!others[i].given) { continue; }
        return cli_bad_option(&args->cli, others[i].flag, "says nothing of one rank whose communication is emulated%s",
                              " (--replay-rank)");
    }
    if (args->has_timeline_rank && args->timeline_rank != args->replay_rank) {
        return cli_bad_option(&args->cli, "--timeline-rank", "there is only the rank of --replay-rank, %llu",
                              (unsigned long long)args->replay_rank);
    }
    args->timeline_rank = args->replay_rank;
    return 0;
}

static error_t read_flag(int key, char *text, struct argp_state *state)
{
    struct exec_args *const args = state->input;
    switch (key) {
    case KEY_BACKEND: return cli_word(&args->cli, "--backend", text, backend_words, &args->backend);
    case KEY_STEPS: return cli_u64(&args->cli, "--steps", text, 0, MOST_STEPS, &args->steps);
    case KEY_DATA: return cli_name(&args->cli, "--data", text, &args->data);
    case KEY_SEED: args->has_seed = true; return cli_u64(&args->cli, "--seed", text, 0, INT64_MAX, &args->seed);
    case KEY_RATE: args->has_rate = true; return read_rate(args, text);
    case KEY_FOLDER: return cli_name(&args->cli, "--checkpoint", text, &args->folder);
    case KEY_EVERY:
        args->has_every = true;
        return cli_u64(&args->cli, "--checkpoint-every", text, 1, MOST_STEPS, &args->every);
    case KEY_KEEP: args->has_keep = true; return cli_u64(&args->cli, "--keep", text, 1, MOST_KEPT, &args->keep);
    case KEY_RESUME: args->resume = true; return 0;
    case KEY_TIMEOUT: return cli_u64(&args->cli, "--timeout", text, 1, MOST_TIMEOUT_S, &args->timeout_s);
    case KEY_DTYPE: return cli_word(&args->cli, "--dtype", text, dtype_words, &args->dtype);
    case KEY_FUSE: return cli_word(&args->cli, "--fuse", text, fuse_words, &args->fuse);
    case KEY_GRAPHS: return cli_word(&args->cli, "--cuda-graphs", text, graph_words, &args->graphs);
    case KEY_CHECK: args->check = true; return 0;
    case KEY_FAULT: return read_fault(args, text);
    case KEY_EMULATE: args->emulate = true; return 0;
    case KEY_REPLAY:
        args->replay = true;
        return cli_u64(&args->cli, "--replay-rank", text, 0, REDCO_WORLD_MAX, &args->replay_rank);
    case KEY_TIMELINE: return cli_name(&args->cli, "--timeline", text, &args->timeline);
    case KEY_TIMELINE_RANK:
        args->has_timeline_rank = true;
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
        if (args->emulate && args->backend == BACKEND_CUDA) {
            return cli_bad_option(&args->cli, "--emulate-compute",
                                  "needs --backend host: a GPU would have nothing to do");
        }
        if (args->replay) { return check_replay(args); }
        if (args->folder == NULL && (args->resume || args->has_every || args->has_keep)) {
            return cli_bad_option(&args->cli,
                                  args->resume      ? "--resume"
                                  : args->has_every ? "--checkpoint-every"
                                                    : "--keep",
                                  "needs --checkpoint DIR");
        }
        if (args->emulate && args->folder != NULL) {
            return cli_bad_option(&args->cli, "--checkpoint", "needs real computation, not --emulate-compute");
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

static int report(const struct exec_args *args, const struct exec_run *run)
{
    const int code = !run->checked || run->verdict.same ? CLI_DONE : CLI_NO;
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

/* A rank's run. */
struct rank_run {
    const struct exec_args *args;
    struct exec_line *line;
    redco_world *world;
    redco_backend *backend;         /* NULL: the trainer's own */
    redco_carrier *carrier;         /* likewise */
    redco_checkpoints *checkpoints; /* NULL: none are written */
    redco_checkpoint *resumed;      /* NULL: from the beginning */
    redco_trainer *trainer;
    redco_trainer_step *steps;
    struct exec_run run;
    uint64_t at; /* step at work, from 1 */
    struct exec_timeline timeline;
    redco_error late; /* what failed first when the steps were done: told behind the results */
    uint32_t late_rank;
};

static bool speaks(const struct rank_run *r)
{
    return redco_world_rank(r->world) == 0 && !r->args->cli.json && !r->args->cli.quiet;
}

static void warn(void *context, const char *text)
{
    cli_warn(context, text);
}

static redco_status open_checkpoints(struct rank_run *r, redco_error *err)
{
    const struct exec_args *const args = r->args;
    const redco_checkpoints_options options = {.folder = args->folder,
                                               .keep = (uint32_t)args->keep,
                                               .resume = args->resume,
                                               .warn = warn,
                                               .context = (void *)(uintptr_t)&args->cli};
    if (args->folder == NULL) { return REDCO_OK; }
    redco_status st = redco_checkpoints_open(&options, r->world, &r->checkpoints, err);
    if (st == REDCO_OK && args->resume) { st = redco_checkpoints_find(r->checkpoints, &r->resumed, err); }
    return st;
}

/* What the checkpoint says counts where no option says something else. */
static redco_status open_trainer(struct rank_run *r, redco_error *err)
{
    const struct exec_args *const args = r->args;
    redco_trainer_options options = {.backend = r->backend,
                                     .carrier = r->carrier,
                                     .fuse = (redco_trainer_fusing)args->fuse,
                                     .launch_each = args->graphs != 0,
                                     .dtype = dtype_of(args),
                                     .optimizer = redco_optimizer_default(),
                                     .learning_rate = args->learning_rate,
                                     .seed = args->seed,
                                     .data = args->data,
                                     .steps = args->schedule,
                                     .emulate = args->emulate,
                                     .fault = args->fault_tensor[0] != '\0' ? &args->fault : NULL};
    if (r->resumed != NULL) {
        const redco_checkpoint_info *const info = redco_checkpoint_get_info(r->resumed);
        if (!args->has_seed) { options.seed = info->seed; }
        if (!args->has_rate) { options.learning_rate = info->learning_rate; }
    }
    redco_status st = redco_trainer_create(args->plan, args->path, &options, r->world, &r->trainer, err);
    if (st == REDCO_OK && r->resumed != NULL) { st = redco_trainer_load(r->trainer, r->checkpoints, r->resumed, err); }
    if (st != REDCO_OK) { return st; }
    r->run.first = redco_trainer_steps(r->trainer);
    r->run.memory = redco_trainer_memory_of(r->trainer);
    r->run.start.trainer = redco_trainer_start_of(r->trainer);
    if (speaks(r)) {
        exec_print_head(&r->run);
        if (r->resumed != NULL) { exec_print_resumed(redco_checkpoint_path(r->resumed), r->run.first, args->steps); }
    }
    return REDCO_OK;
}

static redco_status save(struct rank_run *r, redco_error *err)
{
    const struct exec_args *const args = r->args;
    if (r->checkpoints == NULL || (r->at % args->every != 0 && r->at != args->steps)) { return REDCO_OK; }
    const redco_status st = redco_trainer_save(r->trainer, r->checkpoints, err);
    if (st == REDCO_OK) { r->run.written++; }
    return st;
}

static redco_status run_steps(struct rank_run *r, redco_error *err)
{
    const bool leads = redco_world_rank(r->world) == 0;
    redco_status st = REDCO_OK;
    r->run.start.total_s = exec_now_s() - r->run.start.began_s;
    for (uint64_t step = r->run.first; step < r->args->steps && st == REDCO_OK; step++) {
        redco_trainer_step *const done = &r->steps[r->run.count];
        const uint64_t launched = redco_cuda_calls_made(r->backend);
        r->at = step + 1;
        if (r->line->slot != NULL) { atomic_store(&r->line->slot->step, r->at); }
        redco_trainer_time(r->trainer, exec_timeline_shows(&r->timeline, r->at), r->timeline.trace != NULL);
        st = redco_trainer_run(r->trainer, done, err);
        if (st != REDCO_OK) { break; }
        r->run.count++;
        r->run.launches = redco_cuda_calls_made(r->backend) - launched;
        if (r->run.count == 1) { exec_device_attention(&r->args->cli, leads, r->backend, &r->run); }
        if (r->run.count == 2) { exec_device_graphs(&r->args->cli, leads, r->trainer, &r->run); }
        if (speaks(r)) { exec_print_step(&r->run, r->at, done); }
        const bool shown = exec_timeline_shows(&r->timeline, r->at), last = r->at == r->args->steps;
        if (shown || last) { exec_device_reserve(&r->args->cli, r->backend, r->trainer, &r->run); }
        if (shown) { exec_timeline_add(&r->timeline, r->trainer, r->at); }
        if (save(r, last ? &r->late : err) != REDCO_OK && !last) { st = err->status; }
    }
    return st;
}

/* What all ranks do when the steps are done. */
static void look_back(struct rank_run *r)
{
    redco_error *const err = &r->late;
    const struct exec_args *const args = r->args;
    redco_status st = REDCO_OK;
    if (args->timeline != NULL) {
        st = args->replay ? REDCO_OK : exec_timeline_agree(&r->timeline, r->world, err);
        if (st == REDCO_OK && redco_world_rank(r->world) == 0 && r->timeline.err.status != REDCO_OK) {
            *err = r->timeline.err; /* the check is made all the same */
            r->late_rank = r->timeline.rank;
        }
    }
    if (st == REDCO_OK && args->check && r->run.first + r->run.count > 0) {
        st = redco_trainer_compare(r->trainer, r->steps, r->run.count, &r->run.verdict, err);
        r->run.checked = st == REDCO_OK;
    }
}

/* All steps of a rank, and the check. What fails when the steps are done leaves rank 0 their results to print. */
static redco_status train(struct rank_run *r, redco_error *err)
{
    const struct exec_args *const args = r->args;
    r->steps = calloc(args->steps + 1, sizeof *r->steps);
    r->timeline = (struct exec_timeline){.path = args->timeline,
                                         .steps = args->steps,
                                         .shown = args->timeline_steps,
                                         .rank = (uint32_t)args->timeline_rank};
    if (args->timeline != NULL && (args->replay || redco_world_rank(r->world) == args->timeline_rank)) {
        exec_timeline_open(&r->timeline);
    }
    if (r->steps == NULL) { return redco_fail(err, REDCO_ENOMEM, "steps", "out of memory"); }
    r->run.steps = r->steps;
    redco_status st = open_checkpoints(r, err);
    if (st == REDCO_OK) { st = open_trainer(r, err); }
    if (st == REDCO_OK) { st = run_steps(r, err); }
    if (st == REDCO_OK) { exec_timeline_write(&r->timeline, &args->cli, &r->run, r->backend); }
    if (st == REDCO_OK && r->late.status == REDCO_OK) { look_back(r); }
    if (st != REDCO_OK || r->late.status == REDCO_OK || redco_world_rank(r->world) == 0) { return st; }
    *err = r->late;
    return err->status;
}

/* The step as the simulator has it. Prices decide nothing but how long emulated computation takes. */
static redco_status make_schedule(struct exec_args *args, redco_error *err)
{
    redco_plan_case *const c = &args->prices;
    redco_status st =
        redco_plan_case_open(args->plan, args->path, args->profiles, args->profile_count, redco_tp_attach_rules,
                             args->emulate || args->replay || args->profile_count > 0, c, err);
    if (st != REDCO_OK) { return st; }
    args->fixed = redco_cost_fixed(c->costs, &c->setting);
    st = redco_step_build(c->costs, &c->setting, c->assignments, c->assignment_count, NULL, &args->schedule, err);
    if (st == REDCO_OK && args->timeline != NULL && args->timeline_rank >= redco_plan_gpus(args->plan)) {
        st = redco_fail(err, REDCO_EVALUE, "--timeline-rank", "%llu is not one of the plan's %llu ranks",
                        (unsigned long long)args->timeline_rank, (unsigned long long)redco_plan_gpus(args->plan));
    }
    args->start.plan_s = exec_now_s() - args->start.began_s;
    return st == REDCO_OK && args->timeline != NULL ? cli_writable(args->timeline, err) : st;
}

/* A GPU, and what joins it to those of the other ranks. */
static redco_status open_devices(struct rank_run *r, redco_error *err)
{
    const redco_nccl_options options = {.timeout_s = (double)r->args->timeout_s};
    const char **const folders = cuda_folders();
    const redco_cuda_options device = {.library_folders = folders};
    const double begin_s = exec_now_s();
    redco_status st = redco_devices_open(r->world, &device, &r->backend, err);
    cuda_folders_free(folders);
    r->run.start.device_s = exec_now_s() - begin_s;
    if (st != REDCO_OK || r->args->replay) { return st; }
    st = redco_nccl_open(r->world, r->backend, &options, &r->carrier, err);
    r->run.start.carrier_s = exec_now_s() - begin_s - r->run.start.device_s;
    return st;
}

static int run_rank(const redco_world_options *options, struct exec_line *line, void *context)
{
    const struct exec_args *const args = context;
    struct rank_run r = {.args = args, .line = line};
    redco_error err = {.status = REDCO_OK};
    int rc = CLI_DONE;
    r.run = (struct exec_run){.start = args->start,
                              .plan = args->plan,
                              .dtype = dtype_of(args),
                              .backend = backend_words[args->backend],
                              .folder = args->folder,
                              .model_flops_per_token = args->fixed.model_flops_per_token,
                              .peak_flops_per_s = args->fixed.peak_flops_per_s,
                              .emulated = args->emulate,
                              .replay = args->replay,
                              .rank = (uint32_t)args->replay_rank};
    redco_status st = redco_world_open(options, &r.world, &err);
    if (st == REDCO_OK) {
        redco_world_watch(r.world, exec_watch, line);
        if (args->backend == BACKEND_CUDA) { st = open_devices(&r, &err); }
        if (st == REDCO_OK && args->replay) {
            st =
                redco_replay_open((uint32_t)args->replay_rank, (uint32_t)redco_plan_gpus(args->plan), &r.carrier, &err);
        }
        if (st == REDCO_OK) { st = train(&r, &err); }
    }
    r.run.resumed = r.resumed != NULL;
    if (st != REDCO_OK) {
        rc = exec_fail(&args->cli, line, r.world, r.world != NULL ? redco_world_rank(r.world) : options->rank, r.at,
                       &err);
    } else if (redco_world_rank(r.world) == 0) {
        rc = report(args, &r.run);
        if (r.late.status != REDCO_OK) { rc = exec_fail(&args->cli, line, r.world, r.late_rank, r.at, &r.late); }
    }
    redco_trainer_free(r.trainer);
    redco_checkpoint_free(r.resumed);
    redco_checkpoints_close(r.checkpoints);
    exec_timeline_close(&r.timeline);
    redco_carrier_close(r.carrier);
    redco_backend_close(r.backend);
    free(r.steps);
    redco_world_close(r.world);
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

static void clean(void *context)
{
    const struct exec_args *const args = context;
    if (args->folder != NULL) { redco_checkpoints_clean(args->folder); }
}

static int run_here(struct exec_args *args)
{
    const uint64_t ranks = redco_plan_gpus(args->plan);
    redco_error err = {.status = REDCO_OK};
    redco_status st = redco_trainer_check_plan(args->plan, args->path, ranks, &err);
    if (st == REDCO_OK && ranks > EXEC_RANKS_MAX) {
        st =
            redco_fail(&err, REDCO_EVALUE, args->path, "is for %llu ranks; at most %d are started here, more by mpirun",
                       (unsigned long long)ranks, EXEC_RANKS_MAX);
    }
    if (st == REDCO_OK && args->backend == BACKEND_HOST) { st = check_memory(args, ranks, &err); }
    if (st == REDCO_OK) { st = make_schedule(args, &err); }
    if (st != REDCO_OK) { return cli_fail(&args->cli, &err); }
    return exec_start_ranks(&args->cli, (uint32_t)ranks, (double)args->timeout_s, run_rank, clean, args);
}

/* One rank alone, in this process. */
static int run_replay(struct exec_args *args)
{
    const uint64_t ranks = redco_plan_gpus(args->plan);
    const redco_world_options options = {.transport = REDCO_TRANSPORT_SELF, .timeout_s = (double)args->timeout_s};
    struct exec_line line = {.pipe = -1, .timeout_s = (double)args->timeout_s};
    redco_error err = {.status = REDCO_OK};
    redco_status st = redco_trainer_check_plan(args->plan, args->path, ranks, &err);
    if (st == REDCO_OK && args->replay_rank >= ranks) {
        st =
            redco_fail(&err, REDCO_EVALUE, "--replay-rank", "%llu is not one of the plan's %llu ranks, 0 to %llu",
                       (unsigned long long)args->replay_rank, (unsigned long long)ranks, (unsigned long long)ranks - 1);
    }
    if (st == REDCO_OK && ranks > REDCO_WORLD_MAX) {
        st = redco_fail(&err, REDCO_EVALUE, args->path, "is for %llu ranks; at most %d are executed",
                        (unsigned long long)ranks, REDCO_WORLD_MAX);
    }
    if (st == REDCO_OK) { st = make_schedule(args, &err); }
    if (st != REDCO_OK) { return cli_fail(&args->cli, &err); }
    return run_rank(&options, &line, args);
}

/* As one rank of mpirun's, or of another launcher's. */
static int run_launched(struct exec_args *args, const redco_world_options *options, uint64_t ranks)
{
    struct exec_line line = {.pipe = -1, .timeout_s = (double)args->timeout_s};
    redco_error err = {.status = REDCO_OK};
    if (redco_trainer_check_plan(args->plan, args->path, ranks, &err) != REDCO_OK ||
        make_schedule(args, &err) != REDCO_OK) {
        return exec_fail(&args->cli, &line, NULL, options->rank, 0, &err);
    }
    return run_rank(options, &line, args);
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
            "\vA run that is resumed continues its losses, whatever plan and ranks wrote the checkpoint; seed and "
            "learning rate are "
            "the checkpoint's where no option says otherwise. When a rank fails, is ended or is silent, all end, with "
            "one message. "
            "Exit code: 0 done, 1 "
            "the check found a difference or a loss is no number, 2 bad input, 3 a system "
            "failure, a full disk for one."};
    struct exec_args args = {.steps = 10,
                             .seed = 1,
                             .learning_rate = 1e-3,
                             .dtype = -1,
                             .timeline_steps = 3,
                             .start = {.began_s = exec_now_s()},
                             .every = 100,
                             .keep = 2,
                             .timeout_s = 60};
    redco_plan *plan = NULL;
    redco_error err = {.status = REDCO_OK};
    redco_world_options world = {.transport = REDCO_TRANSPORT_MPI};
    char address[LAUNCHED_ADDRESS_SIZE];
    uint64_t rank = 0, ranks = 1;
    bool launched = false;
    int rc = cli_parse(&argp, argc, argv, &args.cli);
    if (rc != CLI_RUN) { return rc; }
    (void)setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* lines of several ranks do not mix */
    (void)signal(SIGXFSZ, SIG_IGN);              /* a file that may not grow is an error of the write */
    if (launched_world(&world, address, &launched, &err) != REDCO_OK) { return cli_fail(&args.cli, &err); }
    if (launched) {
        rank = world.rank;
        ranks = world.size;
    } else if (exec_under_mpi(&rank, &ranks)) {
        world.rank = (uint32_t)rank;
        launched = true;
    }
    world.timeout_s = (double)args.timeout_s;
    struct exec_line line = {.pipe = -1};
    if (redco_plan_read(args.path, &plan, &err) != REDCO_OK) {
        return exec_fail(&args.cli, &line, NULL, (uint32_t)rank, 0, &err);
    }
    args.plan = plan;
    if (launched && args.replay && ranks > 1) {
        (void)redco_fail(&err, REDCO_EVALUE, "--replay-rank", "is one process; here are %llu",
                         (unsigned long long)ranks);
        rc = exec_fail(&args.cli, &line, NULL, (uint32_t)rank, 0, &err);
        redco_plan_free(plan);
        return rc;
    }
    rc = args.replay ? run_replay(&args) : launched ? run_launched(&args, &world, ranks) : run_here(&args);
    redco_step_free(args.schedule);
    redco_plan_case_free(&args.prices);
    redco_plan_free(plan);
    return rc;
}
