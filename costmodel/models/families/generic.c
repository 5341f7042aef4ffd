/* A model that is known by its dimensions alone, as tables of measured runs give them: a decoder of plain blocks
 * without biases or learned positions. Its tensors have the names of LLaMA's, so that rules by name know what they are
 * for. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_QUERY_DOWN, "self_attn.q_a_proj", 0},
    {REDCO_USE_QUERY_LATENT_NORM, "self_attn.q_a_layernorm", 0},
    {REDCO_USE_QUERY_UP, "self_attn.q_b_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_KV_DOWN, "self_attn.kv_a_proj_with_mqa", 0},
    {REDCO_USE_KV_LATENT_NORM, "self_attn.kv_a_layernorm", 0},
    {REDCO_USE_KV_UP, "self_attn.kv_b_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_LATENT_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE, "mlp.gate_proj", 0},
    {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {REDCO_USE_ROUTER, "mlp.gate", 0},
    {REDCO_USE_EXPERT_GATE, "mlp.experts.{}.gate_proj", 0},
    {REDCO_USE_EXPERT_UP, "mlp.experts.{}.up_proj", 0},
    {REDCO_USE_EXPERT_DOWN, "mlp.experts.{}.down_proj", 0},
    {REDCO_USE_SHARED_GATE, "mlp.shared_experts.gate_proj", 0},
    {REDCO_USE_SHARED_UP, "mlp.shared_experts.up_proj", 0},
    {REDCO_USE_SHARED_DOWN, "mlp.shared_experts.down_proj", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};
static const redcoi_expert_keys experts = {.experts = "num_experts",
                                           .choices = "num_experts_per_tok",
                                           .width = "moe_intermediate_size",
                                           .all_shared = "shared_expert_intermediate_size",
                                           .optional = true};

static void read_generic(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    dims->gated = redcoi_config_bool(build, "gated", true);
    dims->dropout_open = !redco_json_has(&build->config, "hidden_dropout");
    dims->dropout = redcoi_config_dropout(build, "hidden_dropout", 0.0);
    if (redco_json_has(&build->config, "kv_lora_rank")) { redcoi_config_latents(build); }
    if (dims->experts > 0) { redcoi_config_dense_first(build, "first_k_dense_replace", NULL); }
}

/* There is no architecture whose default an absent dimension could take. No settings are read: its layers are known,
 * but not the numbers with which one would train it. */
const redcoi_family redcoi_family_generic = {
    .type = "generic",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_HIDDEN] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_FFN] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_LAYERS] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_HEADS] = REDCOI_SIZE_REQUIRED},
    .layers = layers,
    .experts = &experts,
    .predictions = redcoi_predictions,
    .untrained = true,
    .read = read_generic,
};
