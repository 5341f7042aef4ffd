/* Tables of priced groups, derived from the graphs of the families. */
#include "costmodel/models/layer_groups.h"

#include "costmodel/models/family.h"

#include <stdlib.h>

#define AXIS(name) (1U << REDCO_AXIS_##name)

/* Axes of what a tensor maps to and from: [out, in] of linears, [rows, width] of tables; vectors have the first. */
static const struct {
    unsigned out, in;
} use_axes[REDCO_USES] = {
    [REDCO_USE_TABLE] = {AXIS(VOCAB), AXIS(TABLE_WIDTH)},
    [REDCO_USE_POSITIONS] = {AXIS(POSITIONS), AXIS(HIDDEN)},
    [REDCO_USE_RELATIVE_BIAS] = {AXIS(BUCKETS), AXIS(HEADS)},
    [REDCO_USE_EMBEDDING_NORM] = {AXIS(HIDDEN), 0},
    [REDCO_USE_ENCODER_POSITIONS] = {AXIS(POSITIONS), AXIS(HIDDEN)},
    [REDCO_USE_ENCODER_RELATIVE_BIAS] = {AXIS(BUCKETS), AXIS(HEADS)},
    [REDCO_USE_ENCODER_EMBEDDING_NORM] = {AXIS(HIDDEN), 0},
    [REDCO_USE_PROJECT_IN] = {AXIS(HIDDEN), AXIS(TABLE_WIDTH)},
    [REDCO_USE_ATTENTION_NORM] = {AXIS(HIDDEN), 0},
    [REDCO_USE_QUERY] = {AXIS(HEADS) | AXIS(HEAD_DIM), AXIS(HIDDEN)},
    [REDCO_USE_KEY] = {AXIS(KV_HEADS) | AXIS(HEAD_DIM), AXIS(HIDDEN)},
    [REDCO_USE_VALUE] = {AXIS(KV_HEADS) | AXIS(HEAD_DIM), AXIS(HIDDEN)},
    [REDCO_USE_QKV] = {AXIS(QKV_HEADS) | AXIS(HEAD_DIM), AXIS(HIDDEN)},
    [REDCO_USE_QUERY_NORM] = {AXIS(HEAD_DIM), 0},
    [REDCO_USE_KEY_NORM] = {AXIS(HEAD_DIM), 0},
    [REDCO_USE_OUTPUT] = {AXIS(HIDDEN), AXIS(HEADS) | AXIS(HEAD_DIM)},
    [REDCO_USE_CROSS_NORM] = {AXIS(HIDDEN), 0},
    [REDCO_USE_CROSS_QUERY] = {AXIS(HEADS) | AXIS(HEAD_DIM), AXIS(HIDDEN)},
    [REDCO_USE_CROSS_KEY] = {AXIS(KV_HEADS) | AXIS(HEAD_DIM), AXIS(HIDDEN)},
    [REDCO_USE_CROSS_VALUE] = {AXIS(KV_HEADS) | AXIS(HEAD_DIM), AXIS(HIDDEN)},
    [REDCO_USE_CROSS_OUTPUT] = {AXIS(HIDDEN), AXIS(HEADS) | AXIS(HEAD_DIM)},
    [REDCO_USE_FFN_NORM] = {AXIS(HIDDEN), 0},
    [REDCO_USE_GATE] = {AXIS(FFN), AXIS(HIDDEN)},
    [REDCO_USE_UP] = {AXIS(FFN), AXIS(HIDDEN)},
    [REDCO_USE_DOWN] = {AXIS(HIDDEN), AXIS(FFN)},
    [REDCO_USE_ENCODER_FINAL_NORM] = {AXIS(HIDDEN), 0},
    [REDCO_USE_FINAL_NORM] = {AXIS(HIDDEN), 0},
    [REDCO_USE_PROJECT_OUT] = {AXIS(TABLE_WIDTH), AXIS(HIDDEN)},
    [REDCO_USE_HEAD] = {AXIS(VOCAB), AXIS(TABLE_WIDTH)},
};

/* Beyond the factors that graphs have of their own (2, 3). Heads are KV heads x GROUP where there are fewer of these;
 * GROUP and GROUP + 2 are both prime, so that heads + 2 KV heads, of one matrix for the three, is known by its factors,
 * too. */
enum { BATCH = 11, LENGTH = 13, KV_HEADS = 17, GROUP = 29, GROUP_AND_TWO = 31 };
static const uint64_t probe_sizes[REDCO_AXIS_COUNT] = {
    [REDCO_AXIS_BATCH] = BATCH, [REDCO_AXIS_SEQUENCE] = LENGTH, [REDCO_AXIS_KV_HEADS] = KV_HEADS,
    [REDCO_AXIS_HEAD_DIM] = 37, [REDCO_AXIS_HIDDEN] = 41,       [REDCO_AXIS_FFN] = 43,
    [REDCO_AXIS_VOCAB] = 47,    [REDCO_AXIS_TABLE_WIDTH] = 53,  [REDCO_AXIS_POSITIONS] = 59,
    [REDCO_AXIS_BUCKETS] = 61};

/* A model of the same structure at probe sizes, and the graph of one of its layers. */
struct probe {
    redco_model model;
    redco_language_model lm;
    uint64_t sizes[REDCO_AXIS_COUNT];
    redco_graph *g;
    redcoi_class_values values;
    bool grouped; /* fewer KV heads than heads */
    bool narrow;  /* the table is narrower than the model */
};

static redco_extent extent_with(uint32_t factor, unsigned axes)
{
    redco_extent extent = {.factor = factor};
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) { extent.power[a] = (axes >> a & 1) != 0; }
    return extent;
}

uint64_t redco_extent_count(const redco_extent *extent, const uint64_t sizes[REDCO_AXIS_COUNT])
{
    uint64_t count = extent->factor;
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) {
        for (unsigned i = 0; i < extent->power[a]; i++) { count *= sizes[a]; }
    }
    return count;
}

redco_axis redco_extent_split(const redco_extent *extent)
{
    static const redco_axis cut[] = {REDCO_AXIS_HEADS, REDCO_AXIS_KV_HEADS, REDCO_AXIS_QKV_HEADS, REDCO_AXIS_FFN,
                                     REDCO_AXIS_VOCAB};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        if (extent->power[cut[i]] > 0) { return cut[i]; }
    }
    return REDCO_AXIS_COUNT;
}

void redco_param_extents(const redco_param *param, redco_extent extents_out[2])
{
    const redco_extent out = extent_with(1, use_axes[param->use].out), in = extent_with(1, use_axes[param->use].in);
    const bool turned = param->role == REDCO_PARAM_CONV1D;
    extents_out[0] = turned ? in : out;
    extents_out[1] = turned ? out : in;
}

void redco_model_axis_sizes(const redco_model *model, uint64_t batch, uint64_t length,
                            uint64_t sizes_out[REDCO_AXIS_COUNT])
{
    const redco_model_dims *const d = redco_model_get_dims(model);
    uint64_t width = d->hidden, positions = d->max_positions, buckets = 0;
    for (size_t i = 0; i < model->param_count; i++) {
        const redco_param *const p = &model->params[i];
        if (p->use == REDCO_USE_TABLE) { width = p->shape[1]; }
        if (p->use == REDCO_USE_POSITIONS) { positions = p->shape[0]; }
        if (p->use == REDCO_USE_RELATIVE_BIAS) { buckets = p->shape[0]; }
    }
    const uint64_t sizes[REDCO_AXIS_COUNT] = {[REDCO_AXIS_BATCH] = batch,
                                              [REDCO_AXIS_SEQUENCE] = length,
                                              [REDCO_AXIS_HEADS] = d->heads,
                                              [REDCO_AXIS_KV_HEADS] = d->kv_heads,
                                              [REDCO_AXIS_QKV_HEADS] = (uint64_t)d->heads + 2 * (uint64_t)d->kv_heads,
                                              [REDCO_AXIS_HEAD_DIM] = d->head_dim,
                                              [REDCO_AXIS_HIDDEN] = d->hidden,
                                              [REDCO_AXIS_FFN] = d->ffn,
                                              [REDCO_AXIS_VOCAB] = d->vocab,
                                              [REDCO_AXIS_TABLE_WIDTH] = width,
                                              [REDCO_AXIS_POSITIONS] = positions,
                                              [REDCO_AXIS_BUCKETS] = buckets};
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) { sizes_out[a] = sizes[a]; }
}

static void probe_dims(struct probe *probe, const redco_model *model)
{
    redco_model_dims *const d = &probe->model.dims;
    uint64_t *const sizes = probe->sizes;
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) { sizes[a] = probe_sizes[a]; }
    probe->grouped = d->kv_heads != d->heads;
    probe->narrow = redcoi_model_has(model, REDCO_USE_PROJECT_IN);
    if (!probe->narrow) { sizes[REDCO_AXIS_TABLE_WIDTH] = sizes[REDCO_AXIS_HIDDEN]; }
    sizes[REDCO_AXIS_HEADS] = probe->grouped ? KV_HEADS * GROUP : KV_HEADS;
    sizes[REDCO_AXIS_QKV_HEADS] = sizes[REDCO_AXIS_HEADS] + 2 * sizes[REDCO_AXIS_KV_HEADS];
    d->hidden = (uint32_t)sizes[REDCO_AXIS_HIDDEN];
    d->ffn = (uint32_t)sizes[REDCO_AXIS_FFN];
    d->heads = (uint32_t)sizes[REDCO_AXIS_HEADS];
    d->kv_heads = (uint32_t)sizes[REDCO_AXIS_KV_HEADS];
    d->head_dim = (uint32_t)sizes[REDCO_AXIS_HEAD_DIM];
    d->vocab = sizes[REDCO_AXIS_VOCAB];
}

static redco_status probe_create(const redco_model *model, struct probe *probe, redco_error *err)
{
    *probe = (struct probe){.model = *model};
    probe_dims(probe, model);
    probe->model.params = calloc(model->param_count, sizeof *model->params);
    probe->values.params = calloc(model->param_count, sizeof *probe->values.params);
    if (probe->model.params == NULL || probe->values.params == NULL) {
        return redco_fail(err, REDCO_ENOMEM, model->name, "no memory for its layers");
    }
    for (size_t i = 0; i < model->param_count; i++) {
        redco_param *const p = &probe->model.params[i];
        redco_extent extents[2];
        *p = model->params[i];
        redco_param_extents(p, extents);
        for (uint32_t d = 0; d < p->rank; d++) { p->shape[d] = redco_extent_count(&extents[d], probe->sizes); }
    }
    /* Numbers of the config change no shape: the smallest rotation of a head, no window. */
    probe->lm = (redco_language_model){
        .model = &probe->model,
        .dims = &probe->model.dims,
        .family = model->family,
        .set = {.norm_epsilon = 1e-5, .rope = {.theta = 1e4}, .relative_buckets = 32, .relative_distance = 128}};
    if (probe->model.dims.positions == REDCO_POSITIONS_ROTARY) { probe->lm.set.rope.size = 2; }
    return REDCO_OK;
}

static void probe_free(struct probe *probe)
{
    redco_graph_free(probe->g);
    free(probe->model.params);
    free(probe->values.params);
}

/* A dimension's factors: the primes of the axes, and what remains. */
static redco_extent extent_of(const struct probe *probe, uint64_t count)
{
    redco_extent extent = {.factor = 1};
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) {
        const bool is_prime = a != REDCO_AXIS_HEADS && a != REDCO_AXIS_QKV_HEADS;
        for (; is_prime && count % probe_sizes[a] == 0; count /= probe_sizes[a]) { extent.power[a]++; }
    }
    uint8_t *const heads = &extent.power[REDCO_AXIS_HEADS], *const kv = &extent.power[REDCO_AXIS_KV_HEADS];
    if (!probe->grouped) {
        *heads = *kv;
        *kv = 0;
    }
    for (; probe->grouped && *kv > 0 && count % GROUP == 0; count /= GROUP, (*kv)--) { (*heads)++; }
    for (; probe->grouped && *kv > 0 && count % GROUP_AND_TWO == 0; count /= GROUP_AND_TWO, (*kv)--) {
        extent.power[REDCO_AXIS_QKV_HEADS]++;
    }
    extent.factor = (uint32_t)count;
    return extent;
}

static redco_extent elements_of(const struct probe *probe, redco_value value)
{
    return extent_of(probe, redco_type_elements(redco_value_type(probe->g, value)));
}

static redco_extent columns_of(const struct probe *probe, redco_value value)
{
    const redco_tensor_type *const type = redco_value_type(probe->g, value);
    return extent_of(probe, type->dim[type->rank - 1]);
}

/* A table while it is being made. */
struct table {
    redco_layer_group *groups;
    uint32_t count;
};

/* Whether a product reads what another one of its role made, bias and reshapes between. */
static bool follows_product(const struct probe *probe, const redco_op *op)
{
    const redco_op *from = redco_value_op(probe->g, op->inputs[0]);
    while (from->role == op->role && from->kind != REDCO_OP_MATMUL && from->input_count > 0) {
        from = redco_value_op(probe->g, from->inputs[0]);
    }
    return from->role == op->role && from->kind == REDCO_OP_MATMUL;
}

static void add_product(const struct probe *probe, const redco_op *op, redco_layer_group *group)
{
    const redco_tensor_type *const input = redco_value_type(probe->g, op->inputs[0]);
    const uint64_t inner = input->dim[input->rank - 1];
    if (group->kind != REDCO_GROUP_PRODUCT) {
        group->kind = REDCO_GROUP_PRODUCT;
        group->part_count = 0;
        group->rows = extent_of(probe, redco_type_elements(input) / inner);
        group->inner = extent_of(probe, inner);
    }
    const bool follows = group->part_count > 0 && follows_product(probe, op);
    if (!follows && group->part_count < REDCO_GROUP_PARTS) { group->part_count++; }
    group->parts[group->part_count - 1] = columns_of(probe, op->first_output);
}

static void add_attention(const struct probe *probe, const redco_op *op, redco_layer_group *group)
{
    group->kind = REDCO_GROUP_ATTENTION;
    group->causal = (op->attributes.flags & REDCO_FLAG_CAUSAL) != 0;
    group->part_count = REDCO_GROUP_PARTS;
    for (uint32_t i = 0; i < 3; i++) { group->parts[i] = elements_of(probe, op->inputs[i]); }
    group->parts[3] = elements_of(probe, op->first_output);
}

static void set_elements(redco_layer_group *group, redco_extent elements)
{
    group->parts[0] = elements;
    group->part_count = 1;
}

/* The operator of a group that is no product, attention core, norm, loss or look-up does not decide its kind. */
static void add_to_group(const struct probe *probe, const redco_op *op, redco_layer_group *group)
{
    switch (op->kind) {
    case REDCO_OP_MATMUL:
        if (group->kind == REDCO_GROUP_MEMORY || group->kind == REDCO_GROUP_PRODUCT) { add_product(probe, op, group); }
        break;
    case REDCO_OP_ATTENTION: add_attention(probe, op, group); break;
    case REDCO_OP_RMS_NORM:
    case REDCO_OP_LAYER_NORM:
        if (group->kind == REDCO_GROUP_PRODUCT || group->kind == REDCO_GROUP_TABLE) { break; }
        group->kind = REDCO_GROUP_NORM;
        group->columns = columns_of(probe, op->first_output);
        set_elements(group, elements_of(probe, op->first_output));
        break;
    case REDCO_OP_CROSS_ENTROPY:
        group->kind = REDCO_GROUP_LOSS;
        set_elements(group, elements_of(probe, op->inputs[0]));
        break;
    case REDCO_OP_GATHER:
        if (group->kind == REDCO_GROUP_MEMORY) { group->columns = elements_of(probe, op->inputs[0]); }
        group->kind = REDCO_GROUP_TABLE;
        break;
    default: break;
    }
    if (group->kind == REDCO_GROUP_MEMORY) { set_elements(group, elements_of(probe, op->first_output)); }
    if (group->kind == REDCO_GROUP_TABLE) { set_elements(group, elements_of(probe, probe->values.result)); }
}

static void add_params(const struct probe *probe, const redco_op *op, redco_layer_group *group)
{
    for (uint32_t i = 0; i < op->input_count; i++) {
        for (uint32_t id = 0; id < probe->model.param_count; id++) {
            if (probe->values.params[id] != op->inputs[i] || group->param_count == REDCO_GROUP_PARAMS) { continue; }
            uint32_t at = group->param_count++;
            for (; at > 0 && group->params[at - 1] > id; at--) { group->params[at] = group->params[at - 1]; }
            group->params[at] = id;
        }
    }
}

/* What splits heads moves queries and keys: the elements that the attention core is given of them. */
static void set_heads(const struct table *table, const redco_layer_group *core)
{
    for (uint32_t i = 0; i < table->count; i++) {
        redco_layer_group *const group = &table->groups[i];
        if (group->role != REDCO_OP_ROLE_ROTARY && group->role != REDCO_OP_ROLE_SPLIT_HEADS) { continue; }
        group->parts[0] = core->parts[0];
        group->parts[1] = core->parts[1];
        group->part_count = 2;
    }
}

static void derive(const struct probe *probe, struct table *table)
{
    for (uint32_t o = probe->values.first_op; o < probe->values.end_op; o++) {
        const redco_op *const op = redco_graph_op(probe->g, o);
        uint32_t at = 0;
        if (op->role == REDCO_OP_ROLE_NONE || redco_op_kind_class(op->kind) == REDCO_CLASS_SOURCE) { continue; }
        while (at < table->count && table->groups[at].role != op->role) { at++; }
        if (at == REDCO_GROUPS_MAX) { continue; }
        redco_layer_group *const group = &table->groups[at];
        if (at == table->count) {
            *group = (redco_layer_group){.role = op->role};
            table->count++;
        }
        add_to_group(probe, op, group);
        add_params(probe, op, group);
        if (op->role == REDCO_OP_ROLE_ATTENTION && op->kind == REDCO_OP_ATTENTION) { set_heads(table, group); }
    }
}

/* Of a product of gate and up: what the gate was made into. */
static bool is_activated_gate(const struct probe *probe, const redco_op *op)
{
    if (op->role != REDCO_OP_ROLE_ACTIVATION || op->input_count != 1) { return false; }
    for (uint32_t o = op->id + 1; o < probe->values.end_op; o++) {
        const redco_op *const reader = redco_graph_op(probe->g, o);
        if (reader->kind != REDCO_OP_MUL || reader->role != REDCO_OP_ROLE_ACTIVATION) { continue; }
        if (reader->inputs[0] == op->first_output || reader->inputs[1] == op->first_output) { return true; }
    }
    return false;
}

/* Where a value lies that has no memory of its own. */
static redco_value holder_of(const redco_graph *g, redco_value value)
{
    const redco_op *op = redco_value_op(g, value);
    for (; redco_op_is_view(op->kind); op = redco_value_op(g, value)) { value = op->inputs[0]; }
    return value;
}

static void keep(const struct probe *probe, struct table *table, redco_value value)
{
    const redco_op *const maker = redco_value_op(probe->g, value);
    redco_layer_group *group = &table->groups[0];
    redco_kept kept = {.elements = elements_of(probe, value)};
    if (value != probe->values.input) {
        const bool inside = maker->id >= probe->values.first_op && maker->id < probe->values.end_op;
        if (!inside || redco_op_kind_class(maker->kind) == REDCO_CLASS_SOURCE) { return; }
        if (kept.elements.power[REDCO_AXIS_BATCH] == 0) { return; } /* made of tensors alone: Gemma's 1 + gain */
        if (maker->role == REDCO_OP_ROLE_LOSS || kept.elements.power[REDCO_AXIS_VOCAB] > 0) { return; }
        while (group < table->groups + table->count && group->role != maker->role) { group++; }
    }
    if (group == table->groups + table->count || group->kept_count == REDCO_GROUP_KEPT) { return; }
    kept.statistic = redco_value_type(probe->g, value)->dtype == REDCO_F32;
    kept.policy = redco_op_role_is_attention(maker->role) ? REDCO_KEPT_UNLESS_SELECTIVE
                  : is_activated_gate(probe, maker)       ? REDCO_KEPT_UNLESS_MADE_AGAIN
                                                          : REDCO_KEPT_ALWAYS;
    group->kept[group->kept_count++] = kept;
}

/* What the gradients read of the layer, each value once. */
static redco_status derive_kept(const struct probe *probe, struct table *table, redco_error *err)
{
    bool *const seen = calloc((size_t)redco_graph_value_count(probe->g) + 1, sizeof *seen);
    if (seen == NULL) { return redco_fail(err, REDCO_ENOMEM, probe->model.name, "no memory for its layers"); }
    for (uint32_t o = probe->values.end_op; o < redco_graph_op_count(probe->g); o++) {
        const redco_op *const op = redco_graph_op(probe->g, o);
        const bool reads = op->order > 0 && !redco_op_is_view(op->kind);
        for (uint32_t i = 0; reads && i < op->input_count; i++) {
            const redco_value value = holder_of(probe->g, op->inputs[i]);
            if (!seen[value]) { keep(probe, table, value); }
            seen[value] = true;
        }
    }
    free(seen);
    return REDCO_OK;
}

static redco_status derive_class(redco_model *model, struct probe *probe, uint32_t class_index, redco_error *err)
{
    struct table table = {.groups = model->groups[class_index]};
    redco_graph_free(probe->g);
    probe->g = redco_graph_create();
    if (probe->g == NULL) { return redco_fail(err, REDCO_ENOMEM, model->name, "no memory for its layers"); }
    const redco_status st = redcoi_class_graph(&probe->lm, class_index, BATCH, LENGTH, &probe->values, probe->g, err);
    if (st != REDCO_OK) { return st; }
    derive(probe, &table);
    model->group_counts[class_index] = table.count;
    return derive_kept(probe, &table, err);
}

redco_status redcoi_layer_groups_make(redco_model *model, redco_error *err)
{
    struct probe probe = {.g = NULL};
    if (model->family->price != NULL) { return model->family->price(model, err); }
    redco_status st = probe_create(model, &probe, err);
    for (uint32_t c = 0; c < model->class_count && st == REDCO_OK; c++) { st = derive_class(model, &probe, c, err); }
    probe_free(&probe);
    return st;
}

uint32_t redco_model_groups(const redco_model *model, uint32_t class_index, const redco_layer_group **groups_out)
{
    *groups_out = model->groups[class_index];
    return model->group_counts[class_index];
}
