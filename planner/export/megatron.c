/* Megatron-LM's arguments. Two engines: its own data parallelism (replicated parameters and gradients, the optimizer
   over all or, by --num-distributed-optimizer-instances, over groups of consecutive ranks), and Megatron-FSDP
   (gradients or all states over such groups; --outer-dp-sharding-strategy optim cuts the optimizer over all ranks all
   the same). Options: Megatron Core 0.20, megatron/training/arguments.py and the configuration classes that it reads.
 */
#include "planner/export/internal.h"

#include <stdlib.h>
#include <string.h>

typedef enum engine_kind { ENGINE_NONE, ENGINE_DDP, ENGINE_DISTRIBUTED_OPTIMIZER, ENGINE_FSDP } engine_kind;

static engine_kind engine_of(const redco_parallelism *parallelism, const redco_shards *shards)
{
    const redco_mesh p = shards->parameters;
    const redco_mesh g = shards->gradients;
    const redco_mesh os = shards->optimizer;
    const bool whole = redco_mesh_ranks(p) == 1;
    if (parallelism->secondary.gpus > 0 || !redco_mesh_consecutive(os, parallelism->dp) ||
        !redco_mesh_consecutive(g, parallelism->dp)) {
        return ENGINE_NONE;
    }
    if (redcoi_only_experts_repeat(parallelism)) { return ENGINE_DISTRIBUTED_OPTIMIZER; }
    if (whole && redco_mesh_ranks(g) == 1) {
        return redco_mesh_ranks(os) == 1 ? ENGINE_DDP : ENGINE_DISTRIBUTED_OPTIMIZER;
    }
    if (redco_mesh_equal(g, os)) { return whole || redco_mesh_equal(p, os) ? ENGINE_FSDP : ENGINE_NONE; }
    /* parameters and gradients inside, the optimizer over all */
    return redco_mesh_equal(p, g) && redco_mesh_equal(os, parallelism->dp) ? ENGINE_FSDP : ENGINE_NONE;
}

static bool can_shard(const redco_parallelism *parallelism, const redco_shards *shards)
{
    const engine_kind engine = engine_of(parallelism, shards);
    return engine != ENGINE_NONE && (engine != ENGINE_FSDP || parallelism->pp == 1);
}

static bool can_pipeline(const redco_pipeline *pipeline, const uint32_t *split, uint32_t layers)
{
    (void)split;
    (void)layers;
    return pipeline->kind == REDCO_PIPELINE_1F1B || pipeline->kind == REDCO_PIPELINE_INTERLEAVED;
}

/* --overlap-param-gather needs --overlap-grad-reduce. Megatron-FSDP has no other switches for its gathers and scatters.
 */
static uint32_t overlap(const redco_parallelism *parallelism, const redco_shards *shards, uint32_t wanted)
{
    const uint32_t reduce = REDCO_OVERLAP_AR;
    const engine_kind engine = engine_of(parallelism, shards);
    if (engine == ENGINE_FSDP) {
        const bool gathers = (wanted & (REDCO_OVERLAP_AG_RS | REDCO_OVERLAP_BC)) != 0;
        if (gathers) { return REDCO_OVERLAP_ALL; }
        return wanted & reduce;
    }
    if ((wanted & reduce) == 0) { return REDCO_OVERLAP_NONE; }
    return engine == ENGINE_DISTRIBUTED_OPTIMIZER ? wanted & (reduce | REDCO_OVERLAP_BC) : reduce;
}

static void number(json_t *json, const char *target, uint64_t value)
{
    redcoi_say_number(json, &redcoi_megatron_keys, target, value);
}

static void say(json_t *json, const char *target, const char *value)
{
    redcoi_say(json, &redcoi_megatron_keys, target, value);
}

static void beside(json_t *json, const char *key, json_t *value)
{
    redcoi_say_key(json, &redcoi_megatron_keys, key, value);
}

static void add_sharding(const redcoi_context *context, json_t *json)
{
    const redcoi_offer *offer = context->offer;
    const redco_shards *shards = &offer->layers[0].shards;
    const redco_parallelism sharded = redcoi_offer_sharded(context);
    const engine_kind engine = engine_of(&sharded, shards);
    const uint64_t all = redco_mesh_ranks(sharded.dp);
    const bool inner = redco_mesh_ranks(shards->gradients) > 1;
    const uint64_t group = redco_mesh_ranks(inner ? shards->gradients : shards->optimizer);
    const uint64_t instances = all / group;
    if (engine != ENGINE_DDP) {
        say(json, ".optimizer-shards", "yes");
        if (instances > 1) { number(json, ".optimizer-groups", instances); }
    }
    beside(json, "ddp-bucket-size", json_integer((json_int_t)redcoi_bucket_elements(context->plan)));
    if (engine == ENGINE_FSDP) {
        say(json, ".megatron-fsdp", "yes");
        say(json, ".fsdp-shards", redco_mesh_ranks(shards->parameters) > 1 ? "zero3" : "zero2");
        if (instances > 1) {
            say(json, ".outer-shards", redco_mesh_equal(shards->optimizer, shards->gradients) ? "" : "optim");
        }
        beside(json, "ckpt-format", json_string("fsdp_dtensor"));
    }
    const uint32_t traffic = offer->overlap & redcoi_traffic(&sharded, shards);
    const bool gathers = (traffic & (REDCO_OVERLAP_AG_RS | REDCO_OVERLAP_BC)) != 0;
    if (gathers || (traffic & REDCO_OVERLAP_AR) != 0) { say(json, ".overlap-ar", "yes"); }
    if (gathers) { say(json, ".overlap-bc", "yes"); }
}

/* A count is of every model chunk; where chunks differ in layers, one layer at a time of all of them. */
static void add_recompute(const redcoi_context *context, json_t *json)
{
    const uint32_t full = redcoi_count_recompute(context, REDCO_RECOMPUTE_FULL);
    const uint32_t stages = redcoi_positions(&context->offer->parallelism);
    const redco_recompute modules = redcoi_modules_recomputed(context);
    if (modules != REDCO_RECOMPUTE_NONE) {
        json_t *const names = json_array();
        for (size_t m = 0; redco_recompute_modules[m] != NULL; m++) {
            if ((modules >> m & 1) != 0) {
                (void)json_array_append_new(names, json_string(redco_recompute_modules[m]));
            }
        }
        say(json, ".recompute", "selective");
        redcoi_say_json(json, &redcoi_megatron_keys, ".recompute-modules", names);
    } else if (full > 0) {
        const bool uneven =
            full == context->plan->model_layers && (full % stages != 0 || context->offer->parallelism.split != NULL);
        say(json, ".recompute", "full");
        say(json, ".recompute-method", uneven ? "uniform" : "block");
        number(json, ".recompute-layers", uneven ? 1 : full / stages);
    }
}

/* "Et*11|t*11|t*10L": embedding, layers and head (loss) at each position. */
static void add_layout(const redcoi_context *context, uint32_t positions, json_t *json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) { return; }
    for (uint32_t i = 0; i < positions; i++) {
        const uint32_t layers = redcoi_position_layers(context, i);
        (void)fprintf(stream, "%s%s", i > 0 ? "|" : "", i == 0 ? "E" : "");
        if (layers > 0) { (void)fprintf(stream, "t*%u", layers); }
    }
    for (uint32_t i = 0; i < redco_model_get_dims(context->reopened->inputs.model)->predictions; i++) {
        (void)fputs("m", stream); /* beside the head, as the plan has them */
    }
    (void)fputs("L", stream);
    if (fclose(stream) == 0) { redcoi_say_json(json, &redcoi_megatron_keys, "pp-layout", json_string(text)); }
    free(text);
}

/* Cuts and orders the pipeline: model chunks, the group of micro-batches that runs through a chunk before the next one,
   and the layers of a position where they are not equal; a layout says the chunks, too.
   --num-layers-per-virtual-pipeline-stage is not written: it says the same as the number of chunks, and the parser
   takes one of both. */
static void add_stages(const redcoi_context *context, json_t *json)
{
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_pipeline pipeline = redco_parallelism_pipeline(parallelism);
    const uint32_t layers = context->plan->model_layers, positions = redcoi_positions(parallelism);
    const bool counted = parallelism->split == NULL && redco_stage_edges_count(layers, positions);
    const bool listed = parallelism->split != NULL || (layers % positions != 0 && !counted);
    if (parallelism->pp > 1 && pipeline.chunks > 1) {
        if (!listed) { number(json, "pp-chunks", pipeline.chunks); }
        number(json, "pp-group", pipeline.group);
    }
    if (listed) { add_layout(context, positions, json); }
    if (counted) {
        say(json, ".embedding-counts", "yes");
        say(json, ".loss-counts", "yes");
    }
}

/* Transformer Engine fuses norms; there is no switch for torch.compile, gathered logits or half recomputation. */
static void limit(redco_engine *engine, const redco_parallelism *parallelism)
{
    (void)parallelism;
    engine->plain_norm = engine->compiled = engine->logits_gathered = engine->partial_recompute = false;
    engine->planned_memory = engine->made_again = engine->cuda_graphs = engine->contiguous_context = false;
    engine->workspace_bytes = 0;
}

/* Nothing where the plan says nothing: Megatron's own choice is a flash kernel, too. */
static void add_engine(const redcoi_context *context, json_t *json)
{
    const redco_engine *engine = &context->offer->engine;
    const uint32_t bytes = redcoi_gradient_bytes(context->plan, engine);
    const redco_precision precision = redcoi_base_precision(context->plan);
    if (precision != REDCO_FP32) { say(json, precision == REDCO_BF16 ? ".bf16" : ".fp16", "yes"); }
    if (bytes == 2 && precision == REDCO_BF16) { say(json, "grad_reduce_bytes", "2"); }
    if (bytes == 4 && precision != REDCO_FP32) { say(json, "grad_reduce_bytes", "4"); }
    if (engine->attention != REDCO_ATTENTION_AUTO) {
        say(json, "attention", redcoi_flash_attention(engine) ? "" : "unfused");
    }
    if (engine->attention == REDCO_ATTENTION_UNFUSED) { beside(json, "no-masked-softmax-fusion", json_true()); }
    if (engine->attention == REDCO_ATTENTION_FLASH1 || engine->attention == REDCO_ATTENTION_FLASH3) {
        redcoi_note(context, "the version of flash attention is that of the installed library: the plan counts with %s",
                    engine->attention == REDCO_ATTENTION_FLASH1 ? "flash 1" : "flash 3");
    }
    if (engine->gemm_format == REDCO_GEMM_FP8 || engine->gemm_format == REDCO_GEMM_MXFP8) {
        say(json, ".fp8", "yes");
        say(json, ".fp8-recipe", engine->gemm_format == REDCO_GEMM_FP8 ? "fp8" : "mxfp8");
    }
    if (engine->gemm_format == REDCO_GEMM_NVFP4) { say(json, ".fp4", "yes"); }
    if (engine->fp8_activation_input) { say(json, "fp8_activation_input", "1"); }
    if (engine->fused_loss) { say(json, "cross_entropy", "fused"); }
    if (engine->async_tp && context->offer->parallelism.tp > 1) { say(json, ".overlap-tp", "yes"); }
}

static bool is_type(const redcoi_context *context, const char *const *types)
{
    for (; *types != NULL; types++) {
        if (strcmp(context->plan->model_type, *types) == 0) { return true; }
    }
    return false;
}

static void add_number(const redcoi_context *context, json_t *json, const char *key, const char *target)
{
    const json_t *value = json_object_get(context->plan->model_config, key);
    if (!json_is_number(value) || json_number_value(value) <= 0.0) { return; }
    if (strcmp(target, "rope_theta") == 0) { /* --rotary-base is a whole number */
        number(json, target, (uint64_t)(json_number_value(value) < 1e15 ? json_number_value(value) : 1e15));
    } else {
        redcoi_say_json(json, &redcoi_megatron_keys, target, json_real(json_number_value(value)));
    }
}

static void note_if(const redcoi_context *context, bool yes, const char *text)
{
    if (yes) { (void)json_array_append_new(context->notes, json_string(text)); }
}

static bool biased(const redco_model *model, redco_param_use use)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    for (uint32_t c = 0; c < count; c++) {
        if (redco_model_find(model, c, use, true) != REDCO_NO_PARAM) { return true; }
    }
    return false;
}

/* Options for the parts of the architecture that Megatron's GPT model has; notes tell the rest. */
static void add_architecture(const redcoi_context *context, json_t *json)
{
    static const char *const geglu[] = {"gemma", "gemma2", "gemma3_text", NULL};
    static const char *const own_blocks[] = {"gemma2", "gemma3_text", "olmo2", "granite", "smollm3", NULL};
    const redco_model *const model = context->reopened->inputs.model;
    const redco_model_dims *dims = redco_model_get_dims(model);
    const bool turned = dims->positions == REDCO_POSITIONS_ROTARY, rms = dims->norm == REDCO_NORM_RMS;
    const bool alibi = dims->positions == REDCO_POSITIONS_ALIBI, learned = dims->positions == REDCO_POSITIONS_LEARNED;
    say(json, ".positions", turned ? "rope" : learned ? "learned_absolute" : "none");
    if (turned) { add_number(context, json, "rope_theta", "rope_theta"); }
    if (turned) { add_number(context, json, "rotary_pct", ".rotary-percent"); }
    say(json, ".norm", rms ? "RMSNorm" : "LayerNorm");
    add_number(context, json, "rms_norm_eps", "rms_norm_eps");
    if (dims->gated && !is_type(context, geglu)) { say(json, ".gated", "yes"); }
    if (rms) { say(json, ".no-biases", "yes"); }
    if (biased(model, REDCO_USE_QUERY) && !biased(model, REDCO_USE_OUTPUT)) { say(json, ".qkv-bias", "yes"); }
    if (dims->head_norms) { say(json, ".head-norms", "yes"); }
    if (!dims->tied) { say(json, ".untied", "yes"); }
    if (!dims->dropout) {
        number(json, ".attention-dropout", 0);
        number(json, ".dropout", 0);
    }
    note_if(context, alibi, "Megatron-LM has no ALiBi positions: the layout stands, the model differs");
    note_if(context, dims->activation == REDCO_ACTIVATION_RELU,
            "Megatron-LM has no ReLU FFN: the layout stands, the model differs");
    note_if(context, is_type(context, geglu), "Megatron-LM has no GEGLU FFN: the layout stands, the model differs");
    note_if(
        context, is_type(context, own_blocks),
        "norms behind a block's parts, windows of some layers, factors and layers without rotation are not exported: "
        "the layout stands, the model differs");
    note_if(context, dims->parallel_block,
            "Megatron-LM runs attention and FFN one after the other, this model side by side: the model differs");
}

/* "([0]*3+[1]*58)": layers without experts and with, in the model's order; none where all have some. */
static void add_expert_layers(const redcoi_context *context, json_t *json)
{
    const redco_model *const model = context->reopened->inputs.model;
    const redco_layer_class *classes = NULL;
    const redco_layer_run *runs = NULL;
    const size_t count = redco_model_order(model, &runs);
    char *text = NULL;
    size_t size = 0;
    uint32_t lasts = 0;
    bool any_dense = false, last = false;
    FILE *const stream = open_memstream(&text, &size);
    if (stream == NULL) { return; }
    (void)redco_model_classes(model, &classes);
    (void)fputc('(', stream);
    for (size_t i = 0; i <= count; i++) {
        const bool block = i < count && redco_class_is_block(classes[runs[i].class_index].kind);
        const bool experts = block && redco_model_has_experts(model, runs[i].class_index);
        if (lasts > 0 && (i == count || (block && experts != last))) {
            (void)fprintf(stream, "%s[%d]*%u", ftell(stream) > 1 ? "+" : "", last ? 1 : 0, lasts);
            lasts = 0;
        }
        if (!block) { continue; }
        last = experts;
        any_dense = any_dense || !experts;
        lasts += runs[i].layers;
    }
    (void)fputc(')', stream);
    if (fclose(stream) == 0 && any_dense) { beside(json, "moe-layer-freq", json_string(text)); }
    free(text);
}

/* The router that a family has; what is none of Megatron's is told. */
static void add_router(const redcoi_context *context, json_t *json)
{
    static const char *const sigmoid[] = {"deepseek_v3", "kimi_k2", "glm4_moe", NULL};
    static const char *const others[] = {"gpt_oss", "llama4_text", "llama4", "phimoe", "dbrx", NULL};
    const json_t *const config = context->plan->model_config;
    const json_int_t groups = json_integer_value(json_object_get(config, "n_group"));
    const json_int_t chosen = json_integer_value(json_object_get(config, "topk_group"));
    const double scale = json_number_value(json_object_get(config, "routed_scaling_factor"));
    if (is_type(context, sigmoid)) {
        beside(json, "moe-router-score-function", json_string("sigmoid"));
        beside(json, "moe-router-enable-expert-bias", json_true());
    }
    if (groups > 1 && chosen > 0) {
        beside(json, "moe-router-num-groups", json_integer(groups));
        beside(json, "moe-router-group-topk", json_integer(chosen));
    }
    if (scale > 0.0) { beside(json, "moe-router-topk-scaling-factor", json_real(scale)); }
    note_if(context, is_type(context, others),
            "the router, windows and sinks of this family are not exported: the layout stands, the model differs");
}

/* Experts, latent attention and modules of multi-token prediction. */
static void add_mixture(const redcoi_context *context, json_t *json)
{
    const redco_model_dims *const dims = redco_model_get_dims(context->reopened->inputs.model);
    if (dims->key_latent > 0) {
        say(json, ".latent", "yes");
        beside(json, "qk-layernorm", json_true()); /* norms of the latents */
        if (dims->query_latent > 0) { number(json, "q_lora_rank", dims->query_latent); }
        number(json, "kv_lora_rank", dims->key_latent);
        number(json, "qk_nope_head_dim", dims->head_dim - dims->rotary_dim);
        number(json, "qk_rope_head_dim", dims->rotary_dim);
        number(json, "v_head_dim", redco_value_dim(dims));
    }
    if (dims->predictions > 0) { number(json, "num_nextn_predict_layers", dims->predictions); }
    if (dims->experts == 0) { return; }
    number(json, "num_experts", dims->experts);
    number(json, "num_experts_per_tok", dims->choices);
    number(json, "moe_intermediate_size", dims->expert_ffn);
    if (dims->shared_ffn > 0) { number(json, "shared_expert_intermediate_size", dims->shared_ffn); }
    if (dims->shared_ffn > 0 && strcmp(context->plan->model_type, "qwen2_moe") == 0) {
        beside(json, "moe-shared-expert-gate", json_true());
    }
    add_expert_layers(context, json);
    add_router(context, json);
}

/* Where experts are and how rows get there. DeepEP and its like take probabilities of 32 bits (token_dispatcher.py),
 * and need ranks to exchange with. */
static void add_experts(const redcoi_context *context, json_t *json)
{
    static const char *const backends[] = {NULL, "deepep", "hybridep", "ncclep"};
    const redco_engine *const engine = &context->offer->engine;
    const redco_parallelism *const p = &context->offer->parallelism;
    const uint32_t ep = redco_parallelism_ep(p), etp = redco_parallelism_etp(p);
    if (redco_model_get_dims(context->reopened->inputs.model)->experts == 0) { return; }
    const char *const backend = ep * p->tp > 1 ? backends[engine->dispatcher] : NULL;
    number(json, "ep", ep);
    number(json, "etp", etp);
    beside(json, "moe-token-dispatcher-type", json_string(backend != NULL ? "flex" : "alltoall"));
    if (backend != NULL) {
        beside(json, "moe-flex-dispatcher-backend", json_string(backend));
        beside(json, "moe-router-dtype", json_string("fp32"));
    }
    beside(json, "moe-grouped-gemm", json_true());
    /* validate_args and transformer_config.py: no exchange that is recomputed, nor stages of one chunk */
    const bool again = redcoi_count_recompute(context, REDCO_RECOMPUTE_FULL) > 0 ||
                       (redcoi_modules_recomputed(context) & REDCO_RECOMPUTE_MOE) != 0;
    const bool overlaps = ep > 1 && !again && (p->pp <= 1 || redco_parallelism_chunks(p) > 1);
    if (engine->ep_overlap && overlaps) { beside(json, "overlap-moe-expert-parallel-comm", json_true()); }
    note_if(context, engine->ep_overlap && !overlaps,
            "exchanges of experts do not overlap: Megatron-LM needs ep above 1, several model chunks where there are "
            "stages, and no recomputation of experts");
    if (engine->capacity_percent > 0) {
        beside(json, "moe-expert-capacity-factor", json_real(engine->capacity_percent / 100.0));
        beside(json, "moe-pad-expert-input-to-capacity", json_true());
    }
    if (engine->imbalance_percent > 0) {
        redcoi_note(context, "the plan counts with a fullest rank of experts at %.2f of the mean: routing decides that",
                    engine->imbalance_percent / 100.0);
    }
}

static void add_model(const redcoi_context *context, json_t *json)
{
    const redco_model_dims *dims = redco_model_get_dims(context->reopened->inputs.model);
    const uint32_t seq = context->plan->seq_len;
    number(json, "num_hidden_layers", dims->layers);
    number(json, "hidden_size", dims->hidden);
    number(json, "intermediate_size", dims->ffn);
    number(json, "num_attention_heads", dims->heads);
    if ((uint64_t)dims->head_dim * dims->heads != dims->hidden) { number(json, "head_dim", dims->head_dim); }
    if (dims->kv_heads < dims->heads) {
        say(json, ".grouped-heads", "yes");
        number(json, "num_key_value_heads", dims->kv_heads);
    }
    number(json, "vocab_size", dims->vocab);
    number(json, "seq", seq);
    number(json, "max_position_embeddings", dims->max_positions > seq ? dims->max_positions : seq);
    add_architecture(context, json);
    add_mixture(context, json);
}

static redco_status configure(const redcoi_context *context, json_t **config_out, redco_error *err)
{
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_plan *plan = context->plan;
    if (redco_model_get_dims(context->reopened->inputs.model)->encoder_layers > 0) {
        return redco_fail(err, REDCO_EINFEASIBLE, "", "Megatron-LM (Core 0.20) trains no encoder-decoder models");
    }
    json_t *json = json_object();
    if (json == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    number(json, "tp", parallelism->tp);
    number(json, "pp", parallelism->pp);
    number(json, "cp", parallelism->cp);
    if (parallelism->cp > 1) { say(json, "cp-type", redco_cp_type_words[parallelism->cp_type]); }
    if (context->offer->parallelism.sequence_parallel && parallelism->tp > 1) { say(json, "sequence-parallel", "on"); }
    number(json, "micro-batch", parallelism->micro_batch);
    number(json, "global-batch", plan->global_batch);
    add_engine(context, json);
    add_stages(context, json);
    add_sharding(context, json);
    add_experts(context, json);
    add_recompute(context, json);
    add_model(context, json);
    *config_out = json;
    return REDCO_OK;
}

/* NODE_RANK is a host's place in the plan's order, unless the caller says otherwise. */
static void write_hosts(const redco_plan *plan, FILE *stream)
{
    if (plan->hosts_count == 0) { return; }
    (void)fputs("if [ -z \"${NODE_RANK:-}\" ]; then\n    rank=0\n    for host in", stream);
    redcoi_write_hosts(plan, " \\\n        ", stream);
    (void)fputs("; do\n"
                "        case $host in \"$(hostname)\" | \"$(hostname -s)\") NODE_RANK=$rank ;; esac\n"
                "        [ $rank -gt 0 ] || MASTER_ADDR=${MASTER_ADDR:-$host}\n"
                "        rank=$((rank + 1))\n"
                "    done\n"
                "fi\n",
                stream);
}

static void write_launch(const redcoi_context *context, bool fsdp, FILE *stream)
{
    const redco_plan *plan = context->plan;
    char *order = redcoi_gpu_order_text(plan);
    (void)fputs(
        plan->hosts_count > 0
            ? "# Run it on every host in the Megatron-LM folder (NODE_RANK and MASTER_ADDR may be set); what it is "
              "given\n"
            : "# Run it on every host in the Megatron-LM folder with NODE_RANK and MASTER_ADDR set; what it is given\n",
        stream);
    (void)fputs("# (data, tokenizer, learning rate, ...) goes to pretrain_gpt.py.\n", stream);
    write_hosts(plan, stream);
    if (order != NULL) {
        (void)fprintf(stream, "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=%s\n", order);
    }
    (void)fputs(fsdp ? "unset CUDA_DEVICE_MAX_CONNECTIONS\n" : "export CUDA_DEVICE_MAX_CONNECTIONS=1\n", stream);
    (void)fprintf(stream,
                  "exec torchrun --nnodes=%u --nproc-per-node=%u --node-rank=\"${NODE_RANK:?}\" "
                  "--master-addr=\"${MASTER_ADDR:?}\" --master-port=\"${MASTER_PORT:-29500}\" pretrain_gpt.py \\\n",
                  redcoi_hosts(plan), redcoi_gpus_per_host(plan));
    free(order);
}

/* Values are numbers and words of the tables above: only a layout of stages needs quotes. */
static redco_status write(const redcoi_context *context, const json_t *config, FILE *stream, redco_error *err)
{
    const char *option = NULL;
    json_t *value = NULL;
    (void)err;
    (void)fputs("#!/bin/sh\n", stream);
    redcoi_write_header(context, "# ", "Megatron-LM (Core 0.20)", stream);
    size_t i = 0;
    json_t *note = NULL;
    json_array_foreach(context->notes, i, note)
    {
        redcoi_write_comment(stream, "# ", json_string_value(note));
    }
    write_launch(context, json_object_get(config, "use-megatron-fsdp") != NULL, stream);
    json_object_foreach((json_t *)(uintptr_t)config, option, value)
    {
        (void)fprintf(stream, "    --%s", option);
        if (json_is_integer(value)) { (void)fprintf(stream, " %" JSON_INTEGER_FORMAT, json_integer_value(value)); }
        if (json_is_real(value)) { (void)fprintf(stream, " %.*g", REDCO_PLAN_DIGITS, json_real_value(value)); }
        json_t *each = NULL;
        json_array_foreach(value, i, each)
        {
            (void)fprintf(stream, " %s", json_string_value(each));
        }
        if (json_is_string(value)) {
            const char *quote = strpbrk(json_string_value(value), "|*(") != NULL ? "'" : "";
            (void)fprintf(stream, " %s%s%s", quote, json_string_value(value), quote);
        }
        (void)fputs(" \\\n", stream);
    }
    (void)fputs("    \"$@\"\n", stream);
    return REDCO_OK;
}

const redcoi_ability redcoi_megatron = {
    .title = "Megatron-LM",
    .engine = "megatron-lm",
    .source = "Megatron Core 0.20: megatron/training/arguments.py, megatron/core/model_parallel_config.py, "
              "megatron/core/transformer/transformer_config.py, docs/user-guide/features/megatron_fsdp.md",
    .pipeline = true,
    .context_parallel = true,
    .cp_types = 1U << REDCO_CP_P2P | 1U << REDCO_CP_ALL_GATHER | 1U << REDCO_CP_ALL_TO_ALL,
    .cp_type = REDCO_CP_P2P,
    .sequence_parallel = true,
    .shard_over_cp = true,
    .launches = true,
    .own_tp = true,
    .can_pipeline = can_pipeline,
    .limit = limit,
    .scheme_fixed = true,
    .scheme = REDCO_INTRA_TENSOR,
    .recompute = REDCOI_RECOMPUTE_ONE_KIND,
    .can_shard = can_shard,
    .overlap = overlap,
    .configure = configure,
    .write = write,
};
