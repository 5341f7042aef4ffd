/* DeepSeek-V2 (arXiv 2405.04434) and -V3 (arXiv 2412.19437), and Kimi K2, which is V3 with other sizes: latent
 * attention, a few dense layers, then routed and shared experts; V3 with modules of multi-token prediction. The bias
 * with which V3 chooses experts is a buffer without gradient, and no parameter here.
 * Source: modeling_deepseek_v2.py, modeling_deepseek_v3.py and their configurations of HuggingFace transformers 5.24;
 * names of multi-token prediction: the checkpoint of DeepSeek-V3. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_QUERY_DOWN, "self_attn.q_a_proj", 0},
    {REDCO_USE_QUERY_LATENT_NORM, "self_attn.q_a_layernorm", 0},
    {REDCO_USE_QUERY_UP, "self_attn.q_b_proj", 0},
    {REDCO_USE_KV_DOWN, "self_attn.kv_a_proj_with_mqa", 0},
    {REDCO_USE_KV_LATENT_NORM, "self_attn.kv_a_layernorm", 0},
    {REDCO_USE_KV_UP, "self_attn.kv_b_proj", 0},
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
static const redcoi_expert_keys experts = {.experts = "n_routed_experts",
                                           .choices = "num_experts_per_tok",
                                           .width = "moe_intermediate_size",
                                           .shared = "n_shared_experts"};

static void read_deepseek(redcoi_build *build)
{
    redcoi_config_latents(build);
    redcoi_config_dense_first(build, "first_k_dense_replace", "moe_layer_freq");
}

#define COMMON                                                                                                         \
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true}, .keys = redcoi_latent_keys,  \
    .defaults = REDCOI_REQUIRED_SIZES, .layers = layers, .experts = &experts, .epsilon = {"rms_norm_eps", 1e-6},       \
    .deviation = {"initializer_range", 0.02}, .active = {"hidden_act", REDCOI_ACTIVATION_SILU}, .read = read_deepseek

const redcoi_family redcoi_family_deepseek_v2 = {.type = "deepseek_v2", COMMON};
const redcoi_family redcoi_family_deepseek_v3 = {
    .type = "deepseek_v3", .predictions = redcoi_predictions, .sigmoid_router = true, COMMON};
const redcoi_family redcoi_family_kimi_k2 = {
    .type = "kimi_k2", .predictions = redcoi_predictions, .sigmoid_router = true, COMMON};
