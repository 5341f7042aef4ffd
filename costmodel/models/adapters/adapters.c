/* Low-rank adapters: how they are said, and what they add to the record of a class. */
#include "costmodel/models/adapters/trainable.h"

#include "costmodel/models/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK_MOST = 4096, TEXT_MOST = 256 };

static const struct target {
    const char *name;
    uint64_t uses;
} targets[] = {
    {"q", REDCOI_BIT(QUERY) | REDCOI_BIT(QKV)},
    {"k", REDCOI_BIT(KEY) | REDCOI_BIT(QKV)},
    {"v", REDCOI_BIT(VALUE) | REDCOI_BIT(QKV)},
    {"qkv", REDCOI_QKV_BIASES},
    {"o", REDCOI_BIT(OUTPUT)},
    {"gate", REDCOI_BIT(GATE) | REDCOI_BIT(GATE_UP)},
    {"up", REDCOI_BIT(UP) | REDCOI_BIT(GATE_UP)},
    {"down", REDCOI_BIT(DOWN)},
    {"attention", REDCOI_ATTENTION_BIASES},
    {"mlp", REDCOI_FFN_BIASES | REDCOI_BIT(GATE_UP)},
    {"all", REDCOI_ATTENTION_BIASES | REDCOI_FFN_BIASES | REDCOI_BIT(GATE_UP)},
};

static redco_status read_target(const char *word, const char *place, uint64_t *uses, redco_error *err)
{
    static const char ending[] = "_proj";
    const size_t whole = strlen(word), end = sizeof ending - 1;
    const size_t length = whole > end && strcmp(word + whole - end, ending) == 0 ? whole - end : whole;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        if (strlen(targets[i].name) != length || strncmp(targets[i].name, word, length) != 0) { continue; }
        *uses |= targets[i].uses;
        return REDCO_OK;
    }
    return redco_fail(err, REDCO_EVALUE, place,
                      "\"%.40s\" is no target of adapters; known: q, k, v, qkv, o, gate, up, down, attention, mlp, all",
                      word);
}

static redco_status read_setting(char *setting, const char *place, redco_trainable *out, redco_error *err)
{
    char *const value = strchr(setting, '=');
    if (value != NULL) { *value = '\0'; }
    if (value != NULL && strcmp(setting, "r") == 0) {
        char *end = NULL;
        const unsigned long rank = value[1] >= '0' && value[1] <= '9' ? strtoul(value + 1, &end, 10) : 0;
        if (rank < 1 || rank > RANK_MOST || *end != '\0') {
            return redco_fail(err, REDCO_EVALUE, place, "r=%.40s is no rank of adapters: 1 to %d", value + 1,
                              RANK_MOST);
        }
        out->adapter_rank = (uint32_t)rank;
        return REDCO_OK;
    }
    if (value == NULL || strcmp(setting, "targets") != 0) {
        return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is neither r=N nor targets=NAME+NAME", setting);
    }
    redco_status st = REDCO_OK;
    char *rest = value + 1;
    for (char *word = NULL; st == REDCO_OK && (word = strsep(&rest, "+")) != NULL;) {
        st = read_target(word, place, &out->adapted, err);
    }
    return st;
}

redco_status redco_trainable_read(const char *text, const char *place, redco_trainable *trainable_out, redco_error *err)
{
    redco_trainable read = {.adapter_rank = 0};
    char copy[TEXT_MOST];
    redco_status st = REDCO_OK;
    if (strcmp(text, "all") == 0) {
        *trainable_out = read;
        return REDCO_OK;
    }
    (void)snprintf(copy, sizeof copy, "%s", text);
    char *rest = copy;
    const char *const method = strsep(&rest, ":");
    read.quantised = strcmp(method, "qlora") == 0;
    if (strlen(text) >= sizeof copy || rest == NULL || (!read.quantised && strcmp(method, "lora") != 0)) {
        return redco_fail(err, REDCO_EVALUE, place,
                          "\"%.60s\" is none of all, lora:r=N[,targets=...], qlora:r=N[,targets=...]", text);
    }
    for (char *setting = NULL; st == REDCO_OK && (setting = strsep(&rest, ",")) != NULL;) {
        st = read_setting(setting, place, &read, err);
    }
    if (st == REDCO_OK && read.adapter_rank == 0) {
        st = redco_fail(err, REDCO_EVALUE, place, "\"%.60s\" says no rank of its adapters: r=16, say", text);
    }
    if (read.adapted == 0) { read.adapted = targets[sizeof targets / sizeof targets[0] - 1].uses; }
    if (st == REDCO_OK) { *trainable_out = read; }
    return st;
}

void redcoi_config_trainable(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    redco_trainable trainable = {.adapter_rank = 0};
    const char *const text = redcoi_config_string(build, "_trainable");
    if (!redcoi_building(build) || text == NULL) { return; }
    build->status = redco_trainable_read(text, "_trainable", &trainable, build->err);
    if (!redcoi_building(build) || trainable.adapter_rank == 0) { return; }
    if (redco_model_is_paired(build->model) || dims->encoder_layers > 0) {
        redcoi_build_fail(build, "_trainable", "adapters of %s are not priced: only those of plain decoders",
                          dims->encoder_layers > 0 ? "encoder-decoder models" : "mixtures and latent attention");
        return;
    }
    dims->adapter_rank = trainable.adapter_rank;
    dims->quantised = trainable.quantised;
    build->adapted = trainable.adapted;
}

/* @return the number of the tensor, or REDCO_NO_PARAM if the matrix has no adapter */
static uint32_t adapter_of(const redco_model *model, const redco_param *weight, redco_adapter half)
{
    for (uint32_t i = 0; i < model->param_count; i++) {
        const redco_param *const p = &model->params[i];
        if (p->adapter == half && p->class_index == weight->class_index && p->use == weight->use) { return i; }
    }
    return REDCO_NO_PARAM;
}

bool redcoi_operand_is_read(const redco_model *model, const redco_param *weight)
{
    return !weight->frozen || adapter_of(model, weight, REDCO_ADAPTER_DOWN) != REDCO_NO_PARAM;
}

static redco_extent product_of(redco_extent a, redco_extent b)
{
    a.factor *= b.factor;
    for (unsigned i = 0; i < REDCO_AXIS_COUNT; i++) { a.power[i] = (uint8_t)(a.power[i] + b.power[i]); }
    return a;
}

static const redco_extent rank_extent = {.factor = 1, .power = {[REDCO_AXIS_ADAPTER] = 1}};
static const redco_extent one = {.factor = 1};

/* Groups of the adapters beside the matrices of a product: A of all, B of each, the sum. */
struct adapters {
    redco_layer_group down, up, sum;
    uint32_t count;
};

static struct adapters adapters_of(const redco_model *model, const redco_layer_group *product)
{
    const redco_layer_group like = {
        .role = REDCO_OP_ROLE_ADAPTER, .kind = REDCO_GROUP_PRODUCT, .rows = product->rows, .experts = one};
    struct adapters a = {.down = like, .up = like, .sum = like};
    a.down.inner = product->inner;
    a.up.inner = rank_extent;
    a.sum.kind = REDCO_GROUP_MEMORY;
    for (uint32_t i = 0; i < product->param_count && a.count < REDCO_GROUP_PARTS; i++) {
        const redco_param *const weight = &model->params[product->params[i]];
        const uint32_t down = adapter_of(model, weight, REDCO_ADAPTER_DOWN);
        redco_extent out, in;
        if (down == REDCO_NO_PARAM || weight->role == REDCO_PARAM_BIAS) { continue; }
        redco_param_maps(weight, &out, &in);
        a.down.params[a.down.param_count++] = down;
        a.up.params[a.up.param_count++] = adapter_of(model, weight, REDCO_ADAPTER_UP);
        a.up.parts[a.count] = out;
        a.sum.parts[a.count++] = product_of(product->rows, out);
    }
    a.down.parts[0] = rank_extent;
    a.down.parts[0].factor = a.count;
    a.down.part_count = 1;
    a.up.part_count = a.sum.part_count = a.count;
    /* A of a matrix that tensor parallelism cuts by rows makes parts of sums. */
    if (redco_extent_split(&product->inner) != REDCO_AXIS_COUNT) {
        for (int rows = 0; rows < 2; rows++) {
            a.down.traffic[a.down.traffic_count++] =
                (redco_group_traffic){.op = REDCO_ALL_REDUCE,
                                      .elements = product_of(product->rows, a.down.parts[0]),
                                      .sequence_parallel = rows != 0};
        }
    }
    return a;
}

static void add_group(redco_layer_work *work, const redco_layer_group *group)
{
    if (work->group_count < REDCO_GROUPS_MAX) { work->groups[work->group_count++] = *group; }
}

static void add_site(redco_layer_work *work, redco_site site, redco_extent elements)
{
    if (work->site_count == REDCO_SITES_MAX || elements.factor == 0) { return; }
    work->sites[work->site_count++] =
        (redco_layer_site){.site = site, .elements = elements, .role = REDCO_OP_ROLE_ADAPTER};
}

/* The matrices of a product in the type that it has, made again in backward. */
static redco_layer_group dequantised(const redco_model *model, const redco_layer_group *product)
{
    redco_layer_group made = {.role = REDCO_OP_ROLE_DEQUANTISE, .kind = REDCO_GROUP_MEMORY};
    for (uint32_t i = 0; i < product->param_count && made.part_count < REDCO_GROUP_PARTS; i++) {
        const redco_param *const weight = &model->params[product->params[i]];
        redco_extent out, in;
        if (weight->role == REDCO_PARAM_BIAS) { continue; }
        redco_param_maps(weight, &out, &in);
        made.parts[made.part_count++] = product_of(out, in);
    }
    return made;
}

static bool is_frozen(const redco_model *model, const redco_layer_group *group)
{
    for (uint32_t i = 0; i < group->param_count; i++) {
        if (!model->params[group->params[i]].frozen) { return false; }
    }
    return group->param_count > 0;
}

void redcoi_adapters_add(const redco_model *model, uint32_t class_index, redco_layer_work *work)
{
    const bool block = redco_class_is_block(model->classes[class_index].kind);
    redco_layer_group frozen[REDCO_GROUPS_MAX];
    const uint32_t count = work->group_count;
    if (model->dims.adapter_rank == 0) { return; }
    memcpy(frozen, work->groups, sizeof frozen);
    work->group_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        frozen[i].frozen = is_frozen(model, &frozen[i]);
        const bool product = block && frozen[i].kind == REDCO_GROUP_PRODUCT;
        if (product && model->dims.quantised) {
            const redco_layer_group made = dequantised(model, &frozen[i]);
            add_group(work, &made);
        }
        add_group(work, &frozen[i]);
        const struct adapters a = product ? adapters_of(model, &frozen[i]) : (struct adapters){.count = 0};
        if (a.count == 0) { continue; }
        add_group(work, &a.down);
        add_group(work, &a.up);
        add_group(work, &a.sum);
        redco_extent copies = product_of(a.down.rows, a.down.inner);
        copies.factor *= a.count - 1;
        add_site(work, REDCO_SITE_ADAPTER_INPUT, copies);
        add_site(work, REDCO_SITE_PRODUCT_OPERAND, product_of(a.down.rows, a.down.parts[0]));
    }
}
