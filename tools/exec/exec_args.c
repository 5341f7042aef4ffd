#include "tools/exec/exec_args.h"

#include "tools/exec/exec_course.h"
#include "tools/exec/exec_ranks.h"
#include "topology/base/number.h"

#include <stdio.h>
#include <string.h>

enum key {
    KEY_BACKEND = 0x100,
    KEY_FUSE,
    KEY_GRAPHS,
    KEY_SHARE,
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
    KEY_WEIGHTS_OF,
    KEY_SAVE_WEIGHTS,
    KEY_SAVE_DTYPE,
    KEY_OPTIMIZER,
    KEY_BETA1,
    KEY_BETA2,
    KEY_EPSILON,
    KEY_DECAY,
    KEY_DECAYED,
    KEY_MOMENTUM,
    KEY_CLIP,
    KEY_POWER,
    KEY_UPDATE_CLIP,
    KEY_SCALE,
    KEY_RELATIVE,
    KEY_SCHEDULE,
    KEY_WARMUP,
    KEY_DECAY_STEPS,
    KEY_FINAL_RATE,
    KEY_PIPELINE,
    KEY_NEW_PIPELINE,
    KEY_SKIP_BAD,
    KEY_BYTES,
    KEY_EVALUATE,
    KEY_PREDICT,
    KEY_PREDICTIONS,
    KEY_BATCH,
    KEY_MAX_NEW,
    KEY_TEMPERATURE,
    KEY_TOP_K,
    KEY_TOP_P,
    KEY_TIMEOUT,
    KEY_LISTEN,
    KEY_MODEL,
    KEY_RANKS
};
enum { MOST_BATCH = 65536, MOST_NEW = 1000000 };
enum { MOST_STEPS = EXEC_STEPS_MAX, MOST_KEPT = 10000, MOST_TIMEOUT_S = 86400 };

static const char *const dtype_words[] = {"f32", "f64", "bf16", "f16", NULL};
static const redco_dtype dtypes[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};
static const char *const optimizer_words[] = {"adamw", "sgd", "adafactor", NULL};          /* redco_optimizer_kind */
static const char *const schedule_words[] = {"constant", "linear", "cosine", "wsd", NULL}; /* redco_rate_kind */
static const char *const decay_words[] = {"all", "matrices", NULL};
static const char *const save_words[] = {"bf16", "f32", NULL};
static const char *const graph_words[] = {"on", "off", NULL};
static const char *const fuse_words[] = {"auto", "on", "off", NULL}; /* redco_trainer_fusing */
const char *const exec_backend_words[] = {"host", "cuda", NULL};

/* clang-format off */
static const struct argp_option flags[] = {
    {"model", KEY_MODEL, "M", 0, "In place of a PLAN: plan for the processors of this machine, as redco-plan --run-here does, and train; options of redco-plan stand behind --", 1},
    {"ranks", KEY_RANKS, "N", 0, "With --model, or --pipeline without a PLAN: processors to plan for", 1},
    {"backend", KEY_BACKEND, "NAME", 0, "The device: host, this machine's processors (default), or cuda, a GPU for each rank", 1},
    {"steps", KEY_STEPS, "N", 0, "Steps to train (default: 10; with --evaluate or --predict 0); 0: only take the memory, and report it", 1},
    {"data", KEY_DATA, "FILE", 0, "Token ids, 16 bits each (32 for vocabularies above 65536), little-endian; default: made from the seed", 1},
    {"pipeline", KEY_PIPELINE, "FILE.so", 0, "Train a pipeline of your own, whose plan redco-plan --pipeline made; --data is JSON lines (executor/pipeline)", 1},
    {"bytes", KEY_BYTES, NULL, 0, "Texts are bytes for a language model of any vocabulary, and not only up to 256 and some specials", 1},
    {"skip-bad", KEY_SKIP_BAD, NULL, 0, "Leave out and count lines that the pipeline refuses, instead of ending before the first step", 1},
    {"new-pipeline", KEY_NEW_PIPELINE, "NAME", 0, "Write the folder NAME with a pipeline to begin with, its CMake file, a test and data; without a PLAN", 1},
    {"seed", KEY_SEED, "N", 0, "Seed of first weights and random tokens (default: 1)", 1},
    {"learning-rate", KEY_RATE, "R", 0, "The highest of the schedule (default: 0.001)", 1},
    {"schedule", KEY_SCHEDULE, "NAME", 0, "The rate after the warm-up, to the last of --steps: constant (default), linear, cosine, or wsd, stable and then linear over --decay-steps", 1},
    {"warmup", KEY_WARMUP, "N", 0, "Steps in which it rises from 0 (default: 0)", 1},
    {"decay-steps", KEY_DECAY_STEPS, "N", 0, "Steps of the decay of wsd (default: a tenth of --steps)", 1},
    {"final-rate", KEY_FINAL_RATE, "RATIO", 0, "The part of the rate that is left in the end (default: 0)", 1},
    {"optimizer", KEY_OPTIMIZER, "NAME", 0, "adamw (default), sgd, or adafactor, which runs on the host backend", 1},
    {"beta1", KEY_BETA1, "B", 0, "AdamW (default: 0.9); momentum of Adafactor (default: 0, none)", 1},
    {"beta2", KEY_BETA2, "B", 0, "AdamW (default: 0.95)", 1},
    {"epsilon", KEY_EPSILON, "E", 0, "AdamW (default: 1e-8) and Adafactor (default: 1e-30)", 1},
    {"weight-decay", KEY_DECAY, "W", 0, "Decoupled of AdamW and Adafactor, added to the gradient of SGD (default: 0.1)", 1},
    {"decay", KEY_DECAYED, "WHAT", 0, "Which weights: all (default) or matrices, which are no biases and no gains of norms", 1},
    {"momentum", KEY_MOMENTUM, "M", 0, "SGD (default: 0)", 1},
    {"clip-norm", KEY_CLIP, "C", 0, "Gradients that are longer are shortened to it; 0: never (default: 1)", 1},
    {"decay-power", KEY_POWER, "C", 0, "Adafactor: the mean of squares of step t weighs 1 - t^-C (default: 0.8)", 1},
    {"update-clip", KEY_UPDATE_CLIP, "D", 0, "Adafactor: a tensor's update is shortened to this root mean square (default: 1)", 1},
    {"scale-epsilon", KEY_SCALE, "E", 0, "Adafactor: rates are multiplied by the tensor's root mean square, by this if that is less; 0: by 1 (default: 1e-3)", 1},
    {"relative-rate", KEY_RELATIVE, NULL, 0, "Adafactor: the rate is min(0.01, 1 / sqrt(step))", 1},
    {"dtype", KEY_DTYPE, "TYPE", 0, "f32, f64, bf16 or f16, instead of the plan's precision", 1},
    {"fuse", KEY_FUSE, "WHEN", 0, "Run operators that stand together as one, products with what follows them and elementwise ones: auto (default; on GPUs), on, off", 1},
    {"cuda-graphs", KEY_GRAPHS, "WHEN", 0, "On GPUs, what a step computes between communication is captured in the second step and launched as graphs from then on: on (default), off", 1},
    {"share-gpu", KEY_SHARE, NULL, 0, "For tests only: ranks may have the same GPU, by NCCL 2.30 or newer; times and watts then say nothing", 1},
    {"check", KEY_CHECK, NULL, 0, "Train on one rank, too, and compare losses and weights (of bf16 and f16 losses alone); in f32 where --dtype says nothing", 1},
    {"fault", KEY_FAULT, "TENSOR@RANK:STEP", 0, "Add 0.01 to one element of the tensor on one rank after a step: see --check notice it", 1},
    {"emulate-compute", KEY_EMULATE, NULL, 0, "Computation is waited for as long as the plan predicts, communication is real", 1},
    {"replay-rank", KEY_REPLAY, "R", 0, "One rank of a plan of any size, alone, at its full size: its communication is work of the device for as long as the plan predicts", 1},
    {"timeline", KEY_TIMELINE, "TRACE", 0, "Write the last steps as measured as a trace for Perfetto, with the names of redco-sim --timeline", 1},
    {"timeline-rank", KEY_TIMELINE_RANK, "R", 0, "The rank of the timeline (default: 0, or that of --replay-rank)", 1},
    {"timeline-steps", KEY_TIMELINE_STEPS, "N", 0, "Number of steps; the first step, which warms up, is never among several (default: 3)", 1},
    {"profile", KEY_PROFILE, "FILE", 0, "Measurements that the plan was made with; may be repeated", 1},
    {"checkpoint", KEY_FOLDER, "DIR", 0, "Write checkpoints there: after every so many steps, and after the last", 2},
    {"checkpoint-every", KEY_EVERY, "N", 0, "Steps between two checkpoints (default: 100)", 2},
    {"keep", KEY_KEEP, "K", 0, "Checkpoints that are kept, the newest ones (default: 2)", 2},
    {"resume", KEY_RESUME, NULL, 0, "Go on from the newest whole checkpoint of DIR, on any plan of the same model and global batch, to step --steps", 2},
    {"weights", KEY_WEIGHTS, "DIR|FILE", 0, "Begin with these: a safetensors file, an index of several, or a folder that transformers wrote", 2},
    {"weights-of", KEY_WEIGHTS_OF, "PREFIX=DIR|FILE", 0, "Instead: begin parameters whose names begin with PREFIX with these, which lack it; may be repeated; others are drawn", 2},
    {"save-weights", KEY_SAVE_WEIGHTS, "DIR", 0, "After the last step, write weights and config there as transformers loads them; a folder that is new or empty", 2},
    {"save-dtype", KEY_SAVE_DTYPE, "TYPE", 0, "In which type: bf16 or f32 (default: bf16 where that is computed in, else f32)", 2},
    {"evaluate", KEY_EVALUATE, "FILE", 0, "Tell the loss over all examples of FILE after the last step: JSON lines (*.jsonl) with \"tokens\" or \"text\", or token ids as --data", 3},
    {"predict", KEY_PREDICT, "FILE", 0, "Continue each example of FILE, JSON lines, and print JSON lines with example and prediction in the same order", 3},
    {"predictions", KEY_PREDICTIONS, "FILE", 0, "Write predictions there instead", 3},
    {"batch", KEY_BATCH, "N", 0, "Examples that a rank evaluates or continues together (default: the plan's micro-batch)", 3},
    {"max-new-tokens", KEY_MAX_NEW, "N", 0, "Tokens to generate, unless the config's eos_token_id comes first (default: 64)", 3},
    {"temperature", KEY_TEMPERATURE, "T", 0, "Draw tokens at this temperature (default: 0, the likeliest token)", 3},
    {"top-k", KEY_TOP_K, "K", 0, "Draw from the K likeliest tokens (default: 0, all)", 3},
    {"top-p", KEY_TOP_P, "P", 0, "Draw from the likeliest tokens that together have this probability (default: 1, all)", 3},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0, "Seconds for which a rank may be silent before the run ends (default: 60); longer than any rank computes, or writes to the disk, between two communications", 2},
    {"listen", KEY_LISTEN, "ADDRESS", 0, "Where the other ranks find this one, if a launcher started it: an address or name of this machine; default: that by which it reaches rank 0", 2},
    EXEC_COURSE_OPTIONS,
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

/* Options that concern no single rank. */
static error_t check_replay(struct exec_args *args)
{
    const struct {
        bool given;
        const char *flag;
    } others[] = {{args->check, "--check"},
                  {args->folder != NULL, "--checkpoint"},
                  {args->resume, "--resume"},
                  {args->weights != NULL, "--weights"},
                  {args->weights_part_count > 0, "--weights-of"},
                  {args->evaluate != NULL, "--evaluate"},
                  {args->predict != NULL, "--predict"},
                  {args->save_weights != NULL, "--save-weights"},
                  {args->fault_tensor[0] != '\0', "--fault"},
                  {args->emulate, "--emulate-compute"},
                  {args->share_gpu, "--share-gpu"}};
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

/* Settings of one optimizer that another lacks, and defaults of the one that is given. */
static error_t check_optimizer(struct exec_args *args)
{
    const redco_optimizer adafactor = redco_optimizer_adafactor();
    redco_optimizer *const o = &args->optimizer;
    if (o->kind == REDCO_SGD && args->has_betas) {
        return cli_bad_option(&args->cli, "--beta1, --beta2, --epsilon", "are not SGD's");
    }
    if (o->kind != REDCO_SGD && args->has_momentum) {
        return cli_bad_option(&args->cli, "--momentum", "is SGD's: --optimizer sgd");
    }
    if (o->kind != REDCO_ADAFACTOR && args->has_adafactor) {
        return cli_bad_option(&args->cli, "--decay-power, --update-clip, --scale-epsilon, --relative-rate",
                              "are Adafactor's: --optimizer adafactor");
    }
    if (o->kind != REDCO_ADAFACTOR) { return 0; }
    if (args->has_beta2) { return cli_bad_option(&args->cli, "--beta2", "is AdamW's; Adafactor has --decay-power"); }
    if (args->backend == EXEC_CUDA || args->emulate) {
        return cli_bad_option(&args->cli, "--optimizer", "adafactor needs --backend host and real computation");
    }
    if (!args->has_beta1) { o->beta1 = 0.0; }
    if (!args->has_epsilon) { o->epsilon = adafactor.epsilon; }
    return 0;
}

/* A plan is made first: what is not an option are words for redco-plan. */
static error_t check_planned(struct exec_args *args)
{
    if (args->ranks == 0) { return cli_bad_option(&args->cli, "--model", "needs --ranks N"); }
    if (args->model == NULL && args->pipeline_path == NULL) {
        return cli_bad_option(&args->cli, "--ranks", "needs --model M or --pipeline FILE.so; a PLAN has its own");
    }
    if (args->model != NULL && args->pipeline_path != NULL) {
        return cli_bad_option(&args->cli, "--model", "and --pipeline both say what is trained; one is needed");
    }
    if (args->path != NULL && args->path[0] != '-') {
        return cli_bad_option(&args->cli, args->path,
                              "is a plan, which --ranks makes; options of redco-plan stand behind --");
    }
    const char *const other = args->backend == EXEC_CUDA ? "--backend"
                              : args->replay             ? "--replay-rank"
                              : args->emulate            ? "--emulate-compute"
                              : args->profile_count > 0  ? "--profile"
                                                         : NULL;
    if (other != NULL) {
        return cli_bad_option(&args->cli, other, "needs a PLAN: --ranks plans for processors, which it measures");
    }
    return 0;
}

/* Options that do not go together. */
static error_t check_together(struct exec_args *args)
{
    if (args->cli.err.status != REDCO_OK) { return 0; }
    if (args->new_pipeline != NULL) { return 0; }
    if (args->model != NULL || args->ranks > 0) {
        const error_t wrong = check_planned(args);
        if (wrong != 0) { return wrong; }
    } else if (args->path == NULL) {
        return cli_bad_option(&args->cli, "PLAN",
                              "is missing; redco-plan -o writes one, --model M --ranks N makes one");
    } else if (args->word_count > 0) {
        return cli_bad_option(&args->cli, args->words[0], "is a second plan; one is run");
    }
    if (args->check && args->emulate) {
        return cli_bad_option(&args->cli, "--check", "needs real computation, not --emulate-compute");
    }
    if (args->emulate && args->backend == EXEC_CUDA) {
        return cli_bad_option(&args->cli, "--emulate-compute", "needs --backend host: a GPU would have nothing to do");
    }
    if (args->share_gpu && args->backend != EXEC_CUDA) {
        return cli_bad_option(&args->cli, "--share-gpu", "needs --backend cuda");
    }
    if (args->emulate && (args->evaluate != NULL || args->predict != NULL)) {
        return cli_bad_option(&args->cli, args->evaluate != NULL ? "--evaluate" : "--predict",
                              "needs real computation, not --emulate-compute");
    }
    if (args->predict == NULL && (args->predictions != NULL || args->generates)) {
        return cli_bad_option(&args->cli, args->predictions != NULL ? "--predictions" : "--max-new-tokens and its kin",
                              args->predictions != NULL ? "needs --predict FILE" : "need --predict FILE");
    }
    if (args->predict != NULL && args->predictions == NULL && args->cli.json) {
        return cli_bad_option(&args->cli, "--json", "goes with --predict only if --predictions FILE takes those");
    }
    args->optimizer.kind = (redco_optimizer_kind)args->optimizer_word;
    const error_t wrong = check_optimizer(args);
    if (wrong != 0) { return wrong; }
    if (args->check && args->optimizer.kind == REDCO_ADAFACTOR) {
        return cli_bad_option(&args->cli, "--check", "needs AdamW or SGD");
    }
    if (args->has_decay_steps && args->schedule_word != REDCO_RATE_WSD) {
        return cli_bad_option(&args->cli, "--decay-steps", "needs --schedule wsd");
    }
    if (args->skip_bad && args->data == NULL && args->evaluate == NULL && args->predict == NULL) {
        return cli_bad_option(&args->cli, "--skip-bad", "needs --data, --evaluate or --predict with JSON lines");
    }
    if (exec_course_check(args) != 0) { return EINVAL; }
    if (!args->has_steps && args->course.epochs == 0 && (args->evaluate != NULL || args->predict != NULL)) {
        args->steps = 0;
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
    if (args->weights != NULL && args->weights_part_count > 0) {
        return cli_bad_option(&args->cli, "--weights-of", "does not go with --weights, which has all parameters");
    }
    if (args->emulate && args->weights_part_count > 0) {
        return cli_bad_option(&args->cli, "--weights-of", "needs real computation, not --emulate-compute");
    }
    if (args->resume && (args->weights != NULL || args->weights_part_count > 0)) {
        return cli_bad_option(&args->cli, args->weights != NULL ? "--weights" : "--weights-of",
                              "a run that is resumed has its checkpoint's weights");
    }
    if (args->save_dtype >= 0 && args->save_weights == NULL) {
        return cli_bad_option(&args->cli, "--save-dtype", "needs --save-weights DIR");
    }
    return 0;
}

static error_t read_optimizer(struct exec_args *args, int key, const char *text)
{
    switch (key) {
    case KEY_OPTIMIZER: return cli_word(&args->cli, "--optimizer", text, optimizer_words, &args->optimizer_word);
    case KEY_BETA1:
        args->has_betas = args->has_beta1 = true;
        return cli_real(&args->cli, "--beta1", text, 0.0, 0.999999999, &args->optimizer.beta1);
    case KEY_BETA2:
        args->has_betas = args->has_beta2 = true;
        return cli_real(&args->cli, "--beta2", text, 0.0, 0.999999999, &args->optimizer.beta2);
    case KEY_EPSILON:
        args->has_betas = args->has_epsilon = true;
        return cli_real(&args->cli, "--epsilon", text, 1e-30, 1.0, &args->optimizer.epsilon);
    case KEY_DECAY: return cli_real(&args->cli, "--weight-decay", text, 0.0, 1e6, &args->optimizer.weight_decay);
    case KEY_DECAYED: return cli_word(&args->cli, "--decay", text, decay_words, &args->decay_word);
    case KEY_MOMENTUM:
        args->has_momentum = true;
        return cli_real(&args->cli, "--momentum", text, 0.0, 0.999999999, &args->optimizer.momentum);
    case KEY_CLIP: return cli_real(&args->cli, "--clip-norm", text, 0.0, 1e30, &args->optimizer.clip_norm);
    case KEY_POWER:
        args->has_adafactor = true;
        return cli_real(&args->cli, "--decay-power", text, 1e-9, 1.0, &args->optimizer.decay_power);
    case KEY_UPDATE_CLIP:
        args->has_adafactor = true;
        return cli_real(&args->cli, "--update-clip", text, 1e-30, 1e30, &args->optimizer.update_clip);
    case KEY_SCALE:
        args->has_adafactor = true;
        return cli_real(&args->cli, "--scale-epsilon", text, 0.0, 1e6, &args->optimizer.scale_epsilon);
    case KEY_RELATIVE: args->has_adafactor = args->optimizer.relative_rate = true; return 0;
    case KEY_SCHEDULE: return cli_word(&args->cli, "--schedule", text, schedule_words, &args->schedule_word);
    case KEY_WARMUP: return cli_u64(&args->cli, "--warmup", text, 0, MOST_STEPS, &args->warmup);
    case KEY_DECAY_STEPS:
        args->has_decay_steps = true;
        return cli_u64(&args->cli, "--decay-steps", text, 1, MOST_STEPS, &args->decay_steps);
    case KEY_FINAL_RATE: return cli_real(&args->cli, "--final-rate", text, 0.0, 1.0, &args->final_rate);
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Pipelines, evaluation, predictions. */
static error_t read_use(struct exec_args *args, int key, const char *text)
{
    switch (key) {
    case KEY_PIPELINE: return cli_name(&args->cli, "--pipeline", text, &args->pipeline_path);
    case KEY_NEW_PIPELINE: return cli_name(&args->cli, "--new-pipeline", text, &args->new_pipeline);
    case KEY_SKIP_BAD: args->skip_bad = true; return 0;
    case KEY_BYTES: args->bytes = true; return 0;
    case KEY_EVALUATE: return cli_name(&args->cli, "--evaluate", text, &args->evaluate);
    case KEY_PREDICT: return cli_name(&args->cli, "--predict", text, &args->predict);
    case KEY_PREDICTIONS: return cli_name(&args->cli, "--predictions", text, &args->predictions);
    case KEY_BATCH: return cli_u64(&args->cli, "--batch", text, 1, MOST_BATCH, &args->batch);
    case KEY_MAX_NEW:
        args->generates = true;
        return cli_u64(&args->cli, "--max-new-tokens", text, 1, MOST_NEW, &args->max_new_tokens);
    case KEY_TEMPERATURE:
        args->generates = true;
        return cli_real(&args->cli, "--temperature", text, 0.0, 1e6, &args->temperature);
    case KEY_TOP_K: args->generates = true; return cli_u64(&args->cli, "--top-k", text, 0, INT32_MAX, &args->top_k);
    case KEY_TOP_P: args->generates = true; return cli_real(&args->cli, "--top-p", text, 1e-9, 1.0, &args->top_p);
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* PREFIX=PATH. */
static error_t read_weights_of(struct exec_args *args, const char *text)
{
    const char *const sign = strchr(text, '=');
    const uint32_t at = args->weights_part_count;
    if (sign == NULL || sign[1] == '\0' || sign - text >= EXEC_PREFIX_SIZE) {
        return cli_bad_option(&args->cli, "--weights-of",
                              "\"%.80s\" is not PREFIX=DIR or PREFIX=FILE with a prefix of at most %d bytes", text,
                              EXEC_PREFIX_SIZE - 1);
    }
    if (at == EXEC_PARTS_MAX) {
        return cli_bad_option(&args->cli, "--weights-of", "is given more than %d times", EXEC_PARTS_MAX);
    }
    (void)snprintf(args->prefixes[at], EXEC_PREFIX_SIZE, "%.*s", (int)(sign - text), text);
    args->weights_parts[at] = (redco_weights_part){args->prefixes[at], sign + 1};
    args->weights_part_count++;
    return 0;
}

static error_t read_flag(int key, char *text, struct argp_state *state)
{
    struct exec_args *const args = state->input;
    switch (key) {
    case KEY_BACKEND: return cli_word(&args->cli, "--backend", text, exec_backend_words, &args->backend);
    case KEY_STEPS: args->has_steps = true; return cli_u64(&args->cli, "--steps", text, 0, MOST_STEPS, &args->steps);
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
    case KEY_WEIGHTS_OF: return read_weights_of(args, text);
    case KEY_SAVE_WEIGHTS: return cli_name(&args->cli, "--save-weights", text, &args->save_weights);
    case KEY_SAVE_DTYPE: return cli_word(&args->cli, "--save-dtype", text, save_words, &args->save_dtype);
    case KEY_TIMEOUT: return cli_u64(&args->cli, "--timeout", text, 1, MOST_TIMEOUT_S, &args->timeout_s);
    case KEY_LISTEN: return cli_name(&args->cli, "--listen", text, &args->listen);
    case KEY_DTYPE: return cli_word(&args->cli, "--dtype", text, dtype_words, &args->dtype);
    case KEY_FUSE: return cli_word(&args->cli, "--fuse", text, fuse_words, &args->fuse);
    case KEY_GRAPHS: return cli_word(&args->cli, "--cuda-graphs", text, graph_words, &args->graphs);
    case KEY_SHARE: args->share_gpu = true; return 0;
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
    case KEY_MODEL: return cli_name(&args->cli, "--model", text, &args->model);
    case KEY_RANKS: return cli_u64(&args->cli, "--ranks", text, 1, EXEC_RANKS_MAX, &args->ranks);
    case ARGP_KEY_ARG:
        if (args->path == NULL) { return cli_name(&args->cli, "PLAN", text, &args->path); }
        if (args->word_count == EXEC_WORDS_MAX) { return cli_bad_option(&args->cli, text, "is one word too many"); }
        args->words[args->word_count++] = text;
        return 0;
    case ARGP_KEY_END: return check_together(args);
    default:
        if (key >= KEY_OPTIMIZER && key <= KEY_FINAL_RATE) { return read_optimizer(args, key, text); }
        if (key >= EXEC_KEY_EPOCHS && key <= EXEC_KEY_LOG) { return exec_course_option(args, key, text); }
        return key >= KEY_PIPELINE && key <= KEY_TOP_P ? read_use(args, key, text) : cli_option(key, text, state);
    }
}

redco_dtype exec_dtype(const struct exec_args *args)
{
    if (args->dtype >= 0) { return dtypes[args->dtype]; }
    return args->check ? REDCO_F32 : redco_trainer_dtype(args->plan->precision);
}

redco_rate_schedule exec_schedule(const struct exec_args *args)
{
    const uint64_t tenth = (args->steps + 9) / 10;
    return (redco_rate_schedule){.kind = (redco_rate_kind)args->schedule_word,
                                 .updates = args->steps,
                                 .warmup = args->warmup,
                                 .decay_updates = args->has_decay_steps ? args->decay_steps : tenth,
                                 .final_ratio = args->final_rate};
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
        .args_doc = "PLAN\n--model M --ranks N [-- OPTION-OF-REDCO-PLAN...]",
        .doc =
            "Trains the model of a plan file on as many ranks as the plan has GPUs: those of mpirun, else processes of "
            "this machine."
            "\vA run that is resumed continues its losses, whatever plan and ranks wrote the checkpoint; seed and "
            "learning rate are the checkpoint's where no option says otherwise; a warning names other settings of the "
            "optimizer that are not what it was trained with. When a rank fails, is ended or is silent, all end, with "
            "one message. Exit code: 0 done, 1 the check found a difference or a loss is no number, 2 bad input, 3 a "
            "system failure, a full disk for one."};
    return cli_parse(&argp, argc, argv, &args->cli);
}

/* Where a checkpoint says something else, it matters whether an option was given. */
static const char *given(const struct exec_args *args, bool it)
{
    return args->resume && !it ? " unless the checkpoint says something else" : "";
}

_Static_assert(REDCO_FACTS_MAX >= 40 + EXEC_PARTS_MAX, "all facts have room");

/* Profiles are those that the plan names, or the rank does not come here. */
redco_status exec_facts_of_args(const struct exec_args *args, struct exec_facts *facts, redco_error *err)
{
    redco_status st = REDCO_OK;
    exec_fact(facts, "version of redco-exec", "%s", REDCO_VERSION);
    exec_facts_of_libraries(facts);
    exec_fact(facts, "--backend", "%s", exec_backend_words[args->backend]);
    exec_fact(facts, "--steps", "%llu", (unsigned long long)args->steps);
    exec_fact(facts, "--seed", "%llu%s", (unsigned long long)args->seed, given(args, args->has_seed));
    exec_fact(facts, "--learning-rate", "%.17g%s", args->learning_rate, given(args, args->has_rate));
    exec_fact(facts, "--optimizer",
              "%s, %.17g, %.17g, %.17g, decay %.17g of %s, momentum %.17g, clip %.17g, Adafactor's "
              "%.17g, %.17g, %.17g, %s",
              optimizer_words[args->optimizer_word], args->optimizer.beta1, args->optimizer.beta2,
              args->optimizer.epsilon, args->optimizer.weight_decay, decay_words[args->decay_word],
              args->optimizer.momentum, args->optimizer.clip_norm, args->optimizer.decay_power,
              args->optimizer.update_clip, args->optimizer.scale_epsilon,
              args->optimizer.relative_rate ? "relative rate" : "rate as given");
    exec_fact(facts, "--schedule", "%s, warm-up %llu, decay %llu, to %.17g", schedule_words[args->schedule_word],
              (unsigned long long)args->warmup, (unsigned long long)exec_schedule(args).decay_updates,
              args->final_rate);
    exec_fact(facts, "--dtype", "%s", redco_dtype_name(exec_dtype(args)));
    exec_fact(facts, "--fuse", "%s", fuse_words[args->fuse]);
    exec_fact(facts, "--cuda-graphs", "%s", graph_words[args->graphs]);
    exec_fact(facts, "--share-gpu", "%s", args->share_gpu ? "given" : "not given");
    exec_fact(facts, "--check", "%s", args->check ? "given" : "not given");
    exec_fact(facts, "--emulate-compute", "%s", args->emulate ? "given" : "not given");
    exec_fact(facts, "--fault", "%s, rank %u, step %llu", args->fault_tensor[0] != '\0' ? args->fault_tensor : "none",
              args->fault.rank, (unsigned long long)args->fault.step);
    exec_fact(facts, "--timeline", "%s, of rank %llu, %llu steps", args->timeline != NULL ? "given" : "not given",
              (unsigned long long)args->timeline_rank, (unsigned long long)args->timeline_steps);
    exec_fact(facts, "--checkpoint", "%s%s", args->folder != NULL ? "" : "not given",
              args->folder != NULL ? args->folder : "");
    exec_fact(facts, "--checkpoint-every", "%llu", (unsigned long long)args->every);
    exec_fact(facts, "--keep", "%llu", (unsigned long long)args->keep);
    exec_fact(facts, "--resume", "%s", args->resume ? "given" : "not given");
    exec_fact(facts, "--save-weights", "%s%s, in %s", args->save_weights != NULL ? "" : "not given",
              args->save_weights != NULL ? args->save_weights : "", redco_dtype_name(exec_save_dtype(args)));
    exec_fact(facts, "options of --predict", "%llu examples, %llu tokens, temperature %.17g, top-k %llu, top-p %.17g",
              (unsigned long long)args->batch, (unsigned long long)args->max_new_tokens, args->temperature,
              (unsigned long long)args->top_k, args->top_p);
    exec_fact(facts, "--weights", "%s%s", args->weights != NULL ? "" : "not given",
              args->weights != NULL ? args->weights : "");
    exec_fact(facts, "number of --weights-of", "%u", args->weights_part_count);
    for (uint32_t i = 0; i < args->weights_part_count; i++) {
        exec_fact(facts, "--weights-of", "%s=%s", args->weights_parts[i].prefix, args->weights_parts[i].path);
    }
    exec_fact(facts, "--timeout", "%llu s", (unsigned long long)args->timeout_s);
    exec_course_facts(args, facts);
    st = exec_facts_of_plan(facts, args->path, args->plan, err);
    if (st == REDCO_OK) { st = exec_fact_of_file(facts, "--data", args->data, err); }
    if (st == REDCO_OK) { st = exec_fact_of_file(facts, "--pipeline", args->pipeline_path, err); }
    if (st == REDCO_OK) { st = exec_fact_of_file(facts, "--evaluate", args->evaluate, err); }
    if (st == REDCO_OK) { st = exec_fact_of_file(facts, "--predict", args->predict, err); }
    return st;
}
