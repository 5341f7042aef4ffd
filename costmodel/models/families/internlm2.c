/* InternLM2 (Cai et al., arXiv 2403.17297): LLaMA with queries, keys and values in one matrix, interleaved by group of
 * heads. Source: modeling_internlm2.py of internlm/internlm2-7b. */
#include "costmodel/models/family.h"

static void build_internlm2(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    redcoi_llama_dims(
        build, &(redcoi_llama_defaults){.vocab = 103168, .hidden = 4096, .ffn = 11008, .layers = 32, .heads = 32});
    const bool bias = redcoi_config_bool(build, "bias", true);
    const uint64_t h = dims->hidden;
    const uint64_t q = (uint64_t)dims->heads * dims->head_dim, kv = (uint64_t)dims->kv_heads * dims->head_dim;
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "");
    redcoi_table(build, REDCO_USE_TABLE, "model.tok_embeddings", dims->vocab, h);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "model.layers.{}.");
    redcoi_norm(build, REDCO_USE_ATTENTION_NORM, "attention_norm", h, false);
    redcoi_linear(build, REDCO_USE_QKV, "attention.wqkv", q + 2 * kv, h, bias);
    redcoi_linear(build, REDCO_USE_OUTPUT, "attention.wo", h, q, bias);
    redcoi_norm(build, REDCO_USE_FFN_NORM, "ffn_norm", h, false);
    redcoi_linear(build, REDCO_USE_GATE, "feed_forward.w1", dims->ffn, h, false);
    redcoi_linear(build, REDCO_USE_UP, "feed_forward.w3", dims->ffn, h, false);
    redcoi_linear(build, REDCO_USE_DOWN, "feed_forward.w2", h, dims->ffn, false);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_norm(build, REDCO_USE_FINAL_NORM, "model.norm", h, false);
    redcoi_untied_head(build, "output");
}

/* The matrix has for each group of heads its queries, then its key, then its value. */
static redco_value attend(redcoi_pass *p, redco_value y)
{
    const redco_model_dims *const d = p->dims;
    const uint64_t groups = d->kv_heads, shared = d->heads / d->kv_heads, size = d->head_dim;
    const redco_value qkv = redcoi_lm_product(p, REDCO_USE_QKV, y);
    redco_graph_set_role(p->g, REDCO_OP_ROLE_ROTARY);
    const uint64_t dim[5] = {p->batch, p->length, groups, shared + 2, size};
    const redco_value by_group = redco_reshape(p->g, qkv, 5, dim);
    redco_value q = redcoi_lm_heads(p, redco_slice_axis(p->g, by_group, 3, 0, shared), d->heads);
    redco_value k = redcoi_lm_heads(p, redco_slice_axis(p->g, by_group, 3, shared, 1), groups);
    const redco_value v = redcoi_lm_heads(p, redco_slice_axis(p->g, by_group, 3, shared + 1, 1), groups);
    redcoi_lm_rotate(p, &q, &k);
    return redcoi_lm_attention(p, q, k, v);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    return redcoi_lm_block(p, x, attend);
}

const redcoi_family redcoi_family_internlm2 = {
    .type = "internlm2",
    .norm = REDCO_NORM_RMS,
    .positions = REDCO_POSITIONS_ROTARY,
    .build = build_internlm2,
    .graph = {.read = redcoi_llama_read, .embed = redcoi_lm_tokens, .block = block, .head = redcoi_lm_head}};
