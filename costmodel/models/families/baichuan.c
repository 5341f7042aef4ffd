/* Baichuan and Baichuan 2 (Yang et al., arXiv 2309.10305): LLaMA with queries, keys and values in one matrix. 7B has
 * rotary positions and 13B ALiBi, which configs do not say: a width of 4096 means 7B, as in vLLM's
 * model_executor/models/baichuan.py. Baichuan 2, known by its vocabulary, divides the rows of its head by their length.
 * Source: modeling_baichuan.py beside baichuan-inc/Baichuan-7B, Baichuan-13B-Base, Baichuan2-7B-Base, 13B-Base. */
#include "costmodel/models/family.h"

enum { ROTARY_WIDTH = 4096, VOCABULARY_2 = 125696 };

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},          [REDCOI_SIZE_HIDDEN] = {"hidden_size", NULL},
    [REDCOI_SIZE_FFN] = {"intermediate_size", NULL},     [REDCOI_SIZE_LAYERS] = {"num_hidden_layers", NULL},
    [REDCOI_SIZE_HEADS] = {"num_attention_heads", NULL},
};

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QKV, "self_attn.W_pack", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE, "mlp.gate_proj", 0},
    {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};

static void read_positions(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    if (dims->hidden != ROTARY_WIDTH) { dims->positions = REDCO_POSITIONS_ALIBI; }
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)config;
    s->unit_head = dims->vocab == VOCABULARY_2;
}

const redcoi_family redcoi_family_baichuan = {
    .type = "baichuan",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 64000,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 11008,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = layers,
    .qkv = REDCOI_QKV_BY_KIND,
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {NULL, 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = read_positions,
    .read_settings = read_settings,
};
