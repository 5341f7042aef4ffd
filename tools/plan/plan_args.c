#include "tools/plan/plan_args.h"

#include "planner/plan/plan.h"
#include "planner/search/strategy.h"
#include "tools/cli/overlap_option.h"
#include "tools/plan/plan_export.h"
#include "tools/plan/plan_words.h"
#include "tools/plan/run_here.h"
#include "topology/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "redco-plan " REDCO_VERSION;

static error_t read_count(struct plan_args *args, const char *option, const char *text, uint64_t most, uint32_t *out)
{
    uint64_t value = 0;
    const error_t why = cli_u64(&args->cli, option, text, 1, most, &value);
    if (why == 0) { *out = (uint32_t)value; }
    return why;
}

/* A number or a word, or "auto", which leaves it to the search. */
static error_t read_dimension(struct plan_args *args, const redco_dimension *d, const char *text)
{
    static const char *const switched[] = {"off", "on", "auto", NULL};
    const bool automatic = d->automatic != REDCO_AUTO_NONE && text != NULL && strcmp(text, "auto") == 0;
    const char *words[16] = {NULL};
    char option[32];
    uint64_t value = 0;
    int word = 1;
    size_t count = 0;
    (void)snprintf(option, sizeof option, "--%s", d->option);
    redco_search_options *const o = &args->question.options;
    const uint32_t bit = REDCO_STATES(d - redco_dimensions);
    o->stated = automatic ? o->stated & ~bit : o->stated | bit;
    if (d->kind == REDCO_DIMENSION_SPLIT) { return cli_name(&args->cli, option, text, &args->question.split); }
    if (d->kind == REDCO_DIMENSION_SWITCH) {
        const error_t why = text != NULL ? cli_word(&args->cli, option, text, switched, &word) : 0;
        *(bool *)redco_dimension_in(&o->given, d) = word == 1;
        return why;
    }
    if (automatic) {
        value = d->automatic == REDCO_AUTO_MORE ? REDCO_DEGREE_AUTO : 0;
    } else if (d->words != NULL) {
        for (; d->words[count] != NULL; count++) { words[count] = d->words[count]; }
        if (d->automatic != REDCO_AUTO_NONE) { words[count] = "auto"; }
        const error_t why = cli_word(&args->cli, option, text, words, &word);
        if (why != 0) { return why; }
        value = (uint64_t)word;
    } else if (d->automatic == REDCO_AUTO_NONE) {
        const error_t why = cli_u64(&args->cli, option, text, 1, d->option_most, &value);
        if (why != 0) { return why; }
    } else {
        struct cli trial = {.program = args->cli.program};
        if (cli_u64(&trial, option, text, 1, d->option_most, &value) != 0) {
            return cli_bad_option(&args->cli, option, "\"%.40s\" is neither a whole number from 1 to %llu nor auto",
                                  text, (unsigned long long)d->option_most);
        }
    }
    *redco_dimension_in(&o->given, d) = (uint32_t)value; /* words, too */
    return 0;
}

/* 1F1B alone is one chunk a stage. */
static void apply_stated(struct plan_args *args)
{
    redco_search_options *const o = &args->question.options;
    if (redco_search_states(o, REDCO_OF_CP_TYPE)) { o->cp_types = 1U << o->given.cp_type; }
    if (redco_search_states(o, REDCO_OF_SEQUENCE_PARALLEL)) {
        o->sequence_parallel = o->given.sequence_parallel ? REDCO_ON : REDCO_OFF;
    }
    if (redco_search_states(o, REDCO_OF_SCHEDULE) && o->given.schedule == REDCO_PIPELINE_1F1B &&
        !redco_search_states(o, REDCO_OF_CHUNKS)) {
        o->given.chunks = 1;
    }
}

/* "AxB"; the multiplication sign that the tables print is accepted, too. @return behind it, or NULL */
static const char *read_mesh(const char *text, redco_mesh *out)
{
    static const char times[] = "\xc3\x97";
    uint64_t factors[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        text += redco_whole_read(text, strlen(text), &factors[i]);
        if (factors[i] == 0 || factors[i] > UINT32_MAX) { return NULL; }
        if (i == 1) { break; }
        if (*text == 'x' || *text == 'X') {
            text++;
        } else if (strncmp(text, times, sizeof times - 1) == 0) {
            text += sizeof times - 1;
        } else {
            return NULL;
        }
    }
    *out = (redco_mesh){.gpus = (uint32_t)factors[0], .nodes = (uint32_t)factors[1]};
    return text;
}

/* @return its bit; 0: there is no such word */
static uint32_t dim_of(const char *text, size_t length)
{
    for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
        if (d->in_dims && strlen(d->word) == length && strncmp(d->word, text, length) == 0) { return d->bit; }
    }
    return length == 2 && strncmp(text, "dp", length) == 0 ? REDCO_HAS_DP : 0;
}

static error_t read_dims(struct plan_args *args, const char *text)
{
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        const uint32_t bit = dim_of(at, length);
        if (bit == 0) {
            return cli_bad_option(&args->cli, "--dims", "\"%.60s\" is not a list of tp, sp, pp, cp, ep and dp", text);
        }
        args->dims |= bit;
        at += length;
        if (*at == '\0') { break; }
    }
    if ((args->dims & REDCO_HAS_DP) == 0) {
        return cli_bad_option(&args->cli, "--dims", "\"%.60s\" leaves out dp, which takes all other GPUs", text);
    }
    return 0;
}

/* Dimensions that --dims leaves out are 1. */
static void apply_dims(struct plan_args *args)
{
    redco_search_options *const o = &args->question.options;
    if (args->dims == 0) { return; }
    for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
        const bool rows = d->kind == REDCO_DIMENSION_SWITCH;
        if (!d->in_dims || (args->dims & d->bit) != 0) { continue; }
        const uint32_t degree = rows ? 1 : *redco_dimension_in(&o->given, d);
        if (rows ? o->sequence_parallel == REDCO_ON : degree > 1 && !redco_degree_is_free(degree)) {
            (void)cli_bad_option(&args->cli, "--dims", "leaves out %s, which is given more than 1", d->word);
            return;
        }
        o->excluded |= d->bit;
        if (rows) {
            o->sequence_parallel = REDCO_OFF;
        } else {
            *redco_dimension_in(&o->given, d) = 1;
        }
    }
}

static error_t read_fix(struct plan_args *args, const char *text)
{
    static const char help[] =
        "is not of the form p=AxB,g=AxB,os=AxB,p2=AxB,experts.p=AxB,experts.g=AxB,experts.os=AxB, "
        "where A and B are GPUs and nodes from 1";
    enum { PARTS = 7 };
    redco_shards *const fix = &args->question.options.fix, *const experts = &args->question.options.given.experts;
    const struct {
        const char *name;
        redco_mesh *mesh;
    } parts[] = {{"p=", &fix->parameters},
                 {"g=", &fix->gradients},
                 {"os=", &fix->optimizer},
                 {"p2=", &args->question.options.given.secondary},
                 {"experts.p=", &experts->parameters},
                 {"experts.g=", &experts->gradients},
                 {"experts.os=", &experts->optimizer}};
    const char *at = text;
    for (;;) {
        size_t i = 0;
        while (i < PARTS && strncmp(at, parts[i].name, strlen(parts[i].name)) != 0) { i++; }
        if (i == PARTS) { return cli_bad_option(&args->cli, "--fix", "\"%.60s\" %s", text, help); }
        if (parts[i].mesh->gpus != 0) {
            return cli_bad_option(&args->cli, "--fix", "\"%.60s\" gives %s twice", text, parts[i].name);
        }
        at = read_mesh(at + strlen(parts[i].name), parts[i].mesh);
        if (at == NULL || (*at != ',' && *at != '\0')) {
            return cli_bad_option(&args->cli, "--fix", "\"%.60s\" %s", text, help);
        }
        if (*at == '\0') { return 0; }
        at++;
    }
}

static error_t read_sweep(struct plan_args *args, const char *text)
{
    static const char start[] = "gpus=";
    const uint64_t most_gpus = (uint64_t)1 << 24;
    const char *at = text + sizeof start - 1;
    if (strncmp(text, start, sizeof start - 1) != 0 || *at == '\0') {
        return cli_bad_option(&args->cli, "--sweep", "\"%.60s\" is not of the form gpus=8,32,1024", text);
    }
    for (;; at++) {
        uint64_t gpus = 0;
        const char *const end = at + redco_whole_read(at, strlen(at), &gpus);
        if (gpus == 0 || gpus > most_gpus || (*end != ',' && *end != '\0')) {
            return cli_bad_option(&args->cli, "--sweep", "\"%.60s\": numbers of GPUs from 1 to %llu, between commas",
                                  text, (unsigned long long)most_gpus);
        }
        if (args->question.size_count == REDCO_MOST_SIZES) {
            return cli_bad_option(&args->cli, "--sweep", "has more than %d numbers", REDCO_MOST_SIZES);
        }
        args->question.sizes[args->question.size_count++] = gpus;
        at = end;
        if (*at == '\0') { return 0; }
    }
}

/* An alias leaves tensor parallelism out unless it is said. */
static error_t read_strategy(struct plan_args *args, const char *text)
{
    redco_search_options *const options = &args->question.options;
    const char *names[2 * REDCO_STRATEGY_COUNT] = {NULL};
    redco_strategy strategies[2 * REDCO_STRATEGY_COUNT];
    int word = 0, count = 0;
    for (int alias = 0; alias < 2; alias++) {
        for (int i = REDCO_STRATEGY_DDP; i < REDCO_STRATEGY_COUNT; i++) {
            const char *const name = alias == 1 ? redco_strategies[i].alias : redco_strategies[i].word;
            if (name == NULL) { continue; }
            strategies[count] = (redco_strategy)i;
            names[count++] = name;
        }
    }
    const error_t why = cli_word(&args->cli, "--strategy", text, names, &word);
    options->strategy = strategies[word];
    if (word + 1 >= REDCO_STRATEGY_COUNT && options->given.tp == 0) { options->given.tp = 1; }
    return why;
}

/* DeepSpeed's word for it. */
static error_t read_zero(struct plan_args *args, const char *text)
{
    static const char *const words[] = {"0", "1", "2", "3", NULL};
    static const redco_strategy stages[] = {REDCO_STRATEGY_DDP, REDCO_STRATEGY_ZERO1, REDCO_STRATEGY_ZERO2,
                                            REDCO_STRATEGY_ZERO3};
    int word = 0;
    const error_t why = cli_word(&args->cli, "--zero", text, words, &word);
    args->question.options.strategy = stages[word];
    return why;
}

/* The data-parallel degree is what tp, pp and cp leave of the GPUs: it says these, or how many GPUs there are. */
static void apply_dp(struct plan_args *args)
{
    redco_parallelism *const p = &args->question.options.given;
    uint32_t *const degrees[] = {&p->tp, &p->pp, &p->cp};
    uint32_t *open = NULL;
    uint64_t product = args->dp;
    if (args->dp == 0) { return; }
    if (p->cp == 0 || redco_degree_is_free(p->cp)) { p->cp = 1; }
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
        const bool given = *degrees[i] > 0 && !redco_degree_is_free(*degrees[i]);
        if (given && __builtin_mul_overflow(product, *degrees[i], &product)) { product = UINT64_MAX; }
        if (!given && (args->question.gpus == 0 || product == args->question.gpus)) {
            *degrees[i] = 1;
        } else if (!given && open != NULL) {
            (void)cli_bad_option(&args->cli, "--dp",
                                 "%u leaves other GPUs to tensor parallelism and stages: say --tp or --pp, too",
                                 args->dp);
            return;
        } else if (!given) {
            open = degrees[i];
        }
    }
    const uint64_t rest = args->question.gpus > 0 && product > 0 ? args->question.gpus / product : 1;
    if (args->question.gpus > 0 &&
        (rest * product != args->question.gpus || (open == NULL && rest != 1) || rest > UINT32_MAX)) {
        (void)cli_bad_option(&args->cli, "--dp", "%u and the other degrees do not make %llu GPUs", args->dp,
                             (unsigned long long)args->question.gpus);
        return;
    }
    if (open != NULL) { *open = (uint32_t)rest; }
    args->question.gpus = product * rest;
}

static error_t add_profile(struct plan_args *args, const char *path)
{
    if (args->question.names.profile_count == PLAN_MOST_PROFILES) {
        return cli_bad_option(&args->cli, "--profile", "more than %d files", PLAN_MOST_PROFILES);
    }
    const error_t why = cli_name(&args->cli, "--profile", path, &args->profiles[args->question.names.profile_count]);
    if (why != 0) { return why; }
    args->question.names.profile_count++;
    args->question.names.profiles = args->profiles;
    return 0;
}

static error_t read_engine(struct plan_args *args, const char *text)
{
    static const char automatic[] = "auto,";
    if (strncmp(text, automatic, sizeof automatic - 1) == 0) {
        return cli_bad_option(&args->cli, "--engine", "auto tries engines as they are: it takes no traits");
    }
    const char *const engines = plan_word_engines(text);
    if (engines != NULL) {
        return cli_bad_option(&args->cli, "--engine", "%.40s trains with transformers: %s", text, engines);
    }
    args->question.try_engines = strcmp(text, "auto") == 0;
    return args->question.try_engines ? 0 : cli_name(&args->cli, "--engine", text, &args->question.names.engine);
}

static error_t read_compare(struct plan_args *args, const char *text)
{
    if (text != NULL && strcmp(text, "engines") != 0) {
        return cli_bad_option(&args->cli, "--compare",
                              "\"%.40s\" is not engines; without a value strategies are compared", text);
    }
    args->compare = text == NULL;
    args->compare_engines = text != NULL;
    return 0;
}

static error_t read_recompute(struct plan_args *args, const char *text)
{
    redco_search_options *options = &args->question.options;
    bool *const half = &options->workload.engine.partial_recompute;
    *half = false;
    options->modules = strcmp(text, "modules") == 0;
    options->recompute = REDCO_RECOMPUTE_FREE;
    if (options->modules || strcmp(text, "auto") == 0 || redco_recompute_parse(text, &options->recompute, half)) {
        return 0;
    }
    return cli_bad_option(&args->cli, "--recompute", "\"%.40s\" is not one of: auto, modules, %s", text,
                          redco_recompute_known);
}

static error_t read_precision(struct plan_args *args, const char *text)
{
    static const char *const words[] = {"bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4", NULL};
    redco_workload *const workload = &args->question.options.workload;
    int word = 0;
    args->precisions = strcmp(text, "auto") == 0;
    if (args->precisions) { return 0; }
    const error_t why = cli_word(&args->cli, "--precision", text, words, &word);
    workload->precision = word <= REDCO_FP32 ? (redco_precision)word : REDCO_BF16;
    workload->engine.gemm_format = word <= REDCO_FP32 ? REDCO_GEMM_SAME : (redco_gemm_format)(word - REDCO_FP32);
    return why;
}

static error_t read_objective(struct plan_args *args, const char *text)
{
    static const char *const words[] = {"step-time", "comm", "time-to-train", "cost", "energy", NULL};
    int word = 0;
    if (run_args_objective(args, text)) { return 0; }
    const error_t why = cli_word(&args->cli, "--objective", text, words, &word);
    args->question.options.objective = word == 0 ? REDCO_OBJECTIVE_STEP_TIME : REDCO_OBJECTIVE_COMM;
    return why;
}

static error_t read_mfu_convention(struct plan_args *args, const char *text)
{
    static const char *const words[] = {"full", "causal", NULL};
    int word = 0;
    const error_t why = cli_word(&args->cli, "--mfu-convention", text, words, &word);
    args->question.options.workload.mfu_causal = word == 1;
    return why;
}

static error_t read_tp_placement(struct plan_args *args, const char *text)
{
    static const char *const words[] = {"rules", "milp", NULL};
    redco_search_options *const options = &args->question.options;
    int word = 0;
    const error_t why = cli_word(&args->cli, "--tp-placement", text, words, &word);
    options->tp_placement = (redco_tp_placement)word;
    options->tp_placement_fixed = true;
    return why;
}

static error_t add_read(struct plan_args *args, const char *path)
{
    if (args->read_count == REDCO_READ_FILES) {
        return cli_bad_option(&args->cli, "--read", "more than %d files", REDCO_READ_FILES);
    }
    return cli_name(&args->cli, "--read", path, &args->read[args->read_count++]);
}

static error_t read_kind(struct plan_args *args, const char *text)
{
    int word = 0;
    const error_t why = cli_word(&args->cli, "--read-as", text, redco_read_kinds(), &word);
    args->read_as = redco_read_kinds()[word];
    return why;
}

static error_t read_gpus(struct plan_args *args, const char *text)
{
    error_t why = 0;
    if (run_args_sizes(args, text, &why)) { return why; }
    return cli_u64(&args->cli, "--gpus", text, 1, (uint64_t)1 << 24, &args->question.gpus);
}

static error_t read_global_batch(struct plan_args *args, const char *text)
{
    return cli_u64(&args->cli, "--global-batch", text, 1, (uint64_t)1 << 40,
                   &args->question.options.workload.global_batch);
}

static error_t read_pipeline(struct plan_args *args, const char *text)
{
    args->question.options.workload.seq_len = 1;
    return cli_name(&args->cli, "--pipeline", text, &args->pipeline);
}

static error_t read_overlap(struct plan_args *args, const char *text)
{
    args->question.options.overlap_fixed = true;
    return overlap_option(&args->cli, "--overlap", text, &args->question.options.workload.overlap);
}

/* An option that fixes no dimension: those are rows of redco_dimensions. */
struct row {
    const char *name, *argument;
    int group;
    const char *help;
    error_t (*read)(struct plan_args *args, const char *text); /* else by what follows */
    size_t offset; /* in struct plan_args: of a name, of a number, or without an argument of a switch */
    uint32_t most; /* the largest number */
    int letter;    /* the short form */
    bool of_check; /* goes with --check and --from */
    bool may_lack; /* its argument may be left out */
};

#define AT(member) .offset = offsetof(struct plan_args, member)
#define OF_NAMES(member) AT(question.names.member)
#define OF_OPTIONS(member) AT(question.options.member)

static error_t read_hosts(struct plan_args *args, const char *text)
{
    args->question.names.hosts = text; /* none is an error of its own */
    return 0;
}

static error_t read_output(struct plan_args *args, const char *text)
{
    args->out = text;
    return 0;
}

/* clang-format off */
static const struct row rows[] = {
    {.group = 1, .help = "Model and machine:"},
    {"gpus", "N", 1, "GPUs in use; may be left out when the cluster has a fixed size; with --tokens also 256..16384 or 256,512", .read = read_gpus},
    {"pipeline", "FILE.so", 1, "Plan what a pipeline's loss builds, instead of a model (executor/pipeline); --seq is 1", .read = read_pipeline},
    {"model", "M", 1, "Preset or HuggingFace config.json (default llama-7b)", OF_NAMES(model)},
    {"safetensors", "FILE", 1, "Check the model's tensors against a .safetensors file or index", OF_NAMES(safetensors)},
    {"cluster", "C", 1, "Preset, cluster file, a provider's instance (p5.48xlarge), GPUs (8x H100), or a node: hwloc XML, NCCL XML or redco-topo JSON (default a800-hdr); A,B: a row for each", OF_NAMES(cluster)},
    {"run-here", NULL, 1, "For --gpus processors of this machine, which are measured in a moment, in place of --cluster and --profile: fp32, 128 tokens, 4 sequences a processor unless given (redco-exec runs it)", AT(run_here)},
    {"node", "FILE", 1, "hwloc XML, NCCL XML or redco-topo JSON that replaces the cluster's node type", OF_NAMES(node)},
    {"topology", "FILE", 1, "Slurm topology.conf that replaces the cluster's switches", OF_NAMES(topology)},
    {"hosts", "LIST", 1, "Free hosts, such as node[001-128,200]; the others are left out", .read = read_hosts},
    {"seq", "N", 1, "Tokens of a sequence (default 4096, or the positions that the model learns where these are fewer)", OF_OPTIONS(workload.seq_len), .most = 1 << 30},
    {"global-batch", "SEQS", 1, "Sequences of a step (default 1024)", .read = read_global_batch},
    {"precision", "WORD", 1, "bf16, fp16 or fp32 of weights and gradients in compute (default bf16); fp8, mxfp8 or nvfp4 of the products in layers, with bf16; auto, of a run, tries fp8 too", .read = read_precision},
    {"read", "FILE", 1, "A trainer's own file (launch script, YAML, JSON, TOML) as the question: its keys are options, which others of the command line replace; may be repeated", .read = add_read},
    {"write", "FILE", 1, "With --read: write that file with the changes that pay together; nothing else in it is touched", AT(write)},
    {"log", "FILE", 1, "A log of the run that is asked for (Megatron-LM, NeMo, torchtitan, Trainer, DeepSpeed, MaxText, PyTorch's out-of-memory message): measured beside predicted, and which term is off", AT(log)},
    {"rescale", "RUN", 1, "A measured step of what is asked for, \"5.3 s\" or a log: moves all predictions of its engine and narrows their band to that of runs of one source", AT(rescale)},
    {"read-as", "KIND", 1, "The trainer whose file --read names, a word of planner/read/KEYS.md: megatron, deepspeed, nemo, ... (default: by its keys)", .read = read_kind},
    {.group = 2, .help = "Fixed values; all else is optimised:"},
    {"dims", "LIST", 2, "Which of tp, sp, pp, cp, ep and dp may exceed 1 (default: all)", .read = read_dims},
    {"tp-placement", "rules|milp", 2, "Which dimension of each weight tensor parallelism splits: by RedCoast's rules (default), or what costs least", .read = read_tp_placement},
    {"tp-rules", "FILE", 2, "Rules of your own before RedCoast's, or instead: see redco-rules(1)", OF_NAMES(tp_rules)},
    {"recompute", "WORD", 2, "none, half, full, or modules joined by + (core_attn+mlp), of all layers; modules: those that the engine offers; auto: layers may differ", .read = read_recompute},
    {"strategy", "NAME", 2, NULL, .read = read_strategy}, /* help: list_options() */
    {"zero", "0|1|2|3", 2, "The stage of ZeRO: --strategy ddp, zero1, zero2 or zero3", .read = read_zero},
    {"dp", "N", 2, "Data-parallel degree: what tp, pp and cp leave of the GPUs", AT(dp), .most = 1 << 24},
    {"fix", "p=AxB,g=AxB,os=AxB", 2, "Meshes (GPUs x nodes) of parameters, gradients, optimizer, p2 of a second copy of the parameters, and experts.p, .g, .os of experts; any of them", .read = read_fix},
    {"uniform", NULL, 2, "The same meshes for all layers (default)", AT(uniform_given)},
    {"layerwise", NULL, 2, "Meshes may differ from layer to layer", OF_OPTIONS(layerwise)},
    {.group = 3, .help = "Cost model and objective:"},
    {"objective", "WORD", 3, "step-time (default) or comm, AMSP's communication time; of a run time-to-train, cost or energy", .read = read_objective},
    {"overlap", "LIST|none", 3, "Traffic hidden behind compute: ag_rs, ar, bc, tp, or all but tp (default: what the engine hides)", .read = read_overlap},
    {"profile", "FILE", 3, "Measured operators and collectives: a shipped profile (h200-sxm, h100-sxm), redco-profile's file, an nccl-tests log or CSV; may be repeated", .read = add_profile, .of_check = true},
    {"calibration", "FILE", 3, "Preset or file of fitted constants (default: of engine and GPU)", OF_NAMES(calibration)},
    {"engine", "NAME[,TRAIT=VALUE...]", 3, "The training software whose steps are planned: a preset or a file, its traits stated otherwise; auto tries those that were measured on this GPU (default: what cluster or GPU name)", .read = read_engine},
    {"trainable", "WHAT", 3, "all, or lora:r=N[,targets=q+v]: adapters of rank N beside q, k, v, o, gate, up, down, attention, mlp (default: all of these); qlora: frozen matrices are in 4 bits", OF_NAMES(trainable)},
    {"optimizer", "NAME", 3, "adamw, adamw-8bit, adafactor, lion, momentum or sgd (default: the engine's, adamw)", OF_NAMES(optimizer)},
    {"master-weights", "fp32|none", 3, "Whether 16-bit training keeps weights in 32 bits, too (default: the engine's, fp32)", OF_NAMES(master_weights)},
    {"offload", "WHAT", 3, "States in the memory of the host, of any engine: none, optimizer or optimizer,parameters (default: the engine's, none)", OF_NAMES(offload)},
    {"mfu-convention", "full|causal", 3, "Count attention in full (default) or its causal half", .read = read_mfu_convention},
    {.group = 4, .help = "Answers:"},
    {"verify", NULL, 4, "Prove the optimum by a second method; exit 1 if it is beaten", OF_OPTIONS(verify)},
    {"top", "K", 4, "The K best strategies", OF_OPTIONS(top), .most = PLAN_MOST_TOP},
    {"compare", "engines", 4, "The named strategies beside the optimum, or the engines", .read = read_compare, .may_lack = true},
    {"explain", NULL, 4, "Why not the neighbours, and what would help", AT(explain)},
    {"kept", NULL, 4, "Instead of a plan, what engines keep of a layer of the model for backward", AT(kept)},
    {"memory", NULL, 4, "Also the peak of the fullest GPU, part by part", AT(memory)},
    {"sweep", "gpus=N,N,...", 4, "One plan for each number of GPUs", .read = read_sweep},
    {"report", "HTML", 4, "Also write one page with the choice (with --compare or --sweep: all rows), its reasons, tables and pictures", AT(report)},
    {"export", "KIND[=FILE]", 4, "Write the plan for megatron, megatron-bridge, torchtitan, deepspeed, fsdp, internevo or sbatch; alone on standard output", .read = plan_export_option, .of_check = true},
    {"from", "PLAN", 4, "Export an existing plan file", AT(from), .of_check = true},
    {"check", "PLAN", 4, "Read a plan file and compute its numbers again", AT(check), .of_check = true},
    {"output", "PLAN", 4, "Write the plan file", .read = read_output, .letter = 'o'},
    {"timeline", "TRACE", 4, "Write the simulated step as a trace for Perfetto", AT(timeline)},
};
/* clang-format on */

enum {
    ROWS = sizeof rows / sizeof rows[0],
    KEY_ROW = 0x100,       /* and further: the rows */
    KEY_DIMENSION = 0x200, /* and further: the dimensions */
    GROUP_FIXED = 2
};

_Static_assert(ROWS + REDCO_DIMENSIONS < PLAN_OPTIONS, "room for all of them");

/* The options as argp takes them. */
static void list_options(struct plan_args *args)
{
    static const struct argp_option common[] = {CLI_OPTIONS, {0}};
    struct argp_option *const out = args->options;
    char names[160];
    size_t count = 0;
    (void)snprintf(args->strategy_help, sizeof args->strategy_help,
                   "%s: data parallel, with stages or context parallelism only where --pp or --cp says so",
                   redco_strategy_list(true, names, sizeof names));
    for (int i = 0; i < ROWS; i++) {
        const struct row *const r = &rows[i];
        const char *const help = r->read == read_strategy ? args->strategy_help : r->help;
        const int key = r->name == NULL ? 0 : r->letter != 0 ? r->letter : KEY_ROW + i;
        out[count++] =
            (struct argp_option){r->name, key, r->argument, r->may_lack ? OPTION_ARG_OPTIONAL : 0, help, r->group};
    }
    for (int i = 0; i < REDCO_DIMENSIONS; i++) {
        const redco_dimension *const d = &redco_dimensions[i];
        if (d->option == NULL) { continue; }
        out[count++] = (struct argp_option){
            d->option, KEY_DIMENSION + i, d->argument, d->may_lack ? OPTION_ARG_OPTIONAL : 0, d->help, GROUP_FIXED};
    }
    memcpy(&out[count], common, sizeof common);
}

static error_t read_row(struct plan_args *args, const struct row *row, const char *text)
{
    void *const out = (char *)args + row->offset;
    char option[32];
    (void)snprintf(option, sizeof option, "--%s", row->name);
    if (row->read != NULL) { return row->read(args, text); }
    if (row->most > 0) { return read_count(args, option, text, row->most, out); }
    if (row->argument != NULL) { return cli_name(&args->cli, option, text, out); }
    *(bool *)out = true;
    return 0;
}

static void note_given(struct plan_args *args, const char *name)
{
    if (args->given_count < PLAN_OPTIONS) { args->given[args->given_count++] = name; }
}

bool plan_args_given(const struct plan_args *args, const char *option)
{
    for (size_t i = 0; i < args->given_count; i++) {
        if (strcmp(args->given[i], option) == 0) { return true; }
    }
    return false;
}

error_t plan_args_set(struct plan_args *args, const char *option, const char *value)
{
    args->plans = true;
    for (int i = 0; i < REDCO_DIMENSIONS; i++) {
        const redco_dimension *const d = &redco_dimensions[i];
        if (d->option != NULL && strcmp(d->option, option) == 0) { return read_dimension(args, d, value); }
    }
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].name != NULL && strcmp(rows[i].name, option) == 0) { return read_row(args, &rows[i], value); }
    }
    return cli_bad_option(&args->cli, option, "is no option");
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct plan_args *args = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = args;
        return 0;
    }
    if (key == ARGP_KEY_ARG) { /* the value of --compare, which getopt takes for an argument */
        if (args->run.compared[0] != NULL && args->run.compared[1] == NULL) {
            return cli_name(&args->cli, "--compare-runs", text, &args->run.compared[1]);
        }
        return args->compare && strcmp(text, "engines") == 0 ? read_compare(args, text) : cli_option(key, text, state);
    }
    if (key >= KEY_DIMENSION && key < KEY_DIMENSION + REDCO_DIMENSIONS) {
        args->plans = true;
        note_given(args, redco_dimensions[key - KEY_DIMENSION].option);
        const redco_dimension *const d = &redco_dimensions[key - KEY_DIMENSION];
        return read_dimension(args, d, plan_word(d->option, text));
    }
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].name == NULL || key != (rows[i].letter != 0 ? rows[i].letter : KEY_ROW + i)) { continue; }
        args->plans = args->plans || !rows[i].of_check;
        note_given(args, rows[i].name);
        return read_row(args, &rows[i], plan_word(rows[i].name, text));
    }
    return cli_option(key, text, state);
}

/* Those that go to standard output; a JSON document has room for all. */
static int printed_exports(const struct plan_args *args)
{
    int count = 0;
    for (int i = 0; i < REDCO_FRAMEWORK_COUNT; i++) {
        count += args->exports[i].chosen && args->exports[i].path == NULL && !args->cli.json;
    }
    return count;
}

/* Options that contradict one another. */
static void check_together(struct plan_args *args)
{
    struct cli *cli = &args->cli;
    const redco_search_options *options = &args->question.options;
    const bool fixed = options->fix.parameters.gpus != 0 || options->fix.gradients.gpus != 0 ||
                       options->fix.optimizer.gpus != 0 || options->given.secondary.gpus != 0 ||
                       redco_parallelism_own_experts(&options->given);
    const bool many = args->question.try_engines || args->compare_engines;
    if (args->check != NULL && (args->plans || args->exports_any || args->from != NULL)) {
        (void)cli_bad_option(cli, "--check", "goes only with --profile, --json and --quiet: the plan says the rest");
    } else if (args->from != NULL && (args->plans || !args->exports_any)) {
        (void)cli_bad_option(cli, "--from",
                             "goes only with --export, --profile, --json and --quiet, and needs --export");
    } else if (args->write != NULL && args->reading == NULL) {
        (void)cli_bad_option(cli, "--write", "writes what --read reads: give that, too");
    } else if (args->log != NULL &&
               (args->compare || args->compare_engines || args->question.size_count > 0 || options->top > 0)) {
        (void)cli_bad_option(cli, "--log", "is held beside one plan: leave out --compare, --sweep and --top");
    } else if (args->rescale != NULL && (args->compare_engines || args->question.size_count > 0)) {
        (void)cli_bad_option(cli, "--rescale", "is a step of one plan: leave out --sweep and several engines");
    } else if (printed_exports(args) > 1) {
        (void)cli_bad_option(cli, "--export", "%d kinds without a file: only one fits on standard output",
                             printed_exports(args));
    } else if (args->exports_any && (args->compare || args->question.size_count > 0 || options->top > 0)) {
        (void)cli_bad_option(cli, "--export", "writes one plan: leave out --compare, --sweep and --top");
    } else if (args->memory && (cli->json || args->kept || args->compare || args->compare_engines ||
                                args->question.size_count > 0 || options->top > 0)) {
        (void)cli_bad_option(cli, "--memory",
                             "is a table of one plan: leave out --json, --kept, --compare, --sweep and --top");
    } else if (options->layerwise && args->uniform_given) {
        (void)cli_bad_option(cli, "--layerwise", "contradicts --uniform");
    } else if (options->strategy != REDCO_STRATEGY_ANY && fixed) {
        (void)cli_bad_option(cli, "--fix", "contradicts --strategy: give one of them");
    } else if (args->compare && (options->strategy != REDCO_STRATEGY_ANY || fixed)) {
        (void)cli_bad_option(cli, "--compare", "takes every named strategy: leave out --strategy and --fix");
    } else if (many && (args->compare || args->question.size_count > 0 || options->top > 0)) {
        (void)cli_bad_option(
            cli, args->question.try_engines ? "--engine" : "--compare", "%s: leave out --compare, --sweep and --top",
            args->question.try_engines ? "auto answers with one plan" : "engines gives a list of its own");
    } else if (args->question.try_engines && args->compare_engines) {
        (void)cli_bad_option(cli, "--engine", "auto is what --compare engines shows: give one of them");
    } else if (args->compare_engines &&
               (args->explain || args->timeline != NULL || args->out != NULL || args->exports_any || options->verify)) {
        (void)cli_bad_option(cli, "--compare",
                             "engines is a list: leave out -o, --explain, --export, --timeline and --verify");
    } else if (args->compare + (args->question.size_count > 0 && !args->run.sizes) + (options->top > 0) +
                   args->explain >
               1) {
        (void)cli_bad_option(cli, "",
                             "--compare, --sweep, --top and --explain are different answers: give one of them");
    } else if (args->question.size_count > 0 && !args->run.sizes && (args->question.gpus != 0 || args->out != NULL)) {
        (void)cli_bad_option(cli, "--sweep", "gives the numbers of GPUs and many plans: leave out --gpus and -o");
    } else if (args->run_here && (plan_args_given(args, "cluster") || plan_args_given(args, "node") ||
                                  plan_args_given(args, "profile") || plan_args_given(args, "topology"))) {
        (void)cli_bad_option(cli, "--run-here",
                             "measures the machine: leave out --cluster, --node, --topology, --profile");
    } else if (args->run_here && (args->question.gpus == 0 || args->question.gpus > RUN_HERE_MOST)) {
        (void)cli_bad_option(cli, "--run-here", "needs --gpus, from 1 to %d processors", RUN_HERE_MOST);
    } else if (args->timeline != NULL && (args->question.size_count > 0 || args->compare)) {
        (void)cli_bad_option(cli, "--timeline", "shows one plan: leave out --compare and --sweep");
    } else if (args->report != NULL && options->top > 1) {
        (void)cli_bad_option(cli, "--report", "holds one plan, a comparison or a sweep: leave out --top");
    } else if (args->question.names.tp_rules != NULL && options->tp_placement == REDCO_TP_MILP) {
        (void)cli_bad_option(cli, "--tp-rules", "contradicts --tp-placement milp: give one of them");
    } else if (args->out != NULL && (args->out[0] == '\0' || strcmp(args->out, "-") == 0)) {
        (void)cli_bad_option(cli, "-o", "needs a file; --json prints the plan");
    }
}

static void start(struct plan_args *args)
{
    *args = (struct plan_args){.question = redco_question_default(), .run = {.words = redco_run_words_default()}};
    list_options(args);
}

int plan_args_parse(int argc, char **argv, plan_args_reader reader, struct plan_args *args)
{
    static const struct argp_child children[] = {{&run_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};
    const struct argp argp = {
        .options = args->options,
        .parser = read_option,
        .children = children,
        .doc = "Finds the sharding strategy that trains fastest within memory, and proves it."
               "\vA mesh AxB is A GPUs in each of B nodes. Exit code: 0 planned, 1 nothing fits, 2 bad input, 3 a "
               "system failure."};
    start(args);
    int rc = cli_parse(&argp, argc, argv, &args->cli);
    if (rc == CLI_RUN && args->read_count > 0) { /* the files' options first: the command line's replace them */
        struct plan_args *const given = malloc(sizeof *given);
        redco_error err = {.status = REDCO_OK};
        redco_status st = given != NULL ? REDCO_OK : redco_fail(&err, REDCO_ENOMEM, "", "out of memory");
        if (st == REDCO_OK) {
            *given = *args;
            start(args);
            st = reader(given, args, &err);
            args->cli.program = given->cli.program;
            free(given);
        }
        if (st != REDCO_OK) { return cli_fail(&args->cli, &err); }
        rc = cli_parse(&argp, argc, argv, &args->cli);
    }
    if (rc != CLI_RUN) { return rc; }
    run_args_clusters(args);
    apply_stated(args);
    apply_dp(args);
    if (!run_args_contradict(args)) { check_together(args); }
    apply_dims(args);
    return args->cli.err.status == REDCO_OK ? CLI_RUN : cli_fail(&args->cli, &args->cli.err);
}
