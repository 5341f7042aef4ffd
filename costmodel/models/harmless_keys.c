/* Keys of a config.json that change no number of redco's.
 * Source: configuration_*.py and configuration_utils.py of HuggingFace transformers 4.48 and 5. */
#include "costmodel/models/family.h"

#include <string.h>

/* A key that is harmless, for one family or, with NULL, for all; with @p only as long as its value is that JSON. */
struct harmless {
    const char *family, *key, *only;
};

#define REDCOI_MIXTURES "?" /* in place of a family */

/* Names and versions; what is asked of a generation or of another head than the language model's; other frameworks. */
static const struct harmless table[] = {
    {NULL, "architectures", NULL},
    {NULL, "auto_map", NULL},
    {NULL, "model_type", NULL},
    {NULL, "torch_dtype", NULL},
    {NULL, "dtype", NULL},
    {NULL, "transformers_version", NULL},
    {NULL, "use_cache", NULL},
    {NULL, "return_dict", NULL},
    {NULL, "output_hidden_states", NULL},
    {NULL, "output_attentions", NULL},
    {NULL, "output_past", NULL},
    {NULL, "torchscript", NULL},
    {NULL, "use_bfloat16", NULL},
    {NULL, "tf_legacy_loss", NULL},
    {NULL, "attn_implementation", NULL},
    {NULL, "gradient_checkpointing", NULL},
    {NULL, "chunk_size_feed_forward", NULL},
    {NULL, "pretraining_tp", NULL}, /* cuts products: another rounding */
    {NULL, "bos_token_id", NULL},
    {NULL, "eos_token_id", NULL},
    {NULL, "pad_token_id", NULL},
    {NULL, "sep_token_id", NULL},
    {NULL, "unk_token_id", NULL},
    {NULL, "decoder_start_token_id", NULL},
    {NULL, "tokenizer_class", NULL},
    {NULL, "max_position_embeddings", NULL}, /* the tables' rows are asked for by families that have some */
    {NULL, "initializer_range", NULL},
    {NULL, "finetuning_task", NULL},
    {NULL, "problem_type", NULL},
    {NULL, "task_specific_params", NULL},
    {NULL, "id2label", NULL},
    {NULL, "label2id", NULL},
    {NULL, "num_labels", NULL},
    {NULL, "classifier_dropout", NULL},
    {NULL, "classif_dropout", NULL},
    {NULL, "hidden_dropout_prob", NULL},
    {NULL, "is_encoder_decoder", NULL},
    {NULL, "is_decoder", NULL},
    {NULL, "cross_attention_hidden_size", "null"},
    {NULL, "add_cross_attention", "false"},
    {NULL, "tie_encoder_decoder", "false"},
    {NULL, "pruned_heads", "{}"},
    /* settings of generations */
    {NULL, "prefix", NULL},
    {NULL, "max_length", NULL},
    {NULL, "min_length", NULL},
    {NULL, "do_sample", NULL},
    {NULL, "early_stopping", NULL},
    {NULL, "num_beams", NULL},
    {NULL, "num_beam_groups", NULL},
    {NULL, "diversity_penalty", NULL},
    {NULL, "temperature", NULL},
    {NULL, "top_k", NULL},
    {NULL, "top_p", NULL},
    {NULL, "typical_p", NULL},
    {NULL, "length_penalty", NULL},
    {NULL, "num_return_sequences", NULL},
    {NULL, "output_scores", NULL},
    {NULL, "return_dict_in_generate", NULL},
    {NULL, "remove_invalid_values", NULL},
    {NULL, "repetition_penalty", NULL},
    {NULL, "no_repeat_ngram_size", NULL},
    {NULL, "encoder_no_repeat_ngram_size", NULL},
    {NULL, "bad_words_ids", NULL},
    {NULL, "forced_bos_token_id", NULL},
    {NULL, "forced_eos_token_id", NULL},
    {NULL, "suppress_tokens", NULL},
    {NULL, "begin_suppress_tokens", NULL},
    {NULL, "exponential_decay_length_penalty", NULL},
    /* dropouts, which redco-exec does not apply and says so: redco_model_dropouts() */
    {NULL, "attention_dropout", NULL},
    {NULL, "attn_pdrop", NULL},
    {NULL, "embd_pdrop", NULL},
    {NULL, "emb_pdrop", NULL},
    {NULL, "resid_pdrop", NULL},
    {NULL, "hidden_dropout", NULL},
    {NULL, "dropout", NULL},
    {NULL, "dropout_rate", NULL},
    {NULL, "activation_dropout", NULL},
    {NULL, "layerdrop", NULL},
    {NULL, "encoder_layerdrop", NULL},
    {NULL, "decoder_layerdrop", NULL},
    /* by family */
    {"gpt2", "n_ctx", NULL},
    {"gpt2", "reorder_and_upcast_attn", NULL}, /* another precision of the same numbers */
    {"gpt2", "summary_type", NULL},
    {"gpt2", "summary_use_proj", NULL},
    {"gpt2", "summary_activation", NULL},
    {"gpt2", "summary_proj_to_labels", NULL},
    {"gpt2", "summary_first_dropout", NULL},
    {"gptj", "n_ctx", NULL},
    {"gptj", "n_positions", NULL},
    {"gptj", "summary_type", NULL},
    {"gptj", "summary_use_proj", NULL},
    {"gptj", "summary_activation", NULL},
    {"gptj", "summary_proj_to_labels", NULL},
    {"gptj", "summary_first_dropout", NULL},
    {"gptj", "scale_attn_weights", "true"},
    {"gptj", "rotary", "true"},
    {"gptj", "gradient_checkpointing", NULL},
    {"gpt_neox", "classifier_dropout", NULL},
    {"bloom", "slow_but_exact", NULL},
    {"bloom", "masked_softmax_fusion", NULL},
    {"bloom", "attention_softmax_in_fp32", NULL},
    {"bloom", "bias_dropout_fusion", NULL},
    {"bloom", "skip_bias_add", NULL},
    {"bloom", "skip_bias_add_qkv", NULL},
    {"bloom", "seq_length", NULL},
    {"bloom", "unk_token_id", NULL},
    {"mpt", "max_seq_len", NULL},
    {"mpt", "verbose", NULL},
    {"mpt", "init_device", NULL},
    {"mpt", "init_config", NULL},
    {"mpt", "ffn_config", NULL},
    {"mpt", "norm_type", NULL}, /* one norm, whatever it says */
    {"mpt", "logit_scale", "null"},
    {"mpt", "embedding_fraction", NULL}, /* another code scales the gradient by it; transformers ignores it */
    {"opt", "init_std", NULL},
    {"opt", "activation_function", NULL},
    {"bart", "init_std", NULL},
    {"bart", "normalize_before", "false"},
    {"bart", "normalize_embedding", "true"},
    {"bart", "add_bias_logits", "false"},
    {"bart", "add_final_layer_norm", "false"},
    {"bart", "static_position_embeddings", "false"},
    {"bart", "extra_pos_embeddings", NULL},
    {"bart", "force_bos_token_to_be_generated", NULL},
    {"bart", "num_hidden_layers", NULL}, /* the encoder's again */
    {"t5", "n_positions", NULL},
    {"t5", "is_gated_act", NULL}, /* by feed_forward_proj */
    {"t5", "dense_act_fn", NULL},
    {"mt5", "n_positions", NULL},
    {"mt5", "is_gated_act", NULL},
    {"mt5", "dense_act_fn", NULL},
    {"phi3", "original_max_position_embeddings", NULL}, /* scalings that are refused have it */
    {"llama", "rope_interleaved", "false"},
    {"smollm3", "layer_types", NULL}, /* all see all keys */
    {"starcoder2", "mlp_type", "\"default\""},
    {"starcoder2", "norm_type", "\"layer_norm\""},
    {"starcoder2", "embedding_dropout", NULL},
    {"gpt_bigcode", "attention_softmax_in_fp32", NULL}, /* fused kernels do so anyway */
    {"gpt_bigcode", "scale_attention_softmax_in_fp32", NULL},
    {"gpt_bigcode", "inference_runner", NULL},
    {"gpt_bigcode", "validate_runner_input", NULL},
    {"gpt_bigcode", "pre_allocate_kv_cache", NULL},
    {"gpt_bigcode", "max_sequence_length", NULL},
    {"gpt_bigcode", "max_batch_size", NULL},
    {"gpt_bigcode", "pad_key_length", NULL},
    {"cohere", "rotary_pct", "1.0"},
    {"cohere2", "rotary_pct", "1.0"},
    {"cohere2", "position_embedding_type", "\"rope_gptj\""},
    {"cohere2", "order_of_interleaved_layers", "\"local_attn_first\""},
    {"cohere2", "layer_switch", NULL}, /* the window's pattern again */
    {"cohere2", "use_embedding_sharing", "true"},
    {"cohere2", "use_gated_activation", "true"},
    {"cohere2", "use_parallel_block", "true"},
    {"cohere2", "use_parallel_embedding", NULL},
    {"cohere2", "use_qk_norm", "false"},
    {"phi", "embd_pdrop", NULL},
    {"stablelm", "num_heads", NULL}, /* again */
    {"seed_oss", "pad_token_id", NULL},
    {"exaone", "embed_dropout", NULL},
    {"baichuan", "model_max_length", NULL},
    {"baichuan", "z_loss_weight", "0"},
    {"qwen", "use_dynamic_ntk", NULL}, /* beyond the trained length, of a generation */
    {"qwen", "use_logn_attn", NULL},
    {"qwen", "seq_length", NULL},
    {"qwen", "use_flash_attn", NULL}, /* another kernel for the same numbers */
    {"qwen", "use_cache_quantization", NULL},
    {"qwen", "use_cache_kernel", NULL},
    {"qwen", "softmax_in_fp32", NULL},
    {"qwen", "attn_dropout_prob", NULL},
    {"qwen", "emb_dropout_prob", NULL},
    {"qwen", "bf16", NULL},
    {"qwen", "fp16", NULL},
    {"qwen", "fp32", NULL},
    {"falcon", "n_head_kv", NULL}, /* num_kv_heads, of older checkpoints */
    /* mixtures: no operator, tensor or byte depends on how scores become choices and weights, on scales, nor on
     * the angles of positions; redco-exec trains none */
    {REDCOI_MIXTURES, "norm_topk_prob", NULL},
    {REDCOI_MIXTURES, "output_router_logits", NULL},
    {REDCOI_MIXTURES, "router_aux_loss_coef", NULL},
    {REDCOI_MIXTURES, "router_jitter_noise", NULL},
    {REDCOI_MIXTURES, "router_z_loss_coef", NULL},
    {REDCOI_MIXTURES, "input_jitter_noise", NULL},
    {REDCOI_MIXTURES, "routed_scaling_factor", NULL},
    {REDCOI_MIXTURES, "scoring_func", NULL},
    {REDCOI_MIXTURES, "topk_method", NULL},
    {REDCOI_MIXTURES, "n_group", NULL},
    {REDCOI_MIXTURES, "topk_group", NULL},
    {REDCOI_MIXTURES, "aux_loss_alpha", NULL},
    {REDCOI_MIXTURES, "seq_aux", NULL},
    {REDCOI_MIXTURES, "ep_size", NULL},
    {REDCOI_MIXTURES, "experts_per_token", NULL},
    {REDCOI_MIXTURES, "rope_theta", NULL},
    {REDCOI_MIXTURES, "rope_scaling", NULL},
    {REDCOI_MIXTURES, "rope_parameters", NULL},
    {REDCOI_MIXTURES, "rope_interleave", NULL},
    {REDCOI_MIXTURES, "partial_rotary_factor", NULL},
    {REDCOI_MIXTURES, "max_seq_len", NULL},
    {REDCOI_MIXTURES, "clip_qkv", NULL},
    {REDCOI_MIXTURES, "swiglu_limit", NULL},
    {REDCOI_MIXTURES, "initial_context_length", NULL},
    {REDCOI_MIXTURES, "quantization_config", NULL}, /* stored weights */
    {REDCOI_MIXTURES, "rms_norm_eps", NULL},
    {REDCOI_MIXTURES, "embedding_multiplier", NULL},
    {REDCOI_MIXTURES, "attention_multiplier", NULL},
    {REDCOI_MIXTURES, "residual_multiplier", NULL},
    {REDCOI_MIXTURES, "logits_scaling", NULL},
    {REDCOI_MIXTURES, "attention_bias", "false"},
    {REDCOI_MIXTURES, "mlp_bias", "false"},
    {REDCOI_MIXTURES, "num_nextn_predict_layers", "0"},
    {"deepseek_v2", "num_key_value_heads", NULL}, /* as many as heads */
    {"deepseek_v3", "num_key_value_heads", NULL},
    {"kimi_k2", "num_key_value_heads", NULL},
    {"deepseek_v2", "head_dim", NULL},
    {"deepseek_v3", "head_dim", NULL},
    {"kimi_k2", "head_dim", NULL},
    {"llama4_text", "use_qk_norm", NULL}, /* it has no weights */
    {"llama4_text", "attn_temperature_tuning", NULL},
    {"llama4_text", "attn_scale", NULL},
    {"llama4_text", "floor_scale", NULL},
    {"llama4_text", "for_llm_compressor", NULL},
};

static bool is_only(const json_t *value, const char *only)
{
    json_t *const wanted = json_loads(only, JSON_DECODE_ANY, NULL);
    const bool same = wanted != NULL && json_equal(value, wanted) != 0;
    json_decref(wanted);
    return same;
}

bool redcoi_key_is_harmless(const char *family, bool mixture, const char *key, const json_t *value)
{
    if (key[0] == '_' || json_is_null(value)) { return true; }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct harmless *const h = &table[i];
        const bool ours =
            h->family == NULL || strcmp(h->family, family) == 0 || (mixture && strcmp(h->family, REDCOI_MIXTURES) == 0);
        if (strcmp(h->key, key) != 0 || !ours) { continue; }
        if (h->only == NULL || is_only(value, h->only)) { return true; }
    }
    return false;
}

static bool lists(const char *const *keys, const char *name)
{
    while (*keys != NULL && strcmp(*keys, name) != 0) { keys++; }
    return *keys != NULL;
}

void redcoi_config_inner(redcoi_build *build, const char *place, const json_t *object, const char *const *known,
                         const char *const *also)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        bool found = redcoi_key_is_harmless("", false, name, value) || build->inner_count == REDCOI_INNER_KEYS;
        found = found || lists(known, name) || lists(also, name);
        for (size_t i = 0; i < build->inner_count && !found; i++) { found = build->inner[i].key == name; }
        if (found) { continue; }
        build->inner[build->inner_count].outer = place;
        build->inner[build->inner_count].value = value;
        build->inner[build->inner_count++].key = name;
    }
}
