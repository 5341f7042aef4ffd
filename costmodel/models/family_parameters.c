/* Sizes and tensors of the model families. */
#include "costmodel/graph/names.h"
#include "costmodel/models/layer_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t most[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = REDCOI_MAX_ROWS,     [REDCOI_SIZE_HIDDEN] = REDCOI_MAX_WIDTH,
    [REDCOI_SIZE_FFN] = REDCOI_MAX_FFN,        [REDCOI_SIZE_ENCODER_LAYERS] = REDCOI_MAX_LAYERS,
    [REDCOI_SIZE_LAYERS] = REDCOI_MAX_LAYERS,  [REDCOI_SIZE_HEADS] = REDCOI_MAX_HEADS,
    [REDCOI_SIZE_KV_HEADS] = REDCOI_MAX_HEADS, [REDCOI_SIZE_HEAD_DIM] = REDCOI_MAX_WIDTH,
    [REDCOI_SIZE_POSITIONS] = REDCOI_MAX_ROWS};

/* @param derived  from other sizes, where the family has no default */
static uint32_t read_size(redcoi_build *build, redcoi_size size, uint32_t derived)
{
    const redcoi_family *const family = build->model->family;
    const redcoi_key *const k = &family->keys[size];
    const uint32_t fallback = family->defaults[size];
    if (k->key == NULL) { return derived; }
    if (fallback == 0) { return redcoi_config_derived(build, k->key, k->alias, derived, most[size]); }
    if (fallback == REDCOI_SIZE_REQUIRED && !redco_json_has(&build->config, k->key)) {
        redcoi_build_fail(build, k->key, "is missing; a model of type \"%s\" is known by its dimensions alone",
                          family->type);
    }
    return redcoi_config_u32(build, k->key, k->alias, fallback == REDCOI_SIZE_REQUIRED ? 1 : fallback, most[size]);
}

static void read_sizes(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    const redcoi_key *const keys = build->model->family->keys;
    const char *const heads_key = keys[REDCOI_SIZE_HEADS].key, *const dim_key = keys[REDCOI_SIZE_HEAD_DIM].key;
    dims->vocab = read_size(build, REDCOI_SIZE_VOCAB, 0);
    dims->hidden = dims->table_width = read_size(build, REDCOI_SIZE_HIDDEN, 0);
    dims->ffn = read_size(build, REDCOI_SIZE_FFN, 4 * dims->hidden);
    dims->encoder_layers = read_size(build, REDCOI_SIZE_ENCODER_LAYERS, 0);
    dims->layers = read_size(build, REDCOI_SIZE_LAYERS, dims->encoder_layers);
    dims->heads = read_size(build, REDCOI_SIZE_HEADS, 1);
    dims->kv_heads = read_size(build, REDCOI_SIZE_KV_HEADS, dims->heads);
    redcoi_config_divides(build, keys[REDCOI_SIZE_KV_HEADS].key, dims->kv_heads, heads_key, dims->heads);
    const bool has_dim = build->model->family->defaults[REDCOI_SIZE_HEAD_DIM] > 0 ||
                         (dim_key != NULL && redco_json_has(&build->config, dim_key));
    if (!has_dim) { redcoi_config_divides(build, heads_key, dims->heads, keys[REDCOI_SIZE_HIDDEN].key, dims->hidden); }
    dims->head_dim = read_size(build, REDCOI_SIZE_HEAD_DIM, dims->hidden / dims->heads);
    dims->max_positions = read_size(build, REDCOI_SIZE_POSITIONS, 0);
}

static void read_switches(redcoi_build *build)
{
    const redcoi_family *const family = build->model->family;
    redco_model_dims *const dims = &build->model->dims;
    const double dropout = dims->dropout ? 0.1 : 0.0;
    if (family->dropout_key != NULL) { dims->dropout = redcoi_config_dropout(build, family->dropout_key, dropout); }
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", dims->tied);
    build->biases = family->biases;
    for (size_t i = 0; i < sizeof family->bias_keys / sizeof family->bias_keys[0]; i++) {
        const redcoi_bias_key *const bias = &family->bias_keys[i];
        if (bias->key == NULL) { continue; }
        build->biases &= ~bias->uses;
        if (redcoi_config_bool(build, bias->key, bias->fallback)) { build->biases |= bias->uses; }
    }
}

static void out_of_memory(redcoi_build *build)
{
    build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory");
}

void redcoi_class(redcoi_build *build, const char *name, redco_class_kind kind, uint32_t layers)
{
    redco_model *model = build->model;
    if (!redcoi_building(build)) { return; }
    redco_layer_class *const classes = realloc(model->classes, (model->class_count + 1) * sizeof *classes);
    if (classes == NULL) {
        out_of_memory(build);
        return;
    }
    redco_layer_class *const class = &classes[model->class_count++];
    model->classes = classes;
    *class = (redco_layer_class){.kind = kind, .layers = layers};
    (void)snprintf(class->name, sizeof class->name, "%s", name);
}

/* Adds layers of a class behind those that are in order. */
static void add_run(redcoi_build *build, uint32_t class_index, uint32_t first, uint32_t layers, uint32_t index)
{
    redco_model *const model = build->model;
    if (!redcoi_building(build)) { return; }
    redco_layer_run *const last = model->run_count > 0 ? &model->runs[model->run_count - 1] : NULL;
    if (last != NULL && last->class_index == class_index) {
        last->layers += layers;
        return;
    }
    redco_layer_run *const runs = realloc(model->runs, (model->run_count + 1) * sizeof *runs);
    if (runs == NULL) {
        out_of_memory(build);
        return;
    }
    model->runs = runs;
    runs[model->run_count++] = (redco_layer_run){class_index, first, layers, index};
}

void redcoi_order_alone(redcoi_build *build)
{
    add_run(build, 0, 0, 1, 0);
}

static bool grow(redco_model *model)
{
    if (model->param_count < model->param_capacity) { return true; }
    const size_t capacity = model->param_capacity == 0 ? 32 : 2 * model->param_capacity;
    redco_param *larger = realloc(model->params, capacity * sizeof *larger);
    if (larger == NULL) { return false; }
    model->params = larger;
    model->param_capacity = capacity;
    return true;
}

/* The part of a tensor that a token meets. A further copy of the table is looked up, and no more. */
static uint64_t active_of(const redco_model *model, const redco_param *param, uint64_t elements)
{
    if (param->use == REDCO_USE_MTP_TABLE) { return 0; }
    return param->part == REDCO_PART_EXPERTS ? elements / model->dims.experts * model->dims.choices : elements;
}

/* @param name  copied */
static void add_param(redcoi_build *build, const char *name, const redco_param *param, uint64_t elements)
{
    redco_model *const model = build->model;
    redco_layer_class *const class = &model->classes[model->class_count - 1];
    char *const copy = strdup(name);
    if (copy == NULL || !grow(model)) {
        free(copy);
        out_of_memory(build);
        return;
    }
    redco_param *const added = &model->params[model->param_count++];
    *added = *param;
    added->name = copy;
    added->class_index = (uint32_t)(model->class_count - 1);
    added->count = class->layers;
    /* Limits keep a family's class below 40 tensors of 2^58 elements, a pipeline's below 2^17 of 2^40: no overflow. */
    class->params += elements;
    class->active_params += active_of(model, param, elements);
    if (param->frozen) { class->frozen_params += elements; }
    class->tensors++;
    added->joined = param->joined || param->role == REDCO_PARAM_BIAS;
    if (added->gradient_in == 0) { added->gradient_in = REDCO_IN_BACKWARD; }
    if (!added->joined) { class->modules++; }
    if (elements > class->largest_tensor_params) { class->largest_tensor_params = elements; }
}

void redcoi_tensor(redcoi_build *build, const char *name, uint32_t rank, const uint64_t *shape, redcoi_tensor_kind kind)
{
    const redco_model *const model = build->model;
    uint64_t elements = 1;
    if (!redcoi_building(build)) { return; }
    const size_t last = model->param_count - 1;
    const bool more = model->param_count > 0 && model->params[last].assigned == kind.assigned &&
                      redco_same_module(model->params[last].name, name);
    const redco_param_role vector = more ? REDCO_PARAM_BIAS : REDCO_PARAM_RMS_NORM;
    const redco_param_role matrix = kind.table ? REDCO_PARAM_TABLE : REDCO_PARAM_KERNEL;
    redco_param param = {.role = rank < 2 ? vector : matrix,
                         .use = REDCO_USE_UP,
                         .rank = rank,
                         .joined = more,
                         .frozen = kind.frozen,
                         .assigned = kind.assigned,
                         .gradient_in = kind.gradient_in};
    for (uint32_t i = 0; i < rank; i++) {
        param.shape[i] = shape[i];
        elements *= shape[i];
    }
    add_param(build, name, &param, elements);
}

static redco_param_role role_of(const redco_model *model, redco_param_use use)
{
    const redco_param_role kind = redcoi_use_kind(use);
    if (kind == REDCO_PARAM_LINEAR && model->family->conv1d && use != REDCO_USE_HEAD) { return REDCO_PARAM_CONV1D; }
    return kind == REDCO_PARAM_LAYER_NORM && model->dims.norm == REDCO_NORM_RMS ? REDCO_PARAM_RMS_NORM : kind;
}

/* The tensor's name: "model.layers.{}.mlp.up_proj.weight", or as the module spells it. */
static void write_name(char name[REDCOI_MODEL_NAME_SIZE], const char *prefix, const redcoi_module *module, bool bias)
{
    static const char *const ends[2][2] = {{".weight", ".bias"}, {"", "_bias"}};
    (void)snprintf(name, REDCOI_MODEL_NAME_SIZE, "%s%s%s", prefix, module->name,
                   ends[module->when < REDCOI_TENSOR ? 0 : 1][bias ? 1 : 0]);
}

/* A weight, or what has the length of its outputs. */
static void add_tensor(redcoi_build *build, const char *prefix, const redcoi_module *module, redco_param_role role,
                       const uint64_t sizes[REDCO_AXIS_COUNT])
{
    char name[REDCOI_MODEL_NAME_SIZE];
    const bool bias = role == REDCO_PARAM_BIAS;
    redco_param param = {.role = role,
                         .use = module->use,
                         .part = redcoi_use_part(module->use),
                         .frozen = build->model->dims.adapter_rank > 0};
    redco_extent extents[REDCO_PARAM_EXTENTS];
    uint64_t elements = 1;
    if (!redcoi_building(build)) { return; }
    write_name(name, prefix, module, bias);
    redco_param_extents(&param, extents);
    param.rank = param.part == REDCO_PART_EXPERTS ? 3 : 2;
    if (bias || redcoi_use_kind(module->use) == REDCO_PARAM_LAYER_NORM) { param.rank--; }
    const bool cut = redco_extent_split(&extents[param.rank - 1]) != REDCO_AXIS_COUNT;
    if (redcoi_use_is_whole(module->use) || (param.rank > 1 && bias && !cut)) { param.odd_degrees = ~UINT32_C(1); }
    for (uint32_t i = 0; i < param.rank; i++) {
        param.shape[i] = redco_extent_count(&extents[i], sizes);
        elements *= param.shape[i];
    }
    add_param(build, name, &param, elements);
}

/* Names are those of PEFT (src/peft/tuners/lora/layer.py@5d602fdb: lora_A, lora_B). Tensor parallelism cuts what it
 * cuts of the frozen matrix: B of one cut by columns, A of one cut by rows. */
static void add_adapter(redcoi_build *build, const char *prefix, const redcoi_module *module,
                        const uint64_t sizes[REDCO_AXIS_COUNT])
{
    static const char *const ends[] = {[REDCO_ADAPTER_DOWN] = ".lora_A.weight", [REDCO_ADAPTER_UP] = ".lora_B.weight"};
    for (redco_adapter half = REDCO_ADAPTER_DOWN; half <= REDCO_ADAPTER_UP; half++) {
        char name[REDCOI_MODEL_NAME_SIZE];
        redco_param param = {.role = REDCO_PARAM_LINEAR, .use = module->use, .rank = 2, .adapter = half};
        redco_extent extents[REDCO_PARAM_EXTENTS];
        if (!redcoi_building(build)) { return; }
        redco_param_extents(&param, extents);
        if (redco_extent_split(&extents[half == REDCO_ADAPTER_UP ? 0 : 1]) == REDCO_AXIS_COUNT) {
            param.odd_degrees = ~UINT32_C(1);
        }
        for (uint32_t i = 0; i < param.rank; i++) { param.shape[i] = redco_extent_count(&extents[i], sizes); }
        (void)snprintf(name, sizeof name, "%s%s%s", prefix, module->name, ends[half]);
        add_param(build, name, &param, param.shape[0] * param.shape[1]);
    }
}

/* Layers of a class differ in these. */
struct variant {
    bool windowed, experts, unrotated;
};

static bool has_weight(const redcoi_build *build, const redcoi_module *module, struct variant variant)
{
    const redco_model_dims *const dims = &build->model->dims;
    switch (module->use) {
    case REDCO_USE_POSITIONS: return dims->max_positions > 0;
    case REDCO_USE_PROJECT_IN:
    case REDCO_USE_PROJECT_OUT: return dims->table_width != dims->hidden;
    case REDCO_USE_QUERIES_NORM:
    case REDCO_USE_KEYS_NORM:
        if (build->no_queries_norms) { return false; }
        break;
    case REDCO_USE_QUERY_NORM:
    case REDCO_USE_KEY_NORM: return dims->head_norms;
    case REDCO_USE_QUERY: return dims->query_latent == 0;
    case REDCO_USE_KEY:
    case REDCO_USE_VALUE:
    case REDCO_USE_OUTPUT: return dims->key_latent == 0;
    case REDCO_USE_KV_DOWN:
    case REDCO_USE_KV_LATENT_NORM:
    case REDCO_USE_KV_UP:
    case REDCO_USE_LATENT_OUTPUT: return dims->key_latent > 0;
    case REDCO_USE_QUERY_DOWN:
    case REDCO_USE_QUERY_LATENT_NORM:
    case REDCO_USE_QUERY_UP: return dims->query_latent > 0;
    case REDCO_USE_FFN_NORM:
        if (build->one_norm) { return false; }
        break;
    case REDCO_USE_GATE: return dims->gated && !variant.experts;
    case REDCO_USE_FINAL_NORM: return !dims->no_final_norm && !build->plain_norms;
    case REDCO_USE_HEAD: return !dims->tied;
    case REDCO_USE_UP:
    case REDCO_USE_GATE_UP:
    case REDCO_USE_DOWN:
        if (variant.experts) { return false; }
        break;
    case REDCO_USE_ROUTER:
    case REDCO_USE_EXPERT_GATE:
    case REDCO_USE_EXPERT_UP:
    case REDCO_USE_EXPERT_GATE_UP:
    case REDCO_USE_EXPERT_DOWN: return variant.experts;
    case REDCO_USE_SHARED_GATE:
    case REDCO_USE_SHARED_UP:
    case REDCO_USE_SHARED_DOWN:
    case REDCO_USE_SHARED_SCALE: return variant.experts && dims->shared_ffn > 0;
    default: break;
    }
    if (module->when == REDCOI_GATED || module->when == REDCOI_UNGATED) {
        return (module->when == REDCOI_GATED) == dims->gated;
    }
    if (module->when == REDCOI_TWO_NORMS || module->when == REDCOI_OTHER_NORMS) {
        return (module->when == REDCOI_TWO_NORMS) == (dims->parallel_block && !build->one_norm);
    }
    return !build->plain_norms || redcoi_use_kind(module->use) != REDCO_PARAM_LAYER_NORM;
}

/* A bias stays where its weight is the table. */
static void add_module(redcoi_build *build, const char *prefix, const redcoi_module *module, struct variant variant,
                       const uint64_t sizes[REDCO_AXIS_COUNT])
{
    const bool turned = module->when == REDCOI_TURNED;
    const redco_param_role role = turned ? REDCO_PARAM_CONV1D : role_of(build->model, module->use);
    const bool weight = has_weight(build, module, variant), tied = module->use == REDCO_USE_HEAD && !weight;
    const bool bias = (build->biases >> module->use & 1) != 0 && role != REDCO_PARAM_TABLE;
    if (weight) { add_tensor(build, prefix, module, role, sizes); }
    if (bias && (weight || tied)) { add_tensor(build, prefix, module, REDCO_PARAM_BIAS, sizes); }
    if (weight && (build->adapted >> module->use & 1) != 0) { add_adapter(build, prefix, module, sizes); }
}

/* A class of a kind, with its tensors. @return its index */
static uint32_t add_class(redcoi_build *build, const char *name, redco_class_kind kind, struct variant variant,
                          uint32_t layers, const uint64_t sizes[REDCO_AXIS_COUNT])
{
    const redcoi_layer_modules *const layer = &build->model->family->layers[kind];
    redcoi_class(build, name, kind, layers);
    for (const redcoi_module *m = layer->modules; m->name != NULL; m++) {
        add_module(build, layer->prefix, m, variant, sizes);
    }
    return (uint32_t)build->model->class_count - 1;
}

static struct variant variant_of(const redcoi_build *build, uint32_t layer)
{
    const bool mixture = build->model->dims.experts > 0;
    return (struct variant){.windowed = build->window > 0 && (build->windowed == NULL || build->windowed[layer]),
                            .experts = mixture && (build->dense == NULL || !build->dense[layer]),
                            .unrotated = build->unrotated != NULL && build->unrotated[layer]};
}

enum { VARIANTS = 8 };

static uint32_t number_of(struct variant v)
{
    return (v.windowed ? 1U : 0U) + (v.unrotated ? 2U : 0U) + (v.experts ? 4U : 0U);
}

/* By the traits in which the model's layers differ: "window-moe"; "block" where they are all alike. */
static void name_variant(const uint32_t count[VARIANTS], uint32_t v, char name[sizeof((redco_layer_class *)0)->name])
{
    static const char *const words[3][2] = {{"full", "window"}, {"rotary", "unrotated"}, {"dense", "moe"}};
    const size_t size = sizeof((redco_layer_class *)0)->name;
    size_t used = 0;
    name[0] = '\0';
    for (uint32_t trait = 0; trait < 3; trait++) {
        bool seen[2] = {false, false};
        for (uint32_t i = 0; i < VARIANTS; i++) { seen[i >> trait & 1] |= count[i] > 0; }
        if (!seen[0] || !seen[1]) { continue; }
        (void)snprintf(name + used, size - used, "%s%s", used > 0 ? "-" : "", words[trait][v >> trait & 1]);
        used = strlen(name);
    }
    if (used == 0) { (void)snprintf(name, size, "block"); }
}

/* Layers that see all keys and layers that do not, layers with an FFN and layers with experts, in whatever order. */
static void add_variants(redcoi_build *build, const uint64_t sizes[REDCO_AXIS_COUNT])
{
    redco_model *const model = build->model;
    const uint32_t all = model->dims.layers;
    uint32_t added[VARIANTS] = {0}, count[VARIANTS] = {0}, class_index[VARIANTS] = {0};
    char name[sizeof model->classes->name];
    for (uint32_t i = 0; i < all; i++) { count[number_of(variant_of(build, i))]++; }
    for (uint32_t v = 0; v < VARIANTS; v++) {
        const struct variant variant = {.windowed = (v & 1) != 0, .unrotated = (v & 2) != 0, .experts = (v & 4) != 0};
        if (count[v] == 0) { continue; }
        name_variant(count, v, name);
        class_index[v] = add_class(build, name, REDCO_CLASS_BLOCK, variant, count[v], sizes);
        if (!redcoi_building(build)) { return; }
        model->classes[class_index[v]].window = variant.windowed ? build->window : 0;
        model->classes[class_index[v]].unrotated = variant.unrotated;
    }
    for (uint32_t i = 0; i < all; i++) {
        const uint32_t v = number_of(variant_of(build, i));
        add_run(build, class_index[v], added[v]++, 1, i);
    }
}

/* Modules of multi-token prediction are layers behind the last, with what stands around each. */
static void add_predictions(redcoi_build *build, const uint64_t sizes[REDCO_AXIS_COUNT])
{
    const redco_model_dims *const dims = &build->model->dims;
    const redcoi_family *const family = build->model->family;
    const struct variant variant = {.experts = dims->experts > 0};
    if (dims->predictions == 0) { return; }
    const uint32_t class_index = add_class(build, "mtp", REDCO_CLASS_BLOCK, variant, dims->predictions, sizes);
    for (const redcoi_module *m = family->predictions; m->name != NULL; m++) {
        add_module(build, family->layers[REDCO_CLASS_BLOCK].prefix, m, variant, sizes);
    }
    add_run(build, class_index, 0, dims->predictions, dims->layers);
}

/* Encoder and decoder may have FFNs of different widths; the model's is the larger. */
static void add_layers(redcoi_build *build, redco_class_kind kind)
{
    static const struct variant plain = {.windowed = false};
    redco_model *const model = build->model;
    const redco_model_dims *const dims = &model->dims;
    const redcoi_layer_modules *const layer = &model->family->layers[kind];
    const bool encoder = dims->encoder_layers > 0 && kind == REDCO_CLASS_BLOCK;
    uint64_t sizes[REDCO_AXIS_COUNT];
    if (layer->modules == NULL) { return; }
    redco_model_axis_sizes(model, 1, 1, sizes);
    if (encoder && build->encoder_ffn > 0) { sizes[REDCO_AXIS_FFN] = build->encoder_ffn; }
    if (kind == REDCO_CLASS_BLOCK && !encoder) {
        add_variants(build, sizes);
        add_predictions(build, sizes);
    } else {
        static const char *const names[] = {"embedding", "encoder", "decoder", "head"};
        const uint32_t counts[] = {1, dims->encoder_layers, dims->layers, 1};
        add_run(build, add_class(build, names[kind], kind, plain, counts[kind], sizes), 0, counts[kind], 0);
    }
}

void redcoi_family_build(redcoi_build *build)
{
    redco_model *const model = build->model;
    read_sizes(build);
    read_switches(build);
    if (model->family->experts != NULL) { redcoi_config_experts(build); }
    if (model->family->read != NULL) { model->family->read(build); }
    if (model->family->predictions != NULL && redcoi_building(build)) {
        model->dims.predictions =
            (uint32_t)redcoi_config_count(build, "num_nextn_predict_layers", 0, REDCOI_MAX_PREDICTIONS);
    }
    redcoi_config_trainable(build);
    redcoi_axis_sizes_make(model);
    for (int kind = 0; kind < REDCOI_CLASS_KINDS && redcoi_building(build); kind++) {
        add_layers(build, (redco_class_kind)kind);
    }
    if (build->encoder_ffn > model->dims.ffn) { model->dims.ffn = (uint32_t)build->encoder_ffn; }
    redcoi_axis_sizes_make(model);
}

const char *redcoi_param_name(const redco_param *param, uint32_t layer, char name[REDCOI_MODEL_NAME_SIZE])
{
    const char *brace = strstr(param->name, "{}");
    if (brace == NULL) {
        (void)snprintf(name, REDCOI_MODEL_NAME_SIZE, "%s", param->name);
    } else {
        (void)snprintf(name, REDCOI_MODEL_NAME_SIZE, "%.*s%u%s", (int)(brace - param->name), param->name, layer,
                       brace + 2);
    }
    return name;
}

bool redcoi_model_has(const redco_model *model, redco_param_use use)
{
    for (size_t i = 0; i < model->param_count; i++) {
        if (model->params[i].use == use) { return true; }
    }
    return false;
}
