/* Every option that an export writes is one of the framework's, with a value of its type and choices, over plans of a
 * grid. The options are facts of a version of each framework: tests/data/exports/options-FRAMEWORK.txt. */
#include "export_fixture.h"
#include "tests/unit/recomputed.h"

#include <stdio.h>

enum { MOST_OPTIONS = 1024, NAME = 96, WORDS = 192 };

struct option {
    char name[NAME], type[16], words[WORDS]; /**< words: " a b c " */
    bool used;
};

struct options {
    struct option all[MOST_OPTIONS];
    size_t count;
};

static const struct {
    redco_framework framework;
    const char *file;
} frameworks[] = {{REDCO_FRAMEWORK_MEGATRON, "options-megatron.txt"},
                  {REDCO_FRAMEWORK_MEGATRON_BRIDGE, "options-megatron-bridge.txt"},
                  {REDCO_FRAMEWORK_TORCHTITAN, "options-torchtitan.txt"}};

enum { FRAMEWORKS = sizeof frameworks / sizeof frameworks[0] };

static void read_options(const char *file, struct options *out)
{
    char path[512];
    char line[512];
    (void)snprintf(path, sizeof path, "%s/exports/%s", REDCO_TEST_DATA, file);
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    out->count = 0;
    while (fgets(line, sizeof line, stream) != NULL) {
        struct option *option = &out->all[out->count];
        int end = 0;
        if (line[0] == '#') { continue; }
        assert_true(out->count < MOST_OPTIONS);
        assert_int_equal(sscanf(line, "%95s %15s%n", option->name, option->type, &end), 2);
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(option->words, WORDS, "%s ", line + end);
        option->used = false;
        out->count++;
    }
    (void)fclose(stream);
}

static bool has_word(const struct option *option, const char *word)
{
    char spaced[WORDS];
    (void)snprintf(spaced, sizeof spaced, " %s ", word);
    return strstr(option->words, spaced) != NULL;
}

static bool begins(const char *text, const char *with)
{
    return text != NULL && strncmp(text, with, strlen(with)) == 0;
}

static bool is_legal(const struct option *option, const json_t *value)
{
    const char *type = option->type, *text = json_string_value(value);
    if (json_is_null(value)) { return has_word(option, "None"); }
    if (strcmp(type, "flag") == 0) { return json_is_true(value); }
    if (strcmp(type, "bool") == 0) { return json_is_boolean(value); }
    if (strcmp(type, "int") == 0) { return json_is_integer(value); }
    if (strcmp(type, "float") == 0) { return json_is_number(value); }
    if (strcmp(type, "text") == 0) { return text != NULL; }
    if (strcmp(type, "list") == 0) { return json_is_array(value); }
    if (strcmp(type, "texts") == 0 && json_is_array(value)) {
        const json_t *each = NULL;
        size_t i = 0;
        json_array_foreach(value, i, each)
        {
            if (!json_is_string(each) || !has_word(option, json_string_value(each))) { return false; }
        }
        return json_array_size(value) > 0;
    }
    if (strcmp(type, "word") == 0 || strcmp(type, "texts") == 0) { return text != NULL && has_word(option, text); }
    if (strcmp(type, "dtype") == 0) { return begins(text, "torch."); }
    if (strcmp(type, "attention") == 0) { return begins(text, "AttnBackend."); }
    return false;
}

static void check_option(struct options *options, const char *plan, const char *name, const json_t *value)
{
    for (size_t i = 0; i < options->count; i++) {
        struct option *option = &options->all[i];
        if (strcmp(option->name, name) != 0) { continue; }
        option->used = true;
        if (!is_legal(option, value)) {
            char *text = json_dumps(value, JSON_ENCODE_ANY);
            fail_msg("%s: %s = %s is no %s%s", plan, name, text, option->type, option->words);
        }
        return;
    }
    fail_msg("%s: the framework has no option %s", plan, name);
}

/* Options are members of the configuration, or of its sections. */
static void check_config(struct options *options, const char *plan, const json_t *config)
{
    const char *section = NULL;
    const char *key = NULL;
    json_t *keys = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)config, section, keys)
    {
        if (!json_is_object(keys)) { check_option(options, plan, section, keys); }
        json_object_foreach(keys, key, value)
        {
            char name[2 * NAME];
            (void)snprintf(name, sizeof name, "%s.%s", section, key);
            check_option(options, plan, name, value);
        }
    }
}

/* validate_args() of Megatron Core 0.20: one way to say the chunks, and what needs what. */
static void check_rules(const char *plan, const json_t *config)
{
    const json_t *chunks = json_object_get(config, "num-virtual-stages-per-pipeline-rank");
    const json_t *layout = json_object_get(config, "pipeline-model-parallel-layout");
    const json_t *group = json_object_get(config, "microbatch-group-size-per-virtual-pipeline-stage");
    const json_int_t pp = json_integer_value(json_object_get(config, "pipeline-model-parallel-size"));
    const json_int_t cp = json_integer_value(json_object_get(config, "context-parallel-size"));
    const json_int_t layers = json_integer_value(json_object_get(config, "num-layers"));
    const bool counted = json_object_get(config, "account-for-loss-in-pipeline-split") != NULL;
    if (chunks != NULL && layout != NULL) { fail_msg("%s: chunks and a layout", plan); }
    if (chunks != NULL && group == NULL) { fail_msg("%s: chunks without a group of micro-batches", plan); }
    if (group != NULL && chunks == NULL && layout == NULL) { fail_msg("%s: a group without chunks", plan); }
    if (group != NULL && json_integer_value(group) < pp) { fail_msg("%s: groups below pp", plan); }
    if (layout == NULL && (layers + (counted ? 2 : 0)) % pp != 0) { fail_msg("%s: layers do not divide", plan); }
    if ((cp > 1) != (json_object_get(config, "cp-comm-type") != NULL)) { fail_msg("%s: type of cp", plan); }
}

static bool is_set(const json_t *config, const char *option)
{
    return json_object_get(config, option) != NULL;
}

static json_int_t whole(const json_t *config, const char *option)
{
    return json_integer_value(json_object_get(config, option));
}

static bool recomputes(const json_t *config, const char *module)
{
    const json_t *const modules = json_object_get(config, "recompute-modules");
    const json_t *each = NULL;
    size_t i = 0;
    json_array_foreach(modules, i, each)
    {
        if (strcmp(json_string_value(each), module) == 0) { return true; }
    }
    return false;
}

/* Asserts what validate_args() and the configuration classes of Megatron Core 0.20 demand of experts (arguments.py,
 * transformer_config.py, token_dispatcher.py), a row each. */
static void check_experts(const char *plan, const json_t *config, uint32_t gpus)
{
    const json_int_t experts = whole(config, "num-experts"), ep = whole(config, "expert-model-parallel-size");
    const json_int_t etp = whole(config, "expert-tensor-parallel-size"),
                     tp = whole(config, "tensor-model-parallel-size");
    const json_int_t pp = whole(config, "pipeline-model-parallel-size");
    const char *const type = json_string_value(json_object_get(config, "moe-token-dispatcher-type"));
    const bool overlap = is_set(config, "overlap-moe-expert-parallel-comm");
    const bool full = is_set(config, "recompute-method");
    const struct {
        bool holds;
        const char *what;
    } rows[] = {
        {experts > 0 && ep > 0 && experts % ep == 0, "experts divide over ep"},
        {etp > 0 && gpus % (uint32_t)(etp * ep * pp) == 0, "etp x ep x pp divides the ranks"},
        {tp == 1 || ep == 1 || is_set(config, "sequence-parallel"), "ep beside tp needs sequence parallelism"},
        {whole(config, "moe-router-topk") <= experts && whole(config, "moe-router-topk") > 0, "top-k of the experts"},
        {whole(config, "moe-ffn-hidden-size") > 0, "a width of experts"},
        {type != NULL && (strcmp(type, "flex") != 0 || tp * ep > 1), "flex needs tp x ep above 1"},
        {type != NULL && (strcmp(type, "flex") == 0) == is_set(config, "moe-flex-dispatcher-backend"),
         "flex, back-end"},
        {!is_set(config, "moe-flex-dispatcher-backend") || is_set(config, "moe-router-dtype"), "probabilities of fp32"},
        {!overlap || ep > 1, "overlap needs ep above 1"},
        {!overlap || pp == 1 || is_set(config, "num-virtual-stages-per-pipeline-rank") ||
             is_set(config, "microbatch-group-size-per-virtual-pipeline-stage"),
         "overlap needs model chunks"},
        {!overlap || (!full && !recomputes(config, "moe")), "overlap excludes full recomputation, and that of experts"},
        {!overlap || is_set(config, "bf16") || is_set(config, "fp16"), "overlap in 16 bits"},
        {!recomputes(config, "moe_act") || is_set(config, "moe-grouped-gemm"), "moe_act needs grouped products"},
        {!recomputes(config, "mla_up_proj") || is_set(config, "multi-latent-attention"), "mla_up_proj needs MLA"},
        {!is_set(config, "moe-router-enable-expert-bias") || is_set(config, "moe-router-score-function"),
         "expert bias needs sigmoid"},
        {!is_set(config, "moe-router-num-groups") || experts % whole(config, "moe-router-num-groups") == 0,
         "experts divide into groups"},
        {whole(config, "moe-router-group-topk") <= whole(config, "moe-router-num-groups"), "top-k of the groups"},
        {!is_set(config, "moe-pad-expert-input-to-capacity") || is_set(config, "moe-expert-capacity-factor"),
         "padding needs a capacity"},
        {whole(config, "mtp-num-layers") <= 1 || !overlap, "overlap with one module of prediction at most"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!rows[i].holds) { fail_msg("%s: %s", plan, rows[i].what); }
    }
}

struct point {
    const char *model, *cluster, *engine;
    uint32_t tp, pp, cp, chunks;
    uint32_t ep, etp; /* mixtures have them */
    redco_dispatcher dispatcher;
    bool ep_overlap;
    redco_recompute recompute;
    redco_precision precision;
    redco_strategy strategy;
};

static void check_point(struct options *options, const struct point *at)
{
    char name[160];
    struct planned p;
    redco_search_options o = defaults();
    const redco_input_names names = {.model = at->model, .cluster = at->cluster};
    (void)snprintf(name, sizeof name,
                   "%s tp=%u pp=%u cp=%u chunks=%u ep=%u etp=%u recompute=%d precision=%d strategy=%d", at->model,
                   at->tp, at->pp, at->cp, at->chunks, at->ep, at->etp, (int)at->recompute, (int)at->precision,
                   (int)at->strategy);
    o.workload.seq_len = 1024;
    o.workload.global_batch = 48;
    o.workload.precision = at->precision;
    o.workload.engine.shard_over_cp = true;
    o.stated |= REDCO_STATES(REDCO_OF_SCHEME);
    o.given.scheme = REDCO_INTRA_TENSOR;
    o.strategy = at->strategy;
    o.given.tp = at->tp;
    o.given.pp = at->pp;
    o.given.cp = at->cp;
    o.given.chunks = at->chunks;
    o.sequence_parallel = at->tp > 1 ? REDCO_ON : REDCO_OFF;
    o.tp_placement = at->ep > 0 ? REDCO_TP_PAIRED : o.tp_placement;
    o.given.ep = at->ep;
    o.given.etp = at->etp;
    o.workload.engine.dispatcher = at->dispatcher;
    o.workload.engine.ep_overlap = at->ep_overlap;
    o.recompute = at->recompute;
    plan_open(&names, 48, &o, &p);
    p.reopened.workload.engine.async_tp = at->tp > 1;
    for (int f = 0; f < FRAMEWORKS; f++) {
        redco_export *made = NULL;
        redco_error err = {0};
        const redco_status st = redco_export_create(p.plan, &p.reopened, frameworks[f].framework, &made, &err);
        const bool titan = frameworks[f].framework == REDCO_FRAMEWORK_TORCHTITAN;
        const bool refuses = titan && at->precision == REDCO_FP16, mixture = at->ep > 0;
        if (st != (titan && mixture ? REDCO_EVALUE : refuses ? REDCO_EINFEASIBLE : REDCO_OK)) {
            fail_msg("%s: %s", name, err.text);
        }
        if (made == NULL) { continue; }
        const json_t *config = json_object_get(made->report, "config");
        check_config(&options[f], name, config);
        if (frameworks[f].framework == REDCO_FRAMEWORK_MEGATRON) { check_rules(name, config); }
        if (frameworks[f].framework == REDCO_FRAMEWORK_MEGATRON && mixture) {
            check_experts(name, config, 48);
            assert_int_equal(whole(config, "expert-model-parallel-size"), at->ep);
            assert_int_equal(whole(config, "expert-tensor-parallel-size"), at->etp);
        }
        redco_export_free(made);
    }
    plan_close(&p);
}

/* Degrees of 48 GPUs, 8 a node, by all policies. */
static void degrees_are_options(void **state)
{
    static const uint32_t stages[] = {1, 2, 3};
    struct options *options = *state;
    for (uint32_t tp = 1; tp <= 4; tp *= 2) {
        for (size_t s = 0; s < 3; s++) {
            for (uint32_t cp = 1; cp <= 2; cp++) {
                for (uint32_t chunks = 1; chunks <= (stages[s] > 1 ? 2U : 1U); chunks++) {
                    for (int r = 0; r < RECOMPUTED; r++) {
                        const struct point at = {.model = "gpt2",
                                                 .tp = tp,
                                                 .pp = stages[s],
                                                 .cp = cp,
                                                 .chunks = chunks,
                                                 .recompute = recomputed[r],
                                                 .precision = REDCO_BF16};
                        check_point(options, &at);
                    }
                }
            }
        }
    }
}

/* Strategies, formats and families; layers that stages do not divide. */
static void others_are_options(void **state)
{
    static const char *const models[] = {"llama-7b", "qwen3-8b", "gpt-neox-20b", "bloom-7b1"};
    struct options *options = *state;
    for (int s = REDCO_STRATEGY_ANY; s < REDCO_STRATEGY_COUNT; s++) {
        const struct point at = {.model = "gpt2",
                                 .tp = 1,
                                 .pp = 1,
                                 .cp = 1,
                                 .chunks = 1,
                                 .recompute = REDCO_RECOMPUTE_NONE,
                                 .precision = s % 2 == 0 ? REDCO_FP16 : REDCO_FP32,
                                 .strategy = (redco_strategy)s};
        check_point(options, &at);
    }
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        const struct point at = {.model = models[m],
                                 .cluster = "dgx-h100",
                                 .tp = 4,
                                 .pp = 3,
                                 .cp = 1,
                                 .chunks = 1,
                                 .recompute = REDCO_RECOMPUTE_FREE,
                                 .precision = REDCO_BF16};
        check_point(options, &at);
    }
}

/* Experts over ranks, dispatchers and recomputation of experts' modules; 48 GPUs. */
static void mixtures_are_options(void **state)
{
    static const char *const models[] = {"deepseek-v2-lite", "granite-3.0-1b-a400m", "olmoe-1b-7b",
                                         "granite-3.0-3b-a800m"};
    static const redco_recompute sets[] = {REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_MOE_ACT, REDCO_RECOMPUTE_MOE,
                                           REDCO_RECOMPUTE_FULL};
    struct options *options = *state;
    for (uint32_t i = 0; i < 48; i++) {
        const uint32_t tp = 1U << i % 2, pp = 1 + i / 2 % 2, ep = 2U << i / 4 % 3;
        const struct point at = {.model = models[i / 3 % 4],
                                 .cluster = "dgx-h100",
                                 .tp = tp,
                                 .pp = pp,
                                 .cp = 1,
                                 .chunks = pp > 1 && i / 3 % 4 > 0 ? 1 + i / 8 % 2 : 1,
                                 .ep = ep,
                                 .etp = i % 5 == 0 && ep < 8 ? tp : 1,
                                 .dispatcher = (redco_dispatcher)(i / 5 % 4),
                                 .ep_overlap = i % 3 == 0,
                                 .recompute = sets[i / 7 % 4],
                                 .strategy = REDCO_STRATEGY_ZERO1,
                                 .precision = REDCO_BF16};
        check_point(options, &at);
    }
}

static const char *text_at(const redco_export *made, const char *path)
{
    const char *text = json_string_value(at(made->report, path));
    return text != NULL ? text : "";
}

static bool differs(const redco_export *made, const char *what)
{
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach(json_object_get(made->report, "differences"), i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "what")), what) == 0) { return true; }
    }
    return false;
}

/* Schedules, groups of micro-batches and stages of unequal layers, as each framework says or drops them; wanted values
 * are written down from its documents. 16 GPUs in 2 stages: 8 data-parallel ranks, 6 micro-batches each. */
static void pipelines_are_exported(void **state)
{
    static const uint32_t unequal[] = {5, 7}, quarters[] = {2, 4, 3, 3};
    static const struct {
        redco_pipeline_kind schedule;
        uint32_t chunks, group;
        const uint32_t *split;
        const char *layout, *group_text, *torch; /* Megatron's; PyTorch's schedule, NULL: 1F1B of one chunk instead */
    } rows[] = {
        {REDCO_PIPELINE_1F1B, 1, 0, unequal, "Et*5|t*7L", "", "1F1B"},
        {REDCO_PIPELINE_INTERLEAVED, 2, 3, NULL, "", "3", NULL}, /* PyTorch's rounds are of 2 micro-batches */
        {REDCO_PIPELINE_INTERLEAVED, 2, 2, quarters, "Et*2|t*4|t*3|t*3L", "2", "Interleaved1F1B"},
        {REDCO_PIPELINE_GPIPE, 1, 0, NULL, NULL, "", "GPipe"}, /* Megatron-LM has it not */
        {REDCO_PIPELINE_DUALPIPE_V, 2, 0, NULL, NULL, "", "DualPipeV"},
    };
    struct planned p;
    redco_search_options o = defaults();
    const redco_input_names names = {.model = "gpt2"};
    (void)state;
    o.workload.seq_len = 1024;
    o.workload.global_batch = 48;
    o.strategy = REDCO_STRATEGY_ZERO1;
    o.stated |= REDCO_STATES(REDCO_OF_SCHEME);
    o.given.scheme = REDCO_INTRA_TENSOR;
    o.given.tp = o.given.cp = o.given.chunks = 1;
    o.given.pp = 2;
    o.recompute = REDCO_RECOMPUTE_NONE;
    plan_open(&names, 16, &o, &p);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char group[16] = "";
        p.reopened.parallelism.schedule = rows[i].schedule;
        p.reopened.parallelism.chunks = rows[i].chunks;
        p.reopened.parallelism.group = rows[i].group;
        p.reopened.parallelism.split = rows[i].split;
        redco_export *megatron = export(&p, REDCO_FRAMEWORK_MEGATRON);
        redco_export *titan = export(&p, REDCO_FRAMEWORK_TORCHTITAN);
        redco_export *internevo = export(&p, REDCO_FRAMEWORK_INTERNEVO);
        const json_t *micro = at(megatron->report, "config/microbatch-group-size-per-virtual-pipeline-stage");
        if (micro != NULL) { (void)snprintf(group, sizeof group, "%d", (int)json_integer_value(micro)); }
        assert_string_equal(group, rows[i].group_text);
        assert_int_equal(differs(megatron, "schedule"), rows[i].layout == NULL);
        assert_string_equal(text_at(megatron, "config/pipeline-model-parallel-layout"),
                            rows[i].layout != NULL ? rows[i].layout : "");
        check_rules("pipelines", json_object_get(megatron->report, "config"));
        assert_string_equal(text_at(titan, "config/parallelism/pipeline_parallel_schedule"),
                            rows[i].torch != NULL ? rows[i].torch : "1F1B");
        assert_int_equal(differs(titan, "model chunks"), rows[i].torch == NULL);
        assert_int_equal(json_is_array(at(titan->report, "config/parallelism/module_fqns_per_model_part")),
                         rows[i].split != NULL);
        /* InternEvo has neither: 1F1B of equal stages */
        assert_int_equal(differs(internevo, "layers of stages"), rows[i].split != NULL);
        assert_false(internevo->layout_exact);
        redco_export_free(megatron);
        redco_export_free(titan);
        redco_export_free(internevo);
    }
    plan_close(&p);
}

/* Megatron has no meshes for experts alone: optimizer states over 2 of their 8 replicas are named, and priced as all.
 */
static void meshes_of_experts_are_named(void **state)
{
    const redco_input_names names = {.model = "olmoe-1b-7b", .cluster = "dgx-h100"};
    redco_search_options o = defaults();
    struct planned p;
    (void)state;
    o.tp_placement = REDCO_TP_PAIRED;
    o.workload.global_batch = 64;
    o.stated |= REDCO_STATES(REDCO_OF_SCHEME);
    o.given.scheme = REDCO_INTRA_TENSOR;
    o.given.tp = o.given.cp = o.given.pp = o.given.chunks = o.given.etp = 1;
    o.given.ep = 8;
    o.given.experts.optimizer = (redco_mesh){1, 2};
    o.fix = (redco_shards){{1, 1}, {1, 1}, {8, 8}};
    plan_open(&names, 64, &o, &p);
    redco_export *const made = export(&p, REDCO_FRAMEWORK_MEGATRON);
    assert_true(differs(made, "experts' optimizer"));
    const uint64_t planned = p.plan->predicted.optimizer_bytes;
    const json_t *const bytes = at(made->report, "exported/predicted/memory_bytes/optimizer");
    if (bytes != NULL) { assert_true((uint64_t)json_integer_value(bytes) < planned); }
    redco_export_free(made);
    plan_close(&p);
}

/* The grid reaches the options that say a layout. */
static void grid_is_wide(void **state)
{
    static const char *const wanted[] = {"cp-comm-type",
                                         "sequence-parallel",
                                         "num-virtual-stages-per-pipeline-rank",
                                         "microbatch-group-size-per-virtual-pipeline-stage",
                                         "pipeline-model-parallel-layout",
                                         "recompute-num-layers",
                                         "recompute-modules",
                                         "use-distributed-optimizer",
                                         "num-distributed-optimizer-instances",
                                         "use-megatron-fsdp",
                                         "overlap-param-gather",
                                         "tp-comm-overlap",
                                         "expert-model-parallel-size",
                                         "expert-tensor-parallel-size",
                                         "moe-flex-dispatcher-backend",
                                         "overlap-moe-expert-parallel-comm",
                                         "moe-layer-freq",
                                         "multi-latent-attention"};
    const struct options *megatron = *state;
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        bool used = false;
        for (size_t i = 0; i < megatron->count; i++) {
            used = used || (strcmp(megatron->all[i].name, wanted[w]) == 0 && megatron->all[i].used);
        }
        if (!used) { fail_msg("no plan of the grid is exported with --%s", wanted[w]); }
    }
}

static int set_up(void **state)
{
    struct options *options = calloc(FRAMEWORKS, sizeof *options);
    if (options == NULL) { return -1; }
    for (int f = 0; f < FRAMEWORKS; f++) { read_options(frameworks[f].file, &options[f]); }
    *state = options;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(degrees_are_options),  cmocka_unit_test(others_are_options),
        cmocka_unit_test(mixtures_are_options), cmocka_unit_test(meshes_of_experts_are_named),
        cmocka_unit_test(grid_is_wide),         cmocka_unit_test(pipelines_are_exported)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
