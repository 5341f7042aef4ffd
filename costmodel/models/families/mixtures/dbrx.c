/* DBRX (Databricks, 2024): layer norms without biases, one matrix for queries, keys and values, experts in three
 * tensors for all of them. Source: modeling_dbrx.py and configuration_dbrx.py of HuggingFace transformers 4.48; 5.24.
 * Its experts lie one behind the other, [experts x width, hidden], here as [experts, width, hidden]. */
#include "costmodel/models/family.h"

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},
    [REDCOI_SIZE_HIDDEN] = {"d_model", "hidden_size"},
    [REDCOI_SIZE_LAYERS] = {"n_layers", "num_hidden_layers"},
    [REDCOI_SIZE_HEADS] = {"n_heads", "num_attention_heads"},
};

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "wte", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "norm_attn_norm.norm_1", 0},
    {REDCO_USE_QKV, "norm_attn_norm.attn.Wqkv", 0},
    {REDCO_USE_OUTPUT, "norm_attn_norm.attn.out_proj", 0},
    {REDCO_USE_FFN_NORM, "norm_attn_norm.norm_2", 0},
    {REDCO_USE_ROUTER, "ffn.router.layer", 0},
    {REDCO_USE_EXPERT_GATE, "ffn.experts.mlp.w1", REDCOI_TENSOR},
    {REDCO_USE_EXPERT_UP, "ffn.experts.mlp.v1", REDCOI_TENSOR},
    {REDCO_USE_EXPERT_DOWN, "ffn.experts.mlp.w2", REDCOI_TURNED},
    {0},
};
static const redcoi_module head[] = {
    {REDCO_USE_FINAL_NORM, "transformer.norm_f", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"transformer.", embedding},
    [REDCO_CLASS_BLOCK] = {"transformer.blocks.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};
static const redcoi_expert_keys experts = {
    .outer = "ffn_config", .experts = "moe_num_experts", .choices = "moe_top_k", .width = "ffn_hidden_size"};

static void read_dbrx(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    redcoi_build inner = {.err = build->err};
    if (!redcoi_config_asks(build, "attn_config")) { return; }
    build->status = redco_json_object(&build->config, "attn_config", &inner.config, build->err);
    if (!redcoi_building(build)) { return; }
    dims->kv_heads = redcoi_config_derived(&inner, "kv_n_heads", NULL, dims->heads, REDCOI_MAX_HEADS);
    redcoi_config_divides(&inner, "kv_n_heads", dims->kv_heads, "n_heads", dims->heads);
    build->status = inner.status;
}

const redcoi_family redcoi_family_dbrx = {
    .type = "dbrx",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_HIDDEN] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_LAYERS] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_HEADS] = REDCOI_SIZE_REQUIRED},
    .layers = layers,
    .experts = &experts,
    .qkv = REDCOI_QKV_BY_KIND,
    .epsilon = {NULL, 1e-5},
    .deviation = {"initializer_range", 0.02},
    .active = {NULL, REDCOI_ACTIVATION_SILU},
    .read = read_dbrx,
};
