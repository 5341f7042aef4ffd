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

const redcoi_family redcoi_family_internlm2 = {
    .type = "internlm2", .norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .build = build_internlm2};
