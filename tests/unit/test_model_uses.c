/* The use of each tensor of each model, by hand from the papers and modeling_*.py: a name, its use. */
#include "costmodel/models/model.h"
#include "topology/base/preset.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct wanted {
    const char *types;  /**< " TYPE TYPE " of configs */
    const char *module; /**< the tensor's name without ".weight" or ".bias" */
    redco_param_use use;
    bool seen;
} wanted;

static wanted uses[] = {
    /* LLaMA and what is made like it; the FFN is down(act(gate(x)) * up(x)). */
    {" llama mistral qwen2 qwen3 gemma phi3 generic ", "model.embed_tokens", REDCO_USE_TABLE, false},
    {" llama mistral qwen2 qwen3 gemma phi3 generic ", "model.layers.{}.input_layernorm", REDCO_USE_ATTENTION_NORM,
     false},
    {" llama mistral qwen2 qwen3 gemma generic ", "model.layers.{}.self_attn.q_proj", REDCO_USE_QUERY, false},
    {" llama mistral qwen2 qwen3 gemma generic ", "model.layers.{}.self_attn.k_proj", REDCO_USE_KEY, false},
    {" llama mistral qwen2 qwen3 gemma generic ", "model.layers.{}.self_attn.v_proj", REDCO_USE_VALUE, false},
    {" llama mistral qwen2 qwen3 gemma phi3 generic ", "model.layers.{}.self_attn.o_proj", REDCO_USE_OUTPUT, false},
    {" qwen3 ", "model.layers.{}.self_attn.q_norm", REDCO_USE_QUERY_NORM, false},
    {" qwen3 ", "model.layers.{}.self_attn.k_norm", REDCO_USE_KEY_NORM, false},
    {" llama mistral qwen2 qwen3 gemma phi3 generic ", "model.layers.{}.post_attention_layernorm", REDCO_USE_FFN_NORM,
     false},
    {" llama mistral qwen2 qwen3 gemma generic ", "model.layers.{}.mlp.gate_proj", REDCO_USE_GATE, false},
    {" llama mistral qwen2 qwen3 gemma generic ", "model.layers.{}.mlp.up_proj", REDCO_USE_UP, false},
    {" llama mistral qwen2 qwen3 gemma phi3 generic ", "model.layers.{}.mlp.down_proj", REDCO_USE_DOWN, false},
    {" llama mistral qwen2 qwen3 gemma phi3 internlm2 generic ", "model.norm", REDCO_USE_FINAL_NORM, false},
    {" llama mistral qwen2 qwen3 gemma phi3 gpt2 gptj opt bloom mpt t5 mt5 bart generic ", "lm_head", REDCO_USE_HEAD,
     false},
    /* Phi-3: down(act(a) * b) of a, b = the halves of gate_up(x) */
    {" phi3 ", "model.layers.{}.self_attn.qkv_proj", REDCO_USE_QKV, false},
    {" phi3 ", "model.layers.{}.mlp.gate_up_proj", REDCO_USE_GATE_UP, false},
    /* InternLM2: w2(act(w1(x)) * w3(x)) */
    {" internlm2 ", "model.tok_embeddings", REDCO_USE_TABLE, false},
    {" internlm2 ", "model.layers.{}.attention_norm", REDCO_USE_ATTENTION_NORM, false},
    {" internlm2 ", "model.layers.{}.attention.wqkv", REDCO_USE_QKV, false},
    {" internlm2 ", "model.layers.{}.attention.wo", REDCO_USE_OUTPUT, false},
    {" internlm2 ", "model.layers.{}.ffn_norm", REDCO_USE_FFN_NORM, false},
    {" internlm2 ", "model.layers.{}.feed_forward.w1", REDCO_USE_GATE, false},
    {" internlm2 ", "model.layers.{}.feed_forward.w3", REDCO_USE_UP, false},
    {" internlm2 ", "model.layers.{}.feed_forward.w2", REDCO_USE_DOWN, false},
    {" internlm2 ", "output", REDCO_USE_HEAD, false},
    /* GPT-2, GPT-J */
    {" gpt2 gptj ", "transformer.wte", REDCO_USE_TABLE, false},
    {" gpt2 ", "transformer.wpe", REDCO_USE_POSITIONS, false},
    {" gpt2 gptj ", "transformer.h.{}.ln_1", REDCO_USE_ATTENTION_NORM, false},
    {" gpt2 ", "transformer.h.{}.attn.c_attn", REDCO_USE_QKV, false},
    {" gpt2 ", "transformer.h.{}.attn.c_proj", REDCO_USE_OUTPUT, false},
    {" gpt2 ", "transformer.h.{}.ln_2", REDCO_USE_FFN_NORM, false},
    {" gpt2 ", "transformer.h.{}.mlp.c_fc", REDCO_USE_UP, false},
    {" gpt2 ", "transformer.h.{}.mlp.c_proj", REDCO_USE_DOWN, false},
    {" gptj ", "transformer.h.{}.attn.q_proj", REDCO_USE_QUERY, false},
    {" gptj ", "transformer.h.{}.attn.k_proj", REDCO_USE_KEY, false},
    {" gptj ", "transformer.h.{}.attn.v_proj", REDCO_USE_VALUE, false},
    {" gptj ", "transformer.h.{}.attn.out_proj", REDCO_USE_OUTPUT, false},
    {" gptj ", "transformer.h.{}.mlp.fc_in", REDCO_USE_UP, false},
    {" gptj ", "transformer.h.{}.mlp.fc_out", REDCO_USE_DOWN, false},
    {" gpt2 gptj bloom ", "transformer.ln_f", REDCO_USE_FINAL_NORM, false},
    /* GPT-NeoX */
    {" gpt_neox ", "gpt_neox.embed_in", REDCO_USE_TABLE, false},
    {" gpt_neox ", "gpt_neox.layers.{}.input_layernorm", REDCO_USE_ATTENTION_NORM, false},
    {" gpt_neox ", "gpt_neox.layers.{}.post_attention_layernorm", REDCO_USE_FFN_NORM, false},
    {" gpt_neox ", "gpt_neox.layers.{}.attention.query_key_value", REDCO_USE_QKV, false},
    {" gpt_neox ", "gpt_neox.layers.{}.attention.dense", REDCO_USE_OUTPUT, false},
    {" gpt_neox ", "gpt_neox.layers.{}.mlp.dense_h_to_4h", REDCO_USE_UP, false},
    {" gpt_neox ", "gpt_neox.layers.{}.mlp.dense_4h_to_h", REDCO_USE_DOWN, false},
    {" gpt_neox ", "gpt_neox.final_layer_norm", REDCO_USE_FINAL_NORM, false},
    {" gpt_neox ", "embed_out", REDCO_USE_HEAD, false},
    /* OPT: final_layer_norm of a layer stands before its FFN. */
    {" opt ", "model.decoder.embed_tokens", REDCO_USE_TABLE, false},
    {" opt bart ", "model.decoder.embed_positions", REDCO_USE_POSITIONS, false},
    {" opt ", "model.decoder.project_in", REDCO_USE_PROJECT_IN, false},
    {" opt ", "model.decoder.project_out", REDCO_USE_PROJECT_OUT, false},
    {" opt bart ", "model.decoder.layers.{}.self_attn.q_proj", REDCO_USE_QUERY, false},
    {" opt bart ", "model.decoder.layers.{}.self_attn.k_proj", REDCO_USE_KEY, false},
    {" opt bart ", "model.decoder.layers.{}.self_attn.v_proj", REDCO_USE_VALUE, false},
    {" opt bart ", "model.decoder.layers.{}.self_attn.out_proj", REDCO_USE_OUTPUT, false},
    {" opt bart ", "model.decoder.layers.{}.self_attn_layer_norm", REDCO_USE_ATTENTION_NORM, false},
    {" opt bart ", "model.decoder.layers.{}.fc1", REDCO_USE_UP, false},
    {" opt bart ", "model.decoder.layers.{}.fc2", REDCO_USE_DOWN, false},
    {" opt bart ", "model.decoder.layers.{}.final_layer_norm", REDCO_USE_FFN_NORM, false},
    {" opt ", "model.decoder.final_layer_norm", REDCO_USE_FINAL_NORM, false},
    /* BART */
    {" bart ", "model.shared", REDCO_USE_TABLE, false},
    {" bart ", "model.encoder.embed_positions", REDCO_USE_ENCODER_POSITIONS, false},
    {" bart ", "model.encoder.layernorm_embedding", REDCO_USE_ENCODER_EMBEDDING_NORM, false},
    {" bart ", "model.decoder.layernorm_embedding", REDCO_USE_EMBEDDING_NORM, false},
    {" bart ", "model.encoder.layers.{}.self_attn.q_proj", REDCO_USE_QUERY, false},
    {" bart ", "model.encoder.layers.{}.self_attn.k_proj", REDCO_USE_KEY, false},
    {" bart ", "model.encoder.layers.{}.self_attn.v_proj", REDCO_USE_VALUE, false},
    {" bart ", "model.encoder.layers.{}.self_attn.out_proj", REDCO_USE_OUTPUT, false},
    {" bart ", "model.encoder.layers.{}.self_attn_layer_norm", REDCO_USE_ATTENTION_NORM, false},
    {" bart ", "model.encoder.layers.{}.fc1", REDCO_USE_UP, false},
    {" bart ", "model.encoder.layers.{}.fc2", REDCO_USE_DOWN, false},
    {" bart ", "model.encoder.layers.{}.final_layer_norm", REDCO_USE_FFN_NORM, false},
    {" bart ", "model.decoder.layers.{}.encoder_attn.q_proj", REDCO_USE_CROSS_QUERY, false},
    {" bart ", "model.decoder.layers.{}.encoder_attn.k_proj", REDCO_USE_CROSS_KEY, false},
    {" bart ", "model.decoder.layers.{}.encoder_attn.v_proj", REDCO_USE_CROSS_VALUE, false},
    {" bart ", "model.decoder.layers.{}.encoder_attn.out_proj", REDCO_USE_CROSS_OUTPUT, false},
    {" bart ", "model.decoder.layers.{}.encoder_attn_layer_norm", REDCO_USE_CROSS_NORM, false},
    /* BLOOM */
    {" bloom ", "transformer.word_embeddings", REDCO_USE_TABLE, false},
    {" bloom ", "transformer.word_embeddings_layernorm", REDCO_USE_EMBEDDING_NORM, false},
    {" bloom ", "transformer.h.{}.input_layernorm", REDCO_USE_ATTENTION_NORM, false},
    {" bloom ", "transformer.h.{}.self_attention.query_key_value", REDCO_USE_QKV, false},
    {" bloom ", "transformer.h.{}.self_attention.dense", REDCO_USE_OUTPUT, false},
    {" bloom ", "transformer.h.{}.post_attention_layernorm", REDCO_USE_FFN_NORM, false},
    {" bloom ", "transformer.h.{}.mlp.dense_h_to_4h", REDCO_USE_UP, false},
    {" bloom ", "transformer.h.{}.mlp.dense_4h_to_h", REDCO_USE_DOWN, false},
    /* MPT */
    {" mpt ", "transformer.wte", REDCO_USE_TABLE, false},
    {" mpt ", "transformer.blocks.{}.norm_1", REDCO_USE_ATTENTION_NORM, false},
    {" mpt ", "transformer.blocks.{}.attn.Wqkv", REDCO_USE_QKV, false},
    {" mpt ", "transformer.blocks.{}.attn.out_proj", REDCO_USE_OUTPUT, false},
    {" mpt ", "transformer.blocks.{}.norm_2", REDCO_USE_FFN_NORM, false},
    {" mpt ", "transformer.blocks.{}.ffn.up_proj", REDCO_USE_UP, false},
    {" mpt ", "transformer.blocks.{}.ffn.down_proj", REDCO_USE_DOWN, false},
    {" mpt ", "transformer.norm_f", REDCO_USE_FINAL_NORM, false},
    /* T5: wo(act(wi(x))), gated wo(act(wi_0(x)) * wi_1(x)) */
    {" t5 mt5 ", "shared", REDCO_USE_TABLE, false},
    {" t5 mt5 ", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias", REDCO_USE_ENCODER_RELATIVE_BIAS,
     false},
    {" t5 mt5 ", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias", REDCO_USE_RELATIVE_BIAS, false},
    {" t5 mt5 ", "encoder.block.{}.layer.0.SelfAttention.q", REDCO_USE_QUERY, false},
    {" t5 mt5 ", "encoder.block.{}.layer.0.SelfAttention.k", REDCO_USE_KEY, false},
    {" t5 mt5 ", "encoder.block.{}.layer.0.SelfAttention.v", REDCO_USE_VALUE, false},
    {" t5 mt5 ", "encoder.block.{}.layer.0.SelfAttention.o", REDCO_USE_OUTPUT, false},
    {" t5 mt5 ", "encoder.block.{}.layer.0.layer_norm", REDCO_USE_ATTENTION_NORM, false},
    {" t5 mt5 ", "encoder.block.{}.layer.1.DenseReluDense.wi", REDCO_USE_UP, false},
    {" t5 mt5 ", "encoder.block.{}.layer.1.DenseReluDense.wi_0", REDCO_USE_GATE, false},
    {" t5 mt5 ", "encoder.block.{}.layer.1.DenseReluDense.wi_1", REDCO_USE_UP, false},
    {" t5 mt5 ", "encoder.block.{}.layer.1.DenseReluDense.wo", REDCO_USE_DOWN, false},
    {" t5 mt5 ", "encoder.block.{}.layer.1.layer_norm", REDCO_USE_FFN_NORM, false},
    {" t5 mt5 ", "decoder.block.{}.layer.0.SelfAttention.q", REDCO_USE_QUERY, false},
    {" t5 mt5 ", "decoder.block.{}.layer.0.SelfAttention.k", REDCO_USE_KEY, false},
    {" t5 mt5 ", "decoder.block.{}.layer.0.SelfAttention.v", REDCO_USE_VALUE, false},
    {" t5 mt5 ", "decoder.block.{}.layer.0.SelfAttention.o", REDCO_USE_OUTPUT, false},
    {" t5 mt5 ", "decoder.block.{}.layer.0.layer_norm", REDCO_USE_ATTENTION_NORM, false},
    {" t5 mt5 ", "decoder.block.{}.layer.1.EncDecAttention.q", REDCO_USE_CROSS_QUERY, false},
    {" t5 mt5 ", "decoder.block.{}.layer.1.EncDecAttention.k", REDCO_USE_CROSS_KEY, false},
    {" t5 mt5 ", "decoder.block.{}.layer.1.EncDecAttention.v", REDCO_USE_CROSS_VALUE, false},
    {" t5 mt5 ", "decoder.block.{}.layer.1.EncDecAttention.o", REDCO_USE_CROSS_OUTPUT, false},
    {" t5 mt5 ", "decoder.block.{}.layer.1.layer_norm", REDCO_USE_CROSS_NORM, false},
    {" t5 mt5 ", "decoder.block.{}.layer.2.DenseReluDense.wi", REDCO_USE_UP, false},
    {" t5 mt5 ", "decoder.block.{}.layer.2.DenseReluDense.wi_0", REDCO_USE_GATE, false},
    {" t5 mt5 ", "decoder.block.{}.layer.2.DenseReluDense.wi_1", REDCO_USE_UP, false},
    {" t5 mt5 ", "decoder.block.{}.layer.2.DenseReluDense.wo", REDCO_USE_DOWN, false},
    {" t5 mt5 ", "decoder.block.{}.layer.2.layer_norm", REDCO_USE_FFN_NORM, false},
    {" t5 mt5 ", "encoder.final_layer_norm", REDCO_USE_ENCODER_FINAL_NORM, false},
    {" t5 mt5 ", "decoder.final_layer_norm", REDCO_USE_FINAL_NORM, false},
    /* The same names of later families. */
    {" olmo gemma2 gemma3_text olmo2 smollm3 granite seed_oss internlm3 minicpm glm4 exaone4 baichuan cohere cohere2 "
     "starcoder2 phi stablelm nemotron ",
     "model.embed_tokens", REDCO_USE_TABLE, false},
    {" gemma2 gemma3_text smollm3 granite seed_oss internlm3 minicpm glm4 baichuan cohere cohere2 starcoder2 phi "
     "stablelm nemotron ",
     "model.layers.{}.input_layernorm", REDCO_USE_ATTENTION_NORM, false},
    {" olmo gemma2 gemma3_text olmo2 smollm3 granite seed_oss internlm3 minicpm glm4 exaone4 cohere cohere2 starcoder2 "
     "phi "
     "stablelm nemotron ",
     "model.layers.{}.self_attn.q_proj", REDCO_USE_QUERY, false},
    {" olmo gemma2 gemma3_text olmo2 smollm3 granite seed_oss internlm3 minicpm glm4 exaone4 baichuan cohere cohere2 "
     "starcoder2 stablelm nemotron ",
     "model.layers.{}.self_attn.o_proj", REDCO_USE_OUTPUT, false},
    {" gemma3_text exaone4 ", "model.layers.{}.self_attn.q_norm", REDCO_USE_QUERY_NORM, false},
    {" smollm3 granite seed_oss internlm3 minicpm glm4 baichuan starcoder2 stablelm nemotron ",
     "model.layers.{}.post_attention_layernorm", REDCO_USE_FFN_NORM, false},
    {" olmo gemma2 gemma3_text olmo2 smollm3 granite seed_oss internlm3 minicpm exaone4 baichuan cohere cohere2 "
     "stablelm ",
     "model.layers.{}.mlp.gate_proj", REDCO_USE_GATE, false},
    {" olmo gemma2 gemma3_text olmo2 smollm3 granite seed_oss internlm3 minicpm exaone4 baichuan cohere cohere2 "
     "stablelm "
     "nemotron ",
     "model.layers.{}.mlp.up_proj", REDCO_USE_UP, false},
    {" olmo gemma2 gemma3_text olmo2 smollm3 granite seed_oss internlm3 minicpm glm4 exaone4 baichuan cohere cohere2 "
     "stablelm nemotron ",
     "model.layers.{}.mlp.down_proj", REDCO_USE_DOWN, false},
    {" gemma2 gemma3_text olmo2 smollm3 granite seed_oss internlm3 minicpm glm4 exaone4 baichuan cohere cohere2 "
     "starcoder2 stablelm nemotron ",
     "model.norm", REDCO_USE_FINAL_NORM, false},
    {" gpt_bigcode olmo olmo2 seed_oss internlm3 glm4 exaone4 baichuan phi stablelm nemotron falcon qwen exaone ",
     "lm_head", REDCO_USE_HEAD, false},
    {" glm4 ", "model.layers.{}.mlp.gate_up_proj", REDCO_USE_GATE_UP, false},
    {" olmo gemma2 gemma3_text olmo2 smollm3 granite seed_oss internlm3 minicpm glm4 exaone4 cohere cohere2 starcoder2 "
     "phi "
     "stablelm nemotron ",
     "model.layers.{}.self_attn.k_proj", REDCO_USE_KEY, false},
    {" olmo gemma2 gemma3_text olmo2 smollm3 granite seed_oss internlm3 minicpm glm4 exaone4 cohere cohere2 starcoder2 "
     "phi "
     "stablelm nemotron ",
     "model.layers.{}.self_attn.v_proj", REDCO_USE_VALUE, false},
    {" gemma3_text exaone4 ", "model.layers.{}.self_attn.k_norm", REDCO_USE_KEY_NORM, false},
    /* Norms behind the parts; Gemma's second norm is before the FFN. */
    {" gemma2 gemma3_text olmo2 exaone4 ", "model.layers.{}.post_attention_layernorm", REDCO_USE_ATTENTION_END_NORM,
     false},
    {" gemma2 gemma3_text ", "model.layers.{}.pre_feedforward_layernorm", REDCO_USE_FFN_NORM, false},
    {" gemma2 gemma3_text olmo2 exaone4 ", "model.layers.{}.post_feedforward_layernorm", REDCO_USE_FFN_END_NORM, false},
    {" glm4 ", "model.layers.{}.post_self_attn_layernorm", REDCO_USE_ATTENTION_END_NORM, false},
    {" glm4 ", "model.layers.{}.post_mlp_layernorm", REDCO_USE_FFN_END_NORM, false},
    /* Norms of all heads: OLMo 2's of their sum, Cohere's of each. */
    {" olmo2 cohere ", "model.layers.{}.self_attn.q_norm", REDCO_USE_QUERIES_NORM, false},
    {" olmo2 cohere ", "model.layers.{}.self_attn.k_norm", REDCO_USE_KEYS_NORM, false},
    /* Baichuan, StarCoder 2, Phi */
    {" baichuan ", "model.layers.{}.self_attn.W_pack", REDCO_USE_QKV, false},
    {" starcoder2 ", "model.layers.{}.mlp.c_fc", REDCO_USE_UP, false},
    {" starcoder2 ", "model.layers.{}.mlp.c_proj", REDCO_USE_DOWN, false},
    {" phi ", "model.layers.{}.self_attn.dense", REDCO_USE_OUTPUT, false},
    {" phi ", "model.layers.{}.mlp.fc1", REDCO_USE_UP, false},
    {" phi ", "model.layers.{}.mlp.fc2", REDCO_USE_DOWN, false},
    {" phi ", "model.final_layernorm", REDCO_USE_FINAL_NORM, false},
    /* Falcon, Qwen: c_proj(w1(x) * act(w2(x))), EXAONE */
    {" falcon ", "transformer.word_embeddings", REDCO_USE_TABLE, false},
    {" falcon ", "transformer.h.{}.input_layernorm", REDCO_USE_ATTENTION_NORM, false},
    {" falcon ", "transformer.h.{}.ln_attn", REDCO_USE_ATTENTION_NORM, false},
    {" falcon ", "transformer.h.{}.ln_mlp", REDCO_USE_FFN_NORM, false},
    {" falcon ", "transformer.h.{}.self_attention.query_key_value", REDCO_USE_QKV, false},
    {" falcon ", "transformer.h.{}.self_attention.dense", REDCO_USE_OUTPUT, false},
    {" falcon ", "transformer.h.{}.mlp.dense_h_to_4h", REDCO_USE_UP, false},
    {" falcon ", "transformer.h.{}.mlp.dense_4h_to_h", REDCO_USE_DOWN, false},
    {" falcon qwen exaone ", "transformer.ln_f", REDCO_USE_FINAL_NORM, false},
    {" qwen exaone ", "transformer.wte", REDCO_USE_TABLE, false},
    {" qwen exaone ", "transformer.h.{}.ln_1", REDCO_USE_ATTENTION_NORM, false},
    {" qwen exaone ", "transformer.h.{}.ln_2", REDCO_USE_FFN_NORM, false},
    {" qwen ", "transformer.h.{}.attn.c_attn", REDCO_USE_QKV, false},
    {" qwen ", "transformer.h.{}.attn.c_proj", REDCO_USE_OUTPUT, false},
    {" qwen ", "transformer.h.{}.mlp.w2", REDCO_USE_GATE, false},
    {" qwen ", "transformer.h.{}.mlp.w1", REDCO_USE_UP, false},
    {" qwen exaone ", "transformer.h.{}.mlp.c_proj", REDCO_USE_DOWN, false},
    {" exaone ", "transformer.h.{}.attn.attention.q_proj", REDCO_USE_QUERY, false},
    {" exaone ", "transformer.h.{}.attn.attention.k_proj", REDCO_USE_KEY, false},
    {" exaone ", "transformer.h.{}.attn.attention.v_proj", REDCO_USE_VALUE, false},
    {" exaone ", "transformer.h.{}.attn.attention.out_proj", REDCO_USE_OUTPUT, false},
    {" exaone ", "transformer.h.{}.mlp.c_fc_0", REDCO_USE_GATE, false},
    {" exaone ", "transformer.h.{}.mlp.c_fc_1", REDCO_USE_UP, false},
    {" gpt_bigcode ", "transformer.wte", REDCO_USE_TABLE, false},
    {" gpt_bigcode ", "transformer.wpe", REDCO_USE_POSITIONS, false},
    {" gpt_bigcode ", "transformer.h.{}.ln_1", REDCO_USE_ATTENTION_NORM, false},
    {" gpt_bigcode ", "transformer.h.{}.attn.c_attn", REDCO_USE_QKV, false},
    {" gpt_bigcode ", "transformer.h.{}.attn.c_proj", REDCO_USE_OUTPUT, false},
    {" gpt_bigcode ", "transformer.h.{}.ln_2", REDCO_USE_FFN_NORM, false},
    {" gpt_bigcode ", "transformer.h.{}.mlp.c_fc", REDCO_USE_UP, false},
    {" gpt_bigcode ", "transformer.h.{}.mlp.c_proj", REDCO_USE_DOWN, false},
    {" gpt_bigcode ", "transformer.ln_f", REDCO_USE_FINAL_NORM, false},
};
enum { USES = sizeof uses / sizeof uses[0] };

static wanted *find(const char *type, const char *name, size_t length)
{
    char word[40];
    (void)snprintf(word, sizeof word, " %s ", type);
    for (size_t i = 0; i < USES; i++) {
        if (strlen(uses[i].module) == length && strncmp(uses[i].module, name, length) == 0 &&
            strstr(uses[i].types, word) != NULL) {
            return &uses[i];
        }
    }
    return NULL;
}

static void check(const redco_model *model, const char *what)
{
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    for (size_t i = 0; i < count; i++) {
        const char *const leaf = strrchr(params[i].name, '.');
        assert_non_null(leaf);
        const bool bias = strcmp(leaf, ".bias") == 0;
        wanted *const row = find(redco_model_type(model), params[i].name, (size_t)(leaf - params[i].name));
        if (row == NULL || row->use != params[i].use) { fail_msg("%s: %s", what, params[i].name); }
        row->seen = true;
        assert_int_equal(bias, params[i].role == REDCO_PARAM_BIAS);
        /* found by its class and use, and no other is */
        assert_int_equal(redco_model_find(model, params[i].class_index, params[i].use, bias), i);
    }
}

static void every_tensor_has_its_use(void **state)
{
    (void)state;
    for (size_t i = 0; redco_preset_at("models", i) != NULL; i++) {
        redco_model *model = NULL;
        assert_int_equal(redco_model_read(redco_preset_at("models", i)->name, &model, NULL), REDCO_OK);
        if (redco_model_is_paired(model)) { /* mixtures, which have tests of their own */
            redco_model_free(model);
            continue;
        }
        check(model, redco_model_name(model));
        redco_model_free(model);
    }
    const char *const folder = REDCO_TEST_DATA "/models"; /* biases, gates, heads of their own */
    DIR *const listing = opendir(folder);
    assert_non_null(listing);
    for (const struct dirent *item = readdir(listing); item != NULL; item = readdir(listing)) {
        char path[512];
        redco_json *document = NULL;
        redco_json_value config;
        redco_model *model = NULL;
        if (strstr(item->d_name, ".json") == NULL) { continue; }
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        assert_int_equal(redco_json_open(path, &document, NULL), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        assert_int_equal(redco_json_object(&root, "config", &config, NULL), REDCO_OK);
        assert_int_equal(redco_model_from_json(&config, item->d_name, &model, NULL), REDCO_OK);
        check(model, item->d_name);
        redco_model_free(model);
        redco_json_close(document);
    }
    (void)closedir(listing);
    for (size_t i = 0; i < USES; i++) {
        if (!uses[i].seen) { fail_msg("no model has %s", uses[i].module); }
    }
}

static void what_is_not_there_is_not_found(void **state)
{
    redco_model *model = NULL;
    (void)state;
    assert_int_equal(redco_model_read("llama-7b", &model, NULL), REDCO_OK);
    assert_int_equal(redco_model_find(model, 1, REDCO_USE_QKV, false), REDCO_NO_PARAM);
    assert_int_equal(redco_model_find(model, 1, REDCO_USE_QUERY, true), REDCO_NO_PARAM);
    assert_int_equal(redco_model_find(model, 0, REDCO_USE_QUERY, false), REDCO_NO_PARAM);
    assert_int_equal(redco_model_find(model, 9, REDCO_USE_QUERY, false), REDCO_NO_PARAM);
    redco_model_free(model);
}

typedef struct kinds {
    const char *preset;
    redco_norm_kind norm;
    redco_position_kind positions;
    redco_activation_kind activation;
    bool head_norms;
} kinds;

static const kinds of_presets[] = {
    {"llama-7b", REDCO_NORM_RMS, REDCO_POSITIONS_ROTARY, REDCO_ACTIVATION_GATED, false},
    {"mistral-7b", REDCO_NORM_RMS, REDCO_POSITIONS_ROTARY, REDCO_ACTIVATION_GATED, false},
    {"qwen2-7b", REDCO_NORM_RMS, REDCO_POSITIONS_ROTARY, REDCO_ACTIVATION_GATED, false},
    {"qwen3-8b", REDCO_NORM_RMS, REDCO_POSITIONS_ROTARY, REDCO_ACTIVATION_GATED, true},
    {"phi-3-mini", REDCO_NORM_RMS, REDCO_POSITIONS_ROTARY, REDCO_ACTIVATION_GATED, false},
    {"internlm2-7b", REDCO_NORM_RMS, REDCO_POSITIONS_ROTARY, REDCO_ACTIVATION_GATED, false},
    {"gemma-7b", REDCO_NORM_RMS, REDCO_POSITIONS_ROTARY, REDCO_ACTIVATION_GATED, false},
    {"gpt2", REDCO_NORM_LAYER, REDCO_POSITIONS_LEARNED, REDCO_ACTIVATION_GELU, false},
    {"gpt-j-6b", REDCO_NORM_LAYER, REDCO_POSITIONS_ROTARY, REDCO_ACTIVATION_GELU, false},
    {"gpt-neox-20b", REDCO_NORM_LAYER, REDCO_POSITIONS_ROTARY, REDCO_ACTIVATION_GELU, false},
    {"opt-66b", REDCO_NORM_LAYER, REDCO_POSITIONS_LEARNED, REDCO_ACTIVATION_RELU, false},
    {"bloom-176b", REDCO_NORM_LAYER, REDCO_POSITIONS_ALIBI, REDCO_ACTIVATION_GELU, false},
    {"mpt-7b", REDCO_NORM_LAYER, REDCO_POSITIONS_ALIBI, REDCO_ACTIVATION_GELU, false},
    {"t5-11b", REDCO_NORM_RMS, REDCO_POSITIONS_RELATIVE, REDCO_ACTIVATION_GELU, false}, /* ReLU, priced as GELU is */
    {"bart-large", REDCO_NORM_LAYER, REDCO_POSITIONS_LEARNED, REDCO_ACTIVATION_GELU, false},
};

static void dims_say_norm_positions_and_activation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof of_presets / sizeof of_presets[0]; i++) {
        const kinds *const row = &of_presets[i];
        redco_model *model = NULL;
        assert_int_equal(redco_model_read(row->preset, &model, NULL), REDCO_OK);
        const redco_model_dims *const dims = redco_model_get_dims(model);
        if (dims->norm != row->norm || dims->positions != row->positions || dims->activation != row->activation ||
            dims->head_norms != row->head_norms) {
            fail_msg("%s", row->preset);
        }
        redco_model_free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_has_its_use),
        cmocka_unit_test(what_is_not_there_is_not_found),
        cmocka_unit_test(dims_say_norm_positions_and_activation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
