#include "tools/plan/plan_args.h"

#include "planner/plan/plan.h"
#include "planner/search/strategy.h"
#include "tools/cli/overlap_option.h"
#include "tools/plan/plan_export.h"
#include "topology/base/number.h"

#include <string.h>

const char *argp_program_version = "redco-plan " REDCO_VERSION;

enum key {
    KEY_GPUS = 0x100,
    KEY_MODEL,
    KEY_PIPELINE,
    KEY_SAFETENSORS,
    KEY_CLUSTER,
    KEY_NODE,
    KEY_TOPOLOGY,
    KEY_HOSTS,
    KEY_SEQ,
    KEY_GLOBAL_BATCH,
    KEY_MICRO_BATCH,
    KEY_TP,
    KEY_PP,
    KEY_PP_CHUNKS,
    KEY_PP_SCHEDULE,
    KEY_PP_GROUP,
    KEY_PP_LAYOUT,
    KEY_CP,
    KEY_CP_TYPE,
    KEY_EP,
    KEY_ETP,
    KEY_DIMS,
    KEY_TP_PLACEMENT,
    KEY_TP_RULES,
    KEY_SEQUENCE_PARALLEL,
    KEY_RECOMPUTE,
    KEY_PRECISION,
    KEY_OBJECTIVE,
    KEY_LAYERWISE,
    KEY_UNIFORM,
    KEY_STRATEGY,
    KEY_FIX,
    KEY_SCHEME,
    KEY_OVERLAP,
    KEY_PROFILE,
    KEY_CALIBRATION,
    KEY_ENGINE,
    KEY_MFU_CONVENTION,
    KEY_VERIFY,
    KEY_TOP,
    KEY_COMPARE,
    KEY_EXPLAIN,
    KEY_KEPT,
    KEY_SWEEP,
    KEY_TIMELINE,
    KEY_REPORT,
    KEY_CHECK,
    KEY_EXPORT,
    KEY_FROM
};

/* clang-format off */
static const struct argp_option flags[] = {
    {NULL, 0, NULL, 0, "Model and machine:", 1},
    {"gpus", KEY_GPUS, "N", 0, "GPUs in use; may be left out when the cluster has a fixed size; with --tokens also 256..16384 or 256,512", 1},
    {"pipeline", KEY_PIPELINE, "FILE.so", 0, "Plan what a pipeline's loss builds, instead of a model (executor/pipeline); --seq is 1", 1},
    {"model", KEY_MODEL, "M", 0, "Preset or HuggingFace config.json (default llama-7b)", 1},
    {"safetensors", KEY_SAFETENSORS, "FILE", 0, "Check the model's tensors against a .safetensors file or index", 1},
    {"cluster", KEY_CLUSTER, "C", 0, "Preset, cluster file, or a node: hwloc XML, NCCL XML or redco-topo JSON (default a800-hdr)", 1},
    {"node", KEY_NODE, "FILE", 0, "hwloc XML, NCCL XML or redco-topo JSON that replaces the cluster's node type", 1},
    {"topology", KEY_TOPOLOGY, "FILE", 0, "Slurm topology.conf that replaces the cluster's switches", 1},
    {"hosts", KEY_HOSTS, "LIST", 0, "Free hosts, such as node[001-128,200]; the others are left out", 1},
    {"seq", KEY_SEQ, "N", 0, "Tokens of a sequence (default 4096, or the positions that the model learns where these are fewer)", 1},
    {"global-batch", KEY_GLOBAL_BATCH, "SEQS", 0, "Sequences of a step (default 1024)", 1},
    {"precision", KEY_PRECISION, "WORD", 0, "bf16, fp16 or fp32 of weights and gradients in compute (default bf16); fp8, mxfp8 or nvfp4 of the products in layers, with bf16; auto, of a run, tries fp8 too", 1},
    {NULL, 0, NULL, 0, "Fixed values; all else is optimised:", 2},
    {"micro-batch", KEY_MICRO_BATCH, "N|auto", 0, "Sequences of a micro-batch", 2},
    {"tp", KEY_TP, "N|auto", 0, "Tensor-parallel degree", 2},
    {"pp", KEY_PP, "N|auto", 0, "Pipeline stages (auto: also more than measured runs had)", 2},
    {"pp-chunks", KEY_PP_CHUNKS, "N|auto", 0, "Model chunks of each pipeline stage (more than one: interleaved 1F1B)", 2},
    {"pp-schedule", KEY_PP_SCHEDULE, "WORD", 0, "Order of passes: 1f1b, interleaved, gpipe, zb-h1, dualpipev, dualpipe (auto: those that the engine has)", 2},
    {"pp-group", KEY_PP_GROUP, "N", 0, "Micro-batches that an interleaved chunk takes one after the other (default: as few as can be, or as hide transfers)", 2},
    {"pp-layout", KEY_PP_LAYOUT, "TEXT", 0, "Blocks of given stages: 7,8,8,7; first=N,last=N; embedding,loss; Et*7|t*8|t*8|t*7L; or equal", 2},
    {"cp", KEY_CP, "N|auto", 0, "Context-parallel degree (auto: also what no measured run had)", 2},
    {"cp-type", KEY_CP_TYPE, "WORD", 0, "How context-parallel ranks come to keys of others: p2p, all-gather or all-to-all; auto: the best that the engine has", 2},
    {"ep", KEY_EP, "N|auto", 0, "Ranks over which the experts of a layer are shared out", 2},
    {"etp", KEY_ETP, "N|auto", 0, "Tensor-parallel degree of experts: that of --tp, or 1", 2},
    {"dims", KEY_DIMS, "LIST", 0, "Which of tp, sp, pp, cp, ep and dp may exceed 1 (default: all)", 2},
    {"tp-placement", KEY_TP_PLACEMENT, "rules|milp", 0, "Which dimension of each weight tensor parallelism splits: by RedCoast's rules (default), or what costs least", 2},
    {"tp-rules", KEY_TP_RULES, "FILE", 0, "Rules of your own before RedCoast's, or instead: see redco-rules(1)", 2},
    {"sequence-parallel", KEY_SEQUENCE_PARALLEL, "on|off|auto", OPTION_ARG_OPTIONAL, "Split norms and dropout over the tensor-parallel ranks, too (without a value on)", 2},
    {"recompute", KEY_RECOMPUTE, "WORD", 0, "none, half, full, or modules joined by + (core_attn+mlp), of all layers; modules: those that the engine offers; auto: layers may differ", 2},
    {"strategy", KEY_STRATEGY, "NAME", 0, "ddp, zero1, zero2, zero3, fsdp (zero3 without tensor parallelism), mics, zeropp, hsdp or amsp: data parallel, with stages or context parallelism only where --pp or --cp says so", 2},
    {"fix", KEY_FIX, "p=AxB,g=AxB,os=AxB", 0, "Meshes (GPUs x nodes) of parameters, gradients, optimizer, and p2 of a second copy of the parameters; any of them", 2},
    {"scheme", KEY_SCHEME, "WORD", 0, "inter-tensor (broadcast) or intra-tensor (all-gather) optimizer shards", 2},
    {"uniform", KEY_UNIFORM, NULL, 0, "The same meshes for all layers (default)", 2},
    {"layerwise", KEY_LAYERWISE, NULL, 0, "Meshes may differ from layer to layer", 2},
    {NULL, 0, NULL, 0, "Cost model and objective:", 3},
    {"objective", KEY_OBJECTIVE, "WORD", 0, "step-time (default) or comm, AMSP's communication time; of a run time-to-train, cost or energy", 3},
    {"overlap", KEY_OVERLAP, "LIST|none", 0, "Traffic hidden behind compute: ag_rs, ar, bc, tp, or all but tp (default: what the engine hides)", 3},
    {"profile", KEY_PROFILE, "FILE", 0, "Measured operators and collectives: a shipped profile (h200-sxm, h100-sxm), redco-profile's file, an nccl-tests log or CSV; may be repeated", 3},
    {"calibration", KEY_CALIBRATION, "FILE", 0, "Preset or file of fitted constants (default: of engine and GPU)", 3},
    {"engine", KEY_ENGINE, "NAME[,TRAIT=VALUE...]", 0, "The training software whose steps are planned: a preset or a file, its traits stated otherwise; auto tries those that were measured on this GPU (default: what cluster or GPU name)", 3},
    {"mfu-convention", KEY_MFU_CONVENTION, "full|causal", 0, "Count attention in full (default) or its causal half", 3},
    {NULL, 0, NULL, 0, "Answers:", 4},
    {"verify", KEY_VERIFY, NULL, 0, "Prove the optimum by a second method; exit 1 if it is beaten", 4},
    {"top", KEY_TOP, "K", 0, "The K best strategies", 4},
    {"compare", KEY_COMPARE, "engines", OPTION_ARG_OPTIONAL, "The named strategies beside the optimum, or the engines", 4},
    {"explain", KEY_EXPLAIN, NULL, 0, "Why not the neighbours, and what would help", 4},
    {"kept", KEY_KEPT, NULL, 0, "Instead of a plan, what engines keep of a layer of the model for backward", 4},
    {"sweep", KEY_SWEEP, "gpus=N,N,...", 0, "One plan for each number of GPUs", 4},
    {"report", KEY_REPORT, "HTML", 0, "Also write one page with the choice (with --compare or --sweep: all rows), its reasons, tables and pictures", 4},
    {"export", KEY_EXPORT, "KIND[=FILE]", 0, "Write the plan for megatron, megatron-bridge, torchtitan, deepspeed, fsdp, internevo or sbatch; alone on standard output", 4},
    {"from", KEY_FROM, "PLAN", 0, "Export an existing plan file", 4},
    {"check", KEY_CHECK, "PLAN", 0, "Read a plan file and compute its numbers again", 4},
    {"output", 'o', "PLAN", 0, "Write the plan file", 4},
    {"timeline", KEY_TIMELINE, "TRACE", 0, "Write the simulated step as a trace for Perfetto", 4},
    CLI_OPTIONS,
    {0}
};
/* clang-format on */

static error_t read_count(struct plan_args *args, const char *option, const char *text, uint64_t most, uint32_t *out)
{
    uint64_t value = 0;
    const error_t why = cli_u64(&args->cli, option, text, 1, most, &value);
    if (why == 0) { *out = (uint32_t)value; }
    return why;
}

/* A number, or "auto", which leaves it to the search. */
static error_t read_degree(struct plan_args *args, const char *option, const char *text, uint32_t *out)
{
    enum { MOST_DEGREE = 1 << 24 };
    if (strcmp(text, "auto") == 0) {
        *out = 0;
        return 0;
    }
    struct cli trial = {.program = args->cli.program};
    uint64_t value = 0;
    if (cli_u64(&trial, option, text, 1, MOST_DEGREE, &value) != 0) {
        return cli_bad_option(&args->cli, option, "\"%.40s\" is neither a whole number from 1 to %d nor auto", text,
                              MOST_DEGREE);
    }
    *out = (uint32_t)value;
    return 0;
}

/* The same where the default is 1. */
static error_t read_stages(struct plan_args *args, const char *option, const char *text, uint32_t *out)
{
    const error_t why = read_degree(args, option, text, out);
    if (why == 0 && *out == 0) { *out = REDCO_DEGREE_AUTO; }
    return why;
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

static const char *const dim_words[] = {"tp", "sp", "pp", "cp", "dp", "ep", NULL};
enum dim { DIM_TP, DIM_SP, DIM_PP, DIM_CP, DIM_DP, DIM_EP };

static error_t read_dims(struct plan_args *args, const char *text)
{
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        size_t i = 0;
        while (dim_words[i] != NULL && (strlen(dim_words[i]) != length || strncmp(dim_words[i], at, length) != 0)) {
            i++;
        }
        if (dim_words[i] == NULL) {
            return cli_bad_option(&args->cli, "--dims", "\"%.60s\" is not a list of tp, sp, pp, cp, ep and dp", text);
        }
        args->dims |= 1U << i;
        at += length;
        if (*at == '\0') { break; }
    }
    if ((args->dims & 1U << DIM_DP) == 0) {
        return cli_bad_option(&args->cli, "--dims", "\"%.60s\" leaves out dp, which takes all other GPUs", text);
    }
    return 0;
}

/* Dimensions that --dims leaves out are 1. */
static void apply_dims(struct plan_args *args)
{
    redco_search_options *const o = &args->question.options;
    uint32_t *const degrees[] = {
        [DIM_TP] = &o->given.tp, [DIM_PP] = &o->given.pp, [DIM_CP] = &o->given.cp, [DIM_EP] = &o->given.ep};
    static const uint32_t bits[] = {[DIM_TP] = REDCO_HAS_TP,
                                    [DIM_SP] = REDCO_HAS_SP,
                                    [DIM_PP] = REDCO_HAS_PP,
                                    [DIM_CP] = REDCO_HAS_CP,
                                    [DIM_EP] = 0};
    if (args->dims == 0) { return; }
    for (int d = DIM_TP; d <= DIM_EP; d++) { /* dp is there: read_dims() */
        const bool rows = d == DIM_SP;
        if ((args->dims >> d & 1) != 0) { continue; }
        if (rows ? o->sequence_parallel == REDCO_ON : *degrees[d] > 1 && !redco_degree_is_free(*degrees[d])) {
            (void)cli_bad_option(&args->cli, "--dims", "leaves out %s, which is given more than 1", dim_words[d]);
            return;
        }
        o->excluded |= bits[d];
        if (rows) {
            o->sequence_parallel = REDCO_OFF;
        } else {
            *degrees[d] = 1;
        }
    }
}

static error_t read_fix(struct plan_args *args, const char *text)
{
    static const char help[] = "is not of the form p=AxB,g=AxB,os=AxB,p2=AxB, where A and B are GPUs and nodes from 1";
    enum { PARTS = 4 };
    redco_shards *fix = &args->question.options.fix;
    const struct {
        const char *name;
        redco_mesh *mesh;
    } parts[] = {{"p=", &fix->parameters},
                 {"g=", &fix->gradients},
                 {"os=", &fix->optimizer},
                 {"p2=", &args->question.options.given.secondary}};
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

static error_t read_strategy(struct plan_args *args, const char *text)
{
    redco_strategy strategy = REDCO_STRATEGY_ANY;
    if (strcmp(text, "fsdp") == 0) { /* everything sharded over all GPUs, and no more unless it is said */
        if (args->question.options.given.tp == 0) { args->question.options.given.tp = 1; }
        text = redco_strategy_name(REDCO_STRATEGY_ZERO3);
    }
    if (!redco_strategy_parse(text, &strategy) || strategy == REDCO_STRATEGY_ANY) {
        return cli_bad_option(&args->cli, "--strategy",
                              "\"%.40s\" is not one of: ddp, zero1, zero2, zero3, fsdp, mics, zeropp, hsdp, amsp",
                              text);
    }
    args->question.options.strategy = strategy;
    return 0;
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

/* 1f1b is one chunk a stage; auto leaves both to the search. */
static error_t read_schedule(struct plan_args *args, const char *text)
{
    redco_search_options *const options = &args->question.options;
    int word = 0;
    if (strcmp(text, "auto") == 0) {
        options->given.schedule = REDCO_PIPELINE_1F1B;
        options->schedule_given = false;
        return 0;
    }
    const error_t why = cli_word(&args->cli, "--pp-schedule", text, redco_pipeline_words, &word);
    options->given.schedule = (redco_pipeline_kind)word;
    options->schedule_given = true;
    if (options->given.schedule == REDCO_PIPELINE_1F1B) { options->given.chunks = 1; }
    return why;
}

static error_t read_cp_type(struct plan_args *args, const char *text)
{
    static const char *const words[] = {"p2p", "all-gather", "all-to-all", "auto", NULL};
    redco_search_options *const options = &args->question.options;
    int word = 0;
    const error_t why = cli_word(&args->cli, "--cp-type", text, words, &word);
    options->cp_type_fixed = word < REDCO_CP_TYPES;
    options->cp_types = options->cp_type_fixed ? 1U << word : 0;
    return why;
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

/* Options whose value is one word of a list. */
static error_t read_choice(struct plan_args *args, int key, const char *text)
{
    static const char *const objective[] = {"step-time", "comm", "time-to-train", "cost", "energy", NULL};
    static const char *const placement[] = {"rules", "milp", NULL};
    static const char *const precision[] = {"bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4", NULL};
    static const char *const split[] = {"off", "on", "auto", NULL};
    static const redco_switch choices[] = {REDCO_OFF, REDCO_ON, REDCO_EITHER};
    static const char *const convention[] = {"full", "causal", NULL};
    redco_search_options *options = &args->question.options;
    int word = 0;
    error_t why = 0;
    switch (key) {
    case KEY_PP_SCHEDULE: return read_schedule(args, text);
    case KEY_CP_TYPE: return read_cp_type(args, text);
    case KEY_RECOMPUTE: return read_recompute(args, text);
    case KEY_PRECISION:
        args->precisions = strcmp(text, "auto") == 0;
        if (args->precisions) { return 0; }
        why = cli_word(&args->cli, "--precision", text, precision, &word);
        options->workload.precision = word <= REDCO_FP32 ? (redco_precision)word : REDCO_BF16;
        options->workload.engine.gemm_format =
            word <= REDCO_FP32 ? REDCO_GEMM_SAME : (redco_gemm_format)(word - REDCO_FP32);
        return why;
    case KEY_OBJECTIVE:
        if (run_args_objective(args, text)) { return 0; }
        why = cli_word(&args->cli, "--objective", text, objective, &word);
        options->objective = word == 0 ? REDCO_OBJECTIVE_STEP_TIME : REDCO_OBJECTIVE_COMM;
        return why;
    case KEY_SCHEME:
        why = cli_word(&args->cli, "--scheme", text, redco_scheme_words, &word);
        options->given.scheme = (redco_scheme)word;
        options->scheme_fixed = true;
        return why;
    case KEY_SEQUENCE_PARALLEL:
        why = text != NULL ? cli_word(&args->cli, "--sequence-parallel", text, split, &word) : 0;
        options->sequence_parallel = text == NULL ? REDCO_ON : choices[word];
        return why;
    case KEY_MFU_CONVENTION:
        why = cli_word(&args->cli, "--mfu-convention", text, convention, &word);
        options->workload.mfu_causal = word == 1;
        return why;
    default:
        why = cli_word(&args->cli, "--tp-placement", text, placement, &word);
        options->tp_placement = (redco_tp_placement)word;
        options->tp_placement_fixed = true;
        return why;
    }
}

static error_t read_workload(struct plan_args *args, int key, const char *text)
{
    enum { MOST_TOKENS = 1 << 30, MOST_CHUNKS = 64 };
    const uint64_t most_gpus = (uint64_t)1 << 24;
    const uint64_t most_batch = (uint64_t)1 << 40;
    redco_search_options *options = &args->question.options;
    error_t why = 0;
    switch (key) {
    case KEY_GPUS:
        if (run_args_sizes(args, text, &why)) { return why; }
        return cli_u64(&args->cli, "--gpus", text, 1, most_gpus, &args->question.gpus);
    case KEY_SEQ: return read_count(args, "--seq", text, MOST_TOKENS, &options->workload.seq_len);
    case KEY_GLOBAL_BATCH:
        return cli_u64(&args->cli, "--global-batch", text, 1, most_batch, &options->workload.global_batch);
    case KEY_MICRO_BATCH: return read_degree(args, "--micro-batch", text, &options->given.micro_batch);
    case KEY_TP: return read_degree(args, "--tp", text, &options->given.tp);
    case KEY_PP: return read_stages(args, "--pp", text, &options->given.pp);
    case KEY_PP_CHUNKS:
        if (strcmp(text, "auto") == 0) {
            options->given.chunks = REDCO_DEGREE_AUTO;
            return 0;
        }
        return read_count(args, "--pp-chunks", text, MOST_CHUNKS, &options->given.chunks);
    case KEY_PP_GROUP: return read_count(args, "--pp-group", text, MOST_TOKENS, &options->given.group);
    case KEY_CP: return read_stages(args, "--cp", text, &options->given.cp);
    case KEY_EP: return read_degree(args, "--ep", text, &options->given.ep);
    case KEY_ETP: return read_degree(args, "--etp", text, &options->given.etp);
    default: return read_count(args, "--top", text, PLAN_MOST_TOP, &options->top);
    }
}

static error_t read_flag(int key, char *text, struct argp_state *state)
{
    struct plan_args *args = state->input;
    redco_search_options *options = &args->question.options;
    const bool of_check = key == KEY_CHECK || key == KEY_FROM || key == KEY_EXPORT || key == KEY_PROFILE ||
                          key == CLI_KEY_JSON || key == CLI_KEY_QUIET;
    if (((key >= KEY_GPUS && key <= KEY_CHECK) || key == 'o') && !of_check) { args->plans = true; }
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = args; return 0;
    case KEY_PIPELINE: options->workload.seq_len = 1; return cli_name(&args->cli, "--pipeline", text, &args->pipeline);
    case KEY_MODEL: return cli_name(&args->cli, "--model", text, &args->question.names.model);
    case KEY_SAFETENSORS: return cli_name(&args->cli, "--safetensors", text, &args->question.names.safetensors);
    case KEY_CLUSTER: return cli_name(&args->cli, "--cluster", text, &args->question.names.cluster);
    case KEY_NODE: return cli_name(&args->cli, "--node", text, &args->question.names.node);
    case KEY_TOPOLOGY: return cli_name(&args->cli, "--topology", text, &args->question.names.topology);
    case KEY_HOSTS: args->question.names.hosts = text; return 0;
    case KEY_CALIBRATION: return cli_name(&args->cli, "--calibration", text, &args->question.names.calibration);
    case KEY_PP_LAYOUT: return cli_name(&args->cli, "--pp-layout", text, &args->question.split);
    case KEY_DIMS: return read_dims(args, text);
    case KEY_TP_RULES: return cli_name(&args->cli, "--tp-rules", text, &args->question.names.tp_rules);
    case KEY_PROFILE: return add_profile(args, text);
    case KEY_GPUS:
    case KEY_SEQ:
    case KEY_GLOBAL_BATCH:
    case KEY_MICRO_BATCH:
    case KEY_TP:
    case KEY_PP:
    case KEY_PP_CHUNKS:
    case KEY_PP_GROUP:
    case KEY_CP:
    case KEY_EP:
    case KEY_ETP:
    case KEY_TOP: return read_workload(args, key, text);
    case KEY_RECOMPUTE:
    case KEY_PRECISION:
    case KEY_OBJECTIVE:
    case KEY_SCHEME:
    case KEY_SEQUENCE_PARALLEL:
    case KEY_MFU_CONVENTION:
    case KEY_PP_SCHEDULE:
    case KEY_CP_TYPE:
    case KEY_TP_PLACEMENT: return read_choice(args, key, text);
    case KEY_STRATEGY: return read_strategy(args, text);
    case KEY_FIX: return read_fix(args, text);
    case KEY_ENGINE: return read_engine(args, text);
    case KEY_OVERLAP:
        options->overlap_fixed = true;
        return overlap_option(&args->cli, "--overlap", text, &args->question.options.workload.overlap);
    case KEY_SWEEP: return read_sweep(args, text);
    case KEY_LAYERWISE: options->layerwise = true; return 0;
    case KEY_UNIFORM: args->uniform_given = true; return 0;
    case KEY_VERIFY: options->verify = true; return 0;
    case KEY_COMPARE: return read_compare(args, text);
    case KEY_EXPLAIN: args->explain = true; return 0;
    case KEY_KEPT: args->kept = true; return 0;
    case KEY_CHECK: return cli_name(&args->cli, "--check", text, &args->check);
    case KEY_EXPORT: return plan_export_option(args, text);
    case KEY_FROM: return cli_name(&args->cli, "--from", text, &args->from);
    case KEY_REPORT: return cli_name(&args->cli, "--report", text, &args->report);
    case ARGP_KEY_ARG: /* the value of --compare, which getopt takes for an argument */
        if (args->run.compared[0] != NULL && args->run.compared[1] == NULL) {
            return cli_name(&args->cli, "--compare-runs", text, &args->run.compared[1]);
        }
        return args->compare && strcmp(text, "engines") == 0 ? read_compare(args, text) : cli_option(key, text, state);
    case 'o': args->out = text; return 0;
    case KEY_TIMELINE: return cli_name(&args->cli, "--timeline", text, &args->timeline);
    default: return cli_option(key, text, state);
    }
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
                       options->fix.optimizer.gpus != 0 || options->given.secondary.gpus != 0;
    const bool many = args->question.try_engines || args->compare_engines;
    if (args->check != NULL && (args->plans || args->exports_any || args->from != NULL)) {
        (void)cli_bad_option(cli, "--check", "goes only with --profile, --json and --quiet: the plan says the rest");
    } else if (args->from != NULL && (args->plans || !args->exports_any)) {
        (void)cli_bad_option(cli, "--from",
                             "goes only with --export, --profile, --json and --quiet, and needs --export");
    } else if (printed_exports(args) > 1) {
        (void)cli_bad_option(cli, "--export", "%d kinds without a file: only one fits on standard output",
                             printed_exports(args));
    } else if (args->exports_any && (args->compare || args->question.size_count > 0 || options->top > 0)) {
        (void)cli_bad_option(cli, "--export", "writes one plan: leave out --compare, --sweep and --top");
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

int plan_args_parse(int argc, char **argv, struct plan_args *args)
{
    static const struct argp_child children[] = {{&run_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};
    static const struct argp argp = {
        .options = flags,
        .parser = read_flag,
        .children = children,
        .doc = "Finds the sharding strategy that trains fastest within memory, and proves it."
               "\vA mesh AxB is A GPUs in each of B nodes. Exit code: 0 planned, 1 nothing fits, 2 bad input, 3 a "
               "system failure."};
    *args = (struct plan_args){.question = redco_question_default(), .run = {.words = redco_run_words_default()}};
    const int rc = cli_parse(&argp, argc, argv, &args->cli);
    if (rc != CLI_RUN) { return rc; }
    run_args_clusters(args);
    if (!run_args_contradict(args)) { check_together(args); }
    apply_dims(args);
    return args->cli.err.status == REDCO_OK ? CLI_RUN : cli_fail(&args->cli, &args->cli.err);
}
