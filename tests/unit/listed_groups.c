#include "listed_groups.h"

#define AXIS(name) (1U << REDCO_AXIS_##name)
#define TOKENS (AXIS(BATCH) | AXIS(SEQUENCE))
#define QUERIES (AXIS(HEADS) | AXIS(HEAD_DIM))
#define KEYS (AXIS(KV_HEADS) | AXIS(HEAD_DIM))

static redco_extent extent(uint32_t factor, unsigned axes)
{
    redco_extent e = {.factor = factor};
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) { e.power[a] = (axes >> a & 1) != 0; }
    return e;
}

struct list {
    redco_layer_group *groups;
    uint32_t count;
};

static redco_layer_group *add(struct list *list, redco_op_role role, redco_group_kind kind)
{
    list->groups[list->count] = (redco_layer_group){.role = role, .kind = kind};
    return &list->groups[list->count++];
}

static void add_part(redco_layer_group *group, uint32_t factor, unsigned axes)
{
    group->parts[group->part_count++] = extent(factor, axes);
}

static void add_norm(struct list *list, redco_op_role role, unsigned row, unsigned rows)
{
    redco_layer_group *const norm = add(list, role, REDCO_GROUP_NORM);
    add_part(norm, 1, TOKENS | rows | row);
    norm->columns = extent(1, row);
}

static redco_layer_group *add_product(struct list *list, redco_op_role role, unsigned inner)
{
    redco_layer_group *const product = add(list, role, REDCO_GROUP_PRODUCT);
    product->rows = extent(1, TOKENS);
    product->inner = extent(1, inner);
    return product;
}

static void add_core(struct list *list, redco_op_role role, bool causal)
{
    redco_layer_group *const core = add(list, role, REDCO_GROUP_ATTENTION);
    core->causal = causal;
    add_part(core, 1, TOKENS | QUERIES);
    add_part(core, 1, TOKENS | KEYS);
    add_part(core, 1, TOKENS | KEYS);
    add_part(core, 1, TOKENS | QUERIES);
}

static bool owns(const redco_model *model, uint32_t class_index, redco_param_use use)
{
    return redco_model_find(model, class_index, use, false) != REDCO_NO_PARAM;
}

static void add_attention(struct list *list, const redco_model *model, uint32_t class_index, bool causal)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    redco_layer_group *const qkv = add_product(list, REDCO_OP_ROLE_QKV, AXIS(HIDDEN));
    if (redco_model_find(model, class_index, REDCO_USE_QKV, false) != REDCO_NO_PARAM) {
        add_part(qkv, 1, AXIS(QKV_HEADS) | AXIS(HEAD_DIM));
    } else {
        add_part(qkv, 1, QUERIES);
        add_part(qkv, 1, KEYS);
        add_part(qkv, 1, KEYS);
    }
    if (dims->head_norms) {
        add_norm(list, REDCO_OP_ROLE_Q_NORM, AXIS(HEAD_DIM), AXIS(HEADS));
        add_norm(list, REDCO_OP_ROLE_K_NORM, AXIS(HEAD_DIM), AXIS(KV_HEADS));
    }
    if (owns(model, class_index, REDCO_USE_QUERIES_NORM)) { /* OLMo 2 norms all heads together */
        add_norm(list, REDCO_OP_ROLE_Q_NORM, QUERIES, 0);
        add_norm(list, REDCO_OP_ROLE_K_NORM, KEYS, 0);
    }
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(model, &classes);
    const bool rotary = dims->positions == REDCO_POSITIONS_ROTARY;
    if (!classes[class_index].unrotated) { /* else heads are views of what the products made */
        redco_layer_group *const heads =
            add(list, rotary ? REDCO_OP_ROLE_ROTARY : REDCO_OP_ROLE_SPLIT_HEADS, REDCO_GROUP_MEMORY);
        add_part(heads, 1, TOKENS | QUERIES);
        add_part(heads, 1, TOKENS | KEYS);
    }
    add_core(list, REDCO_OP_ROLE_ATTENTION, causal);
    add_part(add_product(list, REDCO_OP_ROLE_OUT, QUERIES), 1, AXIS(HIDDEN));
}

/* Queries of the decoder, keys and values of the encoder's output: every pair. */
static void add_cross(struct list *list, bool post_norm)
{
    if (!post_norm) { add_norm(list, REDCO_OP_ROLE_CROSS_NORM, AXIS(HIDDEN), 0); }
    add_part(add_product(list, REDCO_OP_ROLE_CROSS_Q, AXIS(HIDDEN)), 1, QUERIES);
    add_part(add_product(list, REDCO_OP_ROLE_CROSS_KV, AXIS(HIDDEN)), 2, KEYS);
    add_core(list, REDCO_OP_ROLE_CROSS_ATTENTION, false);
    add_part(add_product(list, REDCO_OP_ROLE_CROSS_OUT, QUERIES), 1, AXIS(HIDDEN));
    if (post_norm) { add_norm(list, REDCO_OP_ROLE_CROSS_NORM, AXIS(HIDDEN), 0); }
}

static void add_block(struct list *list, const redco_model *model, uint32_t class_index, bool causal, bool cross)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    /* Gemma 2 has a norm behind each part as well, OLMo 2 there alone; norms without gains (OLMo) are no
     * tensors, but run. */
    const bool ends = owns(model, class_index, REDCO_USE_ATTENTION_END_NORM);
    const bool begins = !dims->post_norm && (!ends || owns(model, class_index, REDCO_USE_ATTENTION_NORM));
    if (begins) { add_norm(list, REDCO_OP_ROLE_ATTENTION_NORM, AXIS(HIDDEN), 0); }
    add_attention(list, model, class_index, causal);
    if (ends) { add_norm(list, REDCO_OP_ROLE_ATTENTION_END_NORM, AXIS(HIDDEN), 0); }
    if (dims->post_norm) { add_norm(list, REDCO_OP_ROLE_ATTENTION_NORM, AXIS(HIDDEN), 0); }
    if (cross) { add_cross(list, dims->post_norm); }
    if (!dims->parallel_block && begins) { add_norm(list, REDCO_OP_ROLE_FFN_NORM, AXIS(HIDDEN), 0); }
    redco_layer_group *const in = add_product(list, REDCO_OP_ROLE_FFN_IN, AXIS(HIDDEN));
    const bool fused = redco_model_find(model, class_index, REDCO_USE_GATE_UP, false) != REDCO_NO_PARAM;
    for (uint32_t i = 0; i < (dims->gated && !fused ? 2 : 1); i++) { add_part(in, fused ? 2 : 1, AXIS(FFN)); }
    add_part(add(list, REDCO_OP_ROLE_ACTIVATION, REDCO_GROUP_MEMORY), 1, TOKENS | AXIS(FFN));
    add_part(add_product(list, REDCO_OP_ROLE_FFN_OUT, AXIS(FFN)), 1, AXIS(HIDDEN));
    if (ends) { add_norm(list, REDCO_OP_ROLE_FFN_END_NORM, AXIS(HIDDEN), 0); }
    if (dims->post_norm) { add_norm(list, REDCO_OP_ROLE_FFN_NORM, AXIS(HIDDEN), 0); }
}

uint32_t listed_groups(const redco_model *model, uint32_t class_index, redco_layer_group groups_out[REDCO_GROUPS_MAX])
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const redco_layer_class *classes = NULL;
    struct list list = {groups_out, 0};
    (void)redco_model_classes(model, &classes);
    switch (classes[class_index].kind) {
    case REDCO_CLASS_EMBEDDING: {
        redco_layer_group *const table = add(&list, REDCO_OP_ROLE_EMBEDDING, REDCO_GROUP_TABLE);
        add_part(table, 1, TOKENS | AXIS(HIDDEN));
        table->columns = extent(1, AXIS(VOCAB) | AXIS(TABLE_WIDTH));
        break;
    }
    case REDCO_CLASS_BLOCK: add_block(&list, model, class_index, dims->encoder_layers == 0, false); break;
    case REDCO_CLASS_CROSS: add_block(&list, model, class_index, true, true); break;
    case REDCO_CLASS_HEAD:
        if (!dims->no_final_norm) { add_norm(&list, REDCO_OP_ROLE_FINAL_NORM, AXIS(HIDDEN), 0); }
        if (owns(model, class_index, REDCO_USE_PROJECT_OUT)) {
            add_part(add_product(&list, REDCO_OP_ROLE_PROJECT_OUT, AXIS(HIDDEN)), 1, AXIS(TABLE_WIDTH));
            add_part(add_product(&list, REDCO_OP_ROLE_HEAD, AXIS(TABLE_WIDTH)), 1, AXIS(VOCAB));
        } else {
            add_part(add_product(&list, REDCO_OP_ROLE_HEAD, AXIS(HIDDEN)), 1, AXIS(VOCAB));
        }
        add_part(add(&list, REDCO_OP_ROLE_LOSS, REDCO_GROUP_LOSS), 1, TOKENS | AXIS(VOCAB));
        break;
    }
    return list.count;
}
