#include "tools/exec/exec_args.h"

#include "topology/base/number.h"

#include <stdio.h>
#include <string.h>

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
    KEY_WEIGHTS,
    KEY_SAVE_WEIGHTS,
    KEY_SAVE_DTYPE,
    KEY_TIMEOUT,
    KEY_LISTEN
};
enum { MOST_STEPS = 1000000, MOST_KEPT = 10000, MOST_TIMEOUT_S = 86400 };

static const char *const dtype_words[] = {"f32", "f64", "bf16", "f16", NULL};
static const redco_dtype dtypes[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};
static const char *const save_words[] = {"bf16", "f32", NULL};
static const char *const graph_words[] = {"on", "off", NULL};
static const char *const fuse_words[] = {"auto", "on", "off", NULL}; /* redco_trainer_fusing */
const char *const exec_backend_words[] = {"host", "cuda", NULL};

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
    {"weights", KEY_WEIGHTS, "DIR|FILE", 0, "Begin with these: a safetensors file, an index of several, or a folder that transformers wrote", 2},
    {"save-weights", KEY_SAVE_WEIGHTS, "DIR", 0, "After the last step, write weights and config there as transformers loads them; a folder that is new or empty", 2},
    {"save-dtype", KEY_SAVE_DTYPE, "TYPE", 0, "In which type: bf16 or f32 (default: bf16 where that is computed in, else f32)", 2},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0, "How long a rank may be silent before the run is ended (default: 60); longer than any rank computes, or writes to the disk, between two communications", 2},
    {"listen", KEY_LISTEN, "ADDRESS", 0, "Where the other ranks find this one, if a launcher started it: an address or name of this machine; default: that by which it reaches rank 0", 2},
    CLI_OPTIONS,
    {0}
};
/* clang-format on */

static error_t read_fault(struct exec_args *args, const char *text)
{
    const char *const at = strrchr(text, '@');
    uint64_t step = 0, rank = 0;
    const size_t digits = at != NULL ? redco_whole_read(at + 1, strlen(at + 1), &rank) : 0;
    if (digits == 0 || at == text || (size_t)(at - text) >= sizeof args->fault_tensor || rank >= REDCO_WORLD_MAX ||
        at[1 + digits] != ':' || !redco_whole_parse(at + 2 + digits, 1, UINT64_MAX, &step)) {
        return cli_bad_option(&args->cli, "--fault", "\"%.60s\" is not TENSOR@RANK:STEP, with steps from 1", text);
    }
    (void)snprintf(args->fault_tensor, sizeof args->fault_tensor, "%.*s", (int)(at - text), text);
    args->fault = (redco_trainer_fault){args->fault_tensor, (uint32_t)rank, step, 0.01};
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
                  {args->weights != NULL, "--weights"},
                  {args->save_weights != NULL, "--save-weights"},
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
    case KEY_BACKEND: return cli_word(&args->cli, "--backend", text, exec_backend_words, &args->backend);
    case KEY_STEPS: return cli_u64(&args->cli, "--steps", text, 0, MOST_STEPS, &args->steps);
    case KEY_DATA: return cli_name(&args->cli, "--data", text, &args->data);
    case KEY_SEED: args->has_seed = true; return cli_u64(&args->cli, "--seed", text, 0, INT64_MAX, &args->seed);
    case KEY_RATE:
        args->has_rate = true;
        return cli_real(&args->cli, "--learning-rate", text, 0.0, 1e30, &args->learning_rate);
    case KEY_FOLDER: return cli_name(&args->cli, "--checkpoint", text, &args->folder);
    case KEY_EVERY:
        args->has_every = true;
        return cli_u64(&args->cli, "--checkpoint-every", text, 1, MOST_STEPS, &args->every);
    case KEY_KEEP: args->has_keep = true; return cli_u64(&args->cli, "--keep", text, 1, MOST_KEPT, &args->keep);
    case KEY_RESUME: args->resume = true; return 0;
    case KEY_WEIGHTS: return cli_name(&args->cli, "--weights", text, &args->weights);
    case KEY_SAVE_WEIGHTS: return cli_name(&args->cli, "--save-weights", text, &args->save_weights);
    case KEY_SAVE_DTYPE: return cli_word(&args->cli, "--save-dtype", text, save_words, &args->save_dtype);
    case KEY_TIMEOUT: return cli_u64(&args->cli, "--timeout", text, 1, MOST_TIMEOUT_S, &args->timeout_s);
    case KEY_LISTEN: return cli_name(&args->cli, "--listen", text, &args->listen);
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
        if (args->profile_count == EXEC_PROFILES_MAX) {
            return cli_bad_option(&args->cli, "--profile", "is given more than %d times", EXEC_PROFILES_MAX);
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
        if (args->emulate && args->backend == EXEC_CUDA) {
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
        if (args->emulate && (args->weights != NULL || args->save_weights != NULL)) {
            return cli_bad_option(&args->cli, args->weights != NULL ? "--weights" : "--save-weights",
                                  "needs real computation, not --emulate-compute");
        }
        if (args->resume && args->weights != NULL) {
            return cli_bad_option(&args->cli, "--weights", "a run that is resumed has its checkpoint's weights");
        }
        if (args->save_dtype >= 0 && args->save_weights == NULL) {
            return cli_bad_option(&args->cli, "--save-dtype", "needs --save-weights DIR");
        }
        return 0;
    default: return cli_option(key, text, state);
    }
}

redco_dtype exec_dtype(const struct exec_args *args)
{
    if (args->dtype >= 0) { return dtypes[args->dtype]; }
    return args->check ? REDCO_F32 : redco_trainer_dtype(args->plan->precision);
}

redco_dtype exec_save_dtype(const struct exec_args *args)
{
    const bool narrow = args->save_dtype >= 0 ? args->save_dtype == 0 : exec_dtype(args) == REDCO_BFLOAT16;
    return narrow ? REDCO_BFLOAT16 : REDCO_F32;
}

int exec_parse(int argc, char **argv, struct exec_args *args)
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
    return cli_parse(&argp, argc, argv, &args->cli);
}

/* Where a checkpoint says something else, it matters whether an option was given. */
static const char *given(const struct exec_args *args, bool it)
{
    return args->resume && !it ? " unless the checkpoint says something else" : "";
}

redco_status exec_facts_of_args(const struct exec_args *args, struct exec_facts *facts, redco_error *err)
{
    redco_status st = REDCO_OK;
    exec_fact(facts, "version of redco-exec", "%s", REDCO_VERSION);
    exec_facts_of_libraries(facts);
    exec_fact(facts, "--backend", "%s", exec_backend_words[args->backend]);
    exec_fact(facts, "--steps", "%llu", (unsigned long long)args->steps);
    exec_fact(facts, "--seed", "%llu%s", (unsigned long long)args->seed, given(args, args->has_seed));
    exec_fact(facts, "--learning-rate", "%.17g%s", args->learning_rate, given(args, args->has_rate));
    exec_fact(facts, "--dtype", "%s", redco_dtype_name(exec_dtype(args)));
    exec_fact(facts, "--fuse", "%s", fuse_words[args->fuse]);
    exec_fact(facts, "--cuda-graphs", "%s", graph_words[args->graphs]);
    exec_fact(facts, "--check", "%s", args->check ? "given" : "not given");
    exec_fact(facts, "--emulate-compute", "%s", args->emulate ? "given" : "not given");
    exec_fact(facts, "--fault", "%.80s, rank %u, step %llu",
              args->fault_tensor[0] != '\0' ? args->fault_tensor : "none", args->fault.rank,
              (unsigned long long)args->fault.step);
    exec_fact(facts, "--timeline", "%s, of rank %llu, %llu steps", args->timeline != NULL ? "given" : "not given",
              (unsigned long long)args->timeline_rank, (unsigned long long)args->timeline_steps);
    exec_fact(facts, "--checkpoint", "%s%.100s", args->folder != NULL ? "" : "not given",
              args->folder != NULL ? args->folder : "");
    exec_fact(facts, "--checkpoint-every", "%llu", (unsigned long long)args->every);
    exec_fact(facts, "--keep", "%llu", (unsigned long long)args->keep);
    exec_fact(facts, "--resume", "%s", args->resume ? "given" : "not given");
    exec_fact(facts, "--save-weights", "%s%.100s, in %s", args->save_weights != NULL ? "" : "not given",
              args->save_weights != NULL ? args->save_weights : "", redco_dtype_name(exec_save_dtype(args)));
    exec_fact(facts, "--weights", "%s%.100s", args->weights != NULL ? "" : "not given",
              args->weights != NULL ? args->weights : "");
    exec_fact(facts, "--timeout", "%llu s", (unsigned long long)args->timeout_s);
    exec_fact(facts, "number of --profile", "%u", args->profile_count);
    st = exec_facts_of_plan(facts, args->path, args->plan, err);
    if (st == REDCO_OK) { st = exec_fact_of_file(facts, "--data", args->data, err); }
    for (uint32_t i = 0; i < args->profile_count && facts->count < REDCO_FACTS_MAX && st == REDCO_OK; i++) {
        st = exec_fact_of_file(facts, "--profile", args->profiles[i], err);
    }
    return st;
}
