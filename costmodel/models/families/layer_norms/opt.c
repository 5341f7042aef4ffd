/* OPT (Zhang et al., arXiv 2205.01068): learned positions behind two unused rows, ReLU; OPT-350M has its norms behind
 * the residual sums and a table narrower than the model. Source: modeling_opt.py and configuration_opt.py of
 * HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},
    [REDCOI_SIZE_HIDDEN] = {"hidden_size", NULL},
    [REDCOI_SIZE_FFN] = {"ffn_dim", NULL},
    [REDCOI_SIZE_LAYERS] = {"num_hidden_layers", NULL},
    [REDCOI_SIZE_HEADS] = {"num_attention_heads", NULL},
    [REDCOI_SIZE_POSITIONS] = {"max_position_embeddings", NULL},
};

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "embed_tokens", 0},
                                          {REDCO_USE_POSITIONS, "embed_positions", 0},
                                          {REDCO_USE_PROJECT_IN, "project_in", 0},
                                          {0}};
static const redcoi_module block[] = {
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.out_proj", 0},
    {REDCO_USE_ATTENTION_NORM, "self_attn_layer_norm", 0},
    {REDCO_USE_UP, "fc1", 0},
    {REDCO_USE_DOWN, "fc2", 0},
    {REDCO_USE_FFN_NORM, "final_layer_norm", 0},
    {0},
};
static const redcoi_module head[] = {{REDCO_USE_FINAL_NORM, "model.decoder.final_layer_norm", 0},
                                     {REDCO_USE_PROJECT_OUT, "model.decoder.project_out", 0},
                                     {REDCO_USE_HEAD, "lm_head", 0},
                                     {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"model.decoder.", embedding},
    [REDCO_CLASS_BLOCK] = {"model.decoder.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

static void read_opt(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    build->plain_norms = !redcoi_config_bool(build, "layer_norm_elementwise_affine", true);
    dims->post_norm = !redcoi_config_bool(build, "do_layer_norm_before", true);
    dims->no_final_norm = dims->post_norm || redcoi_config_bool(build, "_remove_final_layer_norm", false);
    dims->table_width = redcoi_config_derived(build, "word_embed_proj_dim", NULL, dims->hidden, REDCOI_MAX_WIDTH);
}

const redcoi_family redcoi_family_opt = {
    .type = "opt",
    .dims = {.norm = REDCO_NORM_LAYER,
             .positions = REDCO_POSITIONS_LEARNED,
             .activation = REDCO_ACTIVATION_RELU,
             .tied = true,
             .dropout = true},
    .keys = keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 50272,
                 [REDCOI_SIZE_HIDDEN] = 768,
                 [REDCOI_SIZE_FFN] = 3072,
                 [REDCOI_SIZE_LAYERS] = 12,
                 [REDCOI_SIZE_HEADS] = 12,
                 [REDCOI_SIZE_POSITIONS] = 2048},
    .dropout_key = "dropout",
    .layers = layers,
    .biases = REDCOI_NORM_BIASES & ~(REDCOI_BIT(PROJECT_IN) | REDCOI_BIT(PROJECT_OUT)),
    .bias_keys = {{"enable_bias", true, REDCOI_ATTENTION_BIASES | REDCOI_FFN_BIASES}},
    .unused_positions = 2,   /* OPTLearnedPositionalEmbedding */
    .epsilon = {NULL, 1e-5}, /* torch.nn.LayerNorm has this epsilon; the config has none */
    .deviation = {"init_std", 0.02},
    .active = {"activation_function", REDCOI_ACTIVATION_RELU},
    .read = read_opt,
};
