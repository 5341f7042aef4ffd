/* OPT and BART: fairseq's transformer, with learned positions that start at row 2.
 * Source: modeling_opt.py, modeling_bart.py and their configurations of HuggingFace transformers 4.48. */
#include "costmodel/models/model_build.h"

/* Rows of the position tables that no position uses (OPTLearnedPositionalEmbedding, BartLearnedPositionalEmbedding). */
static const uint32_t position_offset = 2;

static void add_attention(redcoi_build *build, const char *const names[4], bool bias)
{
    const uint64_t hidden = build->model->dims.hidden;
    for (size_t i = 0; i < 4; i++) { redcoi_linear(build, names[i], hidden, hidden, bias); }
}

static const char *const self_attention[4] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                              "self_attn.out_proj"};
static const char *const cross_attention[4] = {"encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj",
                                               "encoder_attn.out_proj"};

/* OPT can leave the gain and bias of every norm out. */
static void add_opt_norm(redcoi_build *build, const char *name, bool affine)
{
    if (affine) { redcoi_layer_norm(build, name, build->model->dims.hidden, true); }
}

static void add_opt_tensors(redcoi_build *build, uint32_t table_width)
{
    const redco_model_dims *dims = &build->model->dims;
    const bool bias = redcoi_config_bool(build, "enable_bias", true);
    const bool affine = redcoi_config_bool(build, "layer_norm_elementwise_affine", true);
    const bool final_norm = redcoi_config_bool(build, "do_layer_norm_before", true) &&
                            !redcoi_config_bool(build, "_remove_final_layer_norm", false);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "model.decoder.");
    redcoi_table(build, "embed_tokens", dims->vocab, table_width);
    redcoi_table(build, "embed_positions", (uint64_t)dims->max_positions + position_offset, dims->hidden);
    if (table_width != dims->hidden) { redcoi_linear(build, "project_in", dims->hidden, table_width, false); }
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "model.decoder.layers.{}.");
    add_attention(build, self_attention, bias);
    add_opt_norm(build, "self_attn_layer_norm", affine);
    redcoi_linear(build, "fc1", dims->ffn, dims->hidden, bias);
    redcoi_linear(build, "fc2", dims->hidden, dims->ffn, bias);
    add_opt_norm(build, "final_layer_norm", affine);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    add_opt_norm(build, "model.decoder.final_layer_norm", affine && final_norm);
    if (table_width != dims->hidden) {
        redcoi_linear(build, "model.decoder.project_out", table_width, dims->hidden, false);
    }
    if (!dims->tied) { redcoi_linear(build, "lm_head", dims->vocab, table_width, false); }
}

void redcoi_build_opt(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 50272, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "hidden_size", NULL, 768, REDCOI_MAX_WIDTH);
    dims->ffn = redcoi_config_u32(build, "ffn_dim", NULL, 3072, REDCOI_MAX_FFN);
    dims->layers = redcoi_config_u32(build, "num_hidden_layers", NULL, 12, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "num_attention_heads", NULL, 12, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, "num_attention_heads", dims->heads, "hidden_size", dims->hidden);
    dims->kv_heads = dims->heads;
    dims->head_dim = dims->hidden / dims->heads;
    dims->max_positions = redcoi_config_u32(build, "max_position_embeddings", NULL, 2048, REDCOI_MAX_ROWS);
    dims->learned_positions = true;
    dims->dropout = redcoi_config_dropout(build, "dropout", 0.1);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    dims->post_norm = !redcoi_config_bool(build, "do_layer_norm_before", true);
    dims->no_final_norm = dims->post_norm || redcoi_config_bool(build, "_remove_final_layer_norm", false);
    add_opt_tensors(build, redcoi_config_derived(build, "word_embed_proj_dim", NULL, dims->hidden, REDCOI_MAX_WIDTH));
}

/* Encoder and decoder have their own number of heads and FFN width; dims keeps the decoder's heads. */
struct bart_side {
    const char *name, *layers_key, *heads_key, *ffn_key, *prefix;
    redco_class_kind kind;
    uint32_t layers, ffn;
};

static void read_bart_side(redcoi_build *build, struct bart_side *side, const char *heads_alias)
{
    redco_model_dims *dims = &build->model->dims;
    side->layers = redcoi_config_u32(build, side->layers_key, NULL, 12, REDCOI_MAX_LAYERS);
    side->ffn = redcoi_config_u32(build, side->ffn_key, NULL, 4096, REDCOI_MAX_FFN);
    dims->heads = redcoi_config_u32(build, side->heads_key, heads_alias, 16, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, side->heads_key, dims->heads, "d_model", dims->hidden);
    if (side->ffn > dims->ffn) { dims->ffn = side->ffn; }
}

static void add_bart_side(redcoi_build *build, const struct bart_side *side)
{
    const uint32_t hidden = build->model->dims.hidden;
    redcoi_class(build, side->name, side->kind, side->layers, side->prefix);
    add_attention(build, self_attention, true);
    redcoi_layer_norm(build, "self_attn_layer_norm", hidden, true);
    if (side->kind == REDCO_CLASS_CROSS) {
        add_attention(build, cross_attention, true);
        redcoi_layer_norm(build, "encoder_attn_layer_norm", hidden, true);
    }
    redcoi_linear(build, "fc1", side->ffn, hidden, true);
    redcoi_linear(build, "fc2", hidden, side->ffn, true);
    redcoi_layer_norm(build, "final_layer_norm", hidden, true);
}

void redcoi_build_bart(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    struct bart_side encoder = {.name = "encoder",
                                .layers_key = "encoder_layers",
                                .heads_key = "encoder_attention_heads",
                                .ffn_key = "encoder_ffn_dim",
                                .prefix = "model.encoder.layers.{}.",
                                .kind = REDCO_CLASS_BLOCK};
    struct bart_side decoder = {.name = "decoder",
                                .layers_key = "decoder_layers",
                                .heads_key = "decoder_attention_heads",
                                .ffn_key = "decoder_ffn_dim",
                                .prefix = "model.decoder.layers.{}.",
                                .kind = REDCO_CLASS_CROSS};
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 50265, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "d_model", "hidden_size", 1024, REDCOI_MAX_WIDTH);
    read_bart_side(build, &encoder, "num_attention_heads");
    read_bart_side(build, &decoder, NULL);
    dims->layers = decoder.layers;
    dims->encoder_layers = encoder.layers;
    dims->kv_heads = dims->heads;
    dims->head_dim = dims->hidden / dims->heads;
    dims->max_positions = redcoi_config_u32(build, "max_position_embeddings", NULL, 1024, REDCOI_MAX_ROWS);
    dims->learned_positions = true;
    dims->dropout = redcoi_config_dropout(build, "dropout", 0.1);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "model.");
    redcoi_table(build, "shared", dims->vocab, dims->hidden);
    redcoi_table(build, "encoder.embed_positions", (uint64_t)dims->max_positions + position_offset, dims->hidden);
    redcoi_layer_norm(build, "encoder.layernorm_embedding", dims->hidden, true);
    redcoi_table(build, "decoder.embed_positions", (uint64_t)dims->max_positions + position_offset, dims->hidden);
    redcoi_layer_norm(build, "decoder.layernorm_embedding", dims->hidden, true);
    add_bart_side(build, &encoder);
    add_bart_side(build, &decoder);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    if (!dims->tied) { redcoi_linear(build, "lm_head", dims->vocab, dims->hidden, false); }
}
