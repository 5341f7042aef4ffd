/* torchtitan's configuration: a Python function that changes a Trainer.Config. Shards lie over dp_shard x cp, gathered
   block by block; one policy of activation checkpointing holds for all blocks; gradients are reduced in 32 bits after
   every micro-batch, or, with stages, after the last one. Keys: torchtitan 0.2.2, commit b5bcd76,
   torchtitan/config/configs.py, distributed/fsdp.py, distributed/pipeline_parallel.py,
   distributed/activation_checkpoint.py. */
#include "planner/export/internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_one(redco_mesh mesh)
{
    return redco_mesh_ranks(mesh) == 1;
}

/* With stages, parameters are gathered once and gradients accumulated unsharded (PyTorch 2,
   torch/distributed/pipelining/stage.py); without, every micro-batch gathers and scatters. */
static bool can_shard(const redco_parallelism *parallelism, const redco_shards *shards)
{
    const redco_mesh os = shards->optimizer;
    const bool whole = is_one(shards->parameters);
    if (parallelism->secondary.gpus > 0 || !redco_mesh_consecutive(os, parallelism->dp)) { return false; }
    if (is_one(os)) { return parallelism->cp == 1; }
    if (redco_mesh_ranks(os) % parallelism->cp != 0) { return false; }
    if (parallelism->pp > 1) { return whole && is_one(shards->gradients); }
    return redco_mesh_equal(shards->gradients, os) &&
           (redco_mesh_equal(shards->parameters, os) || (whole && parallelism->micro_batches == 1));
}

static bool can_pipeline(const redco_pipeline *pipeline, const uint32_t *split, uint32_t layers)
{
    (void)split;
    (void)layers;
    return redcoi_torch_schedule(pipeline) != NULL;
}

/* Blocks are gathered whole, norms are one kernel, the loss reads split logits; CUDA graphs exclude stages, and
   overlapped tensor parallelism needs the compiler. */
static void limit(redco_engine *engine, const redco_parallelism *parallelism)
{
    engine->layer_units = true;
    engine->plain_norm = engine->logits_gathered = engine->fused_loss = false;
    engine->planned_memory = engine->made_again = false;
    engine->workspace_bytes = 0;
    engine->gradient_bytes = 4;
    engine->async_tp = engine->async_tp && engine->compiled;
    engine->cuda_graphs = engine->cuda_graphs && parallelism->pp == 1;
}

/* FSDP2 fetches ahead and reduces behind backward, always. */
static uint32_t overlap(const redco_parallelism *parallelism, const redco_shards *shards, uint32_t wanted)
{
    (void)parallelism;
    (void)shards;
    (void)wanted;
    return REDCO_OVERLAP_ALL;
}

/* The modules at each position, by name. */
static json_t *parts_json(const redcoi_context *context, uint32_t positions)
{
    json_t *parts = json_array();
    for (uint32_t i = 0, layer = 0; i < positions; i++) {
        json_t *part = json_array();
        if (i == 0) { (void)json_array_append_new(part, json_string("tok_embeddings")); }
        for (uint32_t end = layer + redcoi_position_layers(context, i); layer < end; layer++) {
            (void)json_array_append_new(part, json_sprintf("layers.%u", layer));
        }
        if (i + 1 == positions) {
            (void)json_array_append_new(part, json_string("norm"));
            (void)json_array_append_new(part, json_string("lm_head"));
        }
        (void)json_array_append_new(parts, part);
    }
    return parts;
}

static void say(json_t *json, const char *target, const char *value)
{
    redcoi_say(json, &redcoi_torchtitan_keys, target, value);
}

static void number(json_t *json, const char *target, uint64_t value)
{
    redcoi_say_number(json, &redcoi_torchtitan_keys, target, value);
}

static void beside(json_t *json, const char *key, json_t *value)
{
    redcoi_say_key(json, &redcoi_torchtitan_keys, key, value);
}

static void list(json_t *json, const char *target, json_t *value)
{
    redcoi_say_json(json, &redcoi_torchtitan_keys, target, value);
}

/* Stages and schedule. torchtitan's own split gives the first positions a layer more, as the plan does, or counts
   embedding and head as layers; another split is written module by module. */
static void add_stages(const redcoi_context *context, json_t *json)
{
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_pipeline pipeline = redco_parallelism_pipeline(parallelism);
    const uint32_t layers = context->plan->model_layers, positions = redcoi_positions(parallelism);
    const bool counted = parallelism->split == NULL && redco_stage_edges_count(layers, positions);
    const uint32_t all = counted ? layers + 2 : layers, each = (all + positions - 1) / positions;
    const bool even = parallelism->split == NULL && (all + each - 1) / each == positions;
    if (parallelism->pp == 1) { return; }
    say(json, "pp-schedule", redco_pipeline_words[pipeline.kind]);
    beside(json, "parallelism.num_pp_microbatches", json_integer((json_int_t)parallelism->micro_batches));
    redcoi_say_if(json, &redcoi_torchtitan_keys, ".embedding-counts", counted, "yes");
    redcoi_say_if(json, &redcoi_torchtitan_keys, ".loss-counts", counted, "yes");
    list(json, ".layers-per-chunk", even ? json_integer(each) : json_null());
    list(json, ".parts", even ? json_null() : parts_json(context, positions));
}

static void add_parallelism(const redcoi_context *context, json_t *json)
{
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_parallelism sharded = redcoi_offer_sharded(context);
    const redco_shards *shards = &redcoi_main_layers(context->offer->layers, context->offer->count)->shards;
    const uint64_t group = redco_mesh_ranks(shards->optimizer);
    number(json, ".dp-replicate", redco_mesh_ranks(sharded.dp) / group);
    number(json, ".dp-shard", group > 1 ? group / parallelism->cp : 1);
    say(json, ".reshard", group == 1 ? "" : is_one(shards->parameters) ? "zero2" : "zero3");
    number(json, "tp", parallelism->tp);
    say(json, "sequence-parallel", parallelism->sequence_parallel ? "on" : "off");
    number(json, "cp", parallelism->cp);
    number(json, "pp", parallelism->pp);
    if (parallelism->cp > 1) {
        const bool balanced = !context->offer->engine.contiguous_context;
        beside(json, "parallelism.context_parallel_load_balancer", balanced ? json_string("headtail") : json_null());
    }
    add_stages(context, json);
}

static void add_training(const redcoi_context *context, json_t *json)
{
    const redco_plan *plan = context->plan;
    number(json, ".tokens-of-micro-batch", (uint64_t)plan->seq_len * context->offer->parallelism.micro_batch);
    number(json, ".tokens-of-step", plan->seq_len * plan->global_batch);
    beside(json, "training.max_context_length", json_integer((json_int_t)plan->seq_len));
    beside(json, "training.dtype", json_string("float32"));
    say(json, ".mixed-precision", redcoi_base_precision(plan) == REDCO_FP32 ? "fp32" : "bf16");
    say(json, "grad_reduce_bytes", "4");
    beside(json, "training.disable_cuda_graphs", json_boolean(!context->offer->engine.cuda_graphs));
}

static void add_checkpoint(const redcoi_context *context, json_t *json)
{
    const bool none = redcoi_count_recompute(context, REDCO_RECOMPUTE_FULL) == 0;
    json_t *const policy = json_string(context->offer->engine.partial_recompute ? "SelectiveAC" : "FullAC");
    beside(json, "activation_checkpoint", none ? json_null() : policy);
    if (none) { json_decref(policy); }
}

static void add_notes(const redcoi_context *context)
{
    static const char *const attention[] = {NULL, "flash 1", "flash 2", "flash 3", "fused", "unfused"};
    static const char *const converters[] = {NULL, "Float8LinearConverter", "MXFP8LinearConverter",
                                             "NVFP4LinearConverter"};
    const redcoi_offer *offer = context->offer;
    const redco_engine *engine = &offer->engine;
    const redco_parallelism sharded = redcoi_offer_sharded(context);
    const redco_shards *shards = &redcoi_main_layers(offer->layers, offer->count)->shards;
    const redco_model_dims *dims = redco_model_get_dims(context->reopened->inputs.model);
    redcoi_note(context, "the model is model_registry()'s: the plan is for %u layers of %u, vocabulary %llu",
                dims->layers, dims->hidden, (unsigned long long)dims->vocab);
    if (engine->attention != REDCO_ATTENTION_AUTO) {
        redcoi_note(context, "attention is model_registry(attn_backend=...)'s: the plan counts with %s",
                    attention[engine->attention]);
    }
    if (engine->gemm_format != REDCO_GEMM_SAME) {
        redcoi_note(context, "the format of matrix products is model_registry(converters=[%s.Config()])'s",
                    converters[engine->gemm_format]);
    }
    if (redco_mesh_ranks(sharded.dp) > redco_mesh_ranks(shards->optimizer) && offer->parallelism.pp == 1 &&
        offer->parallelism.micro_batches > 1) {
        redcoi_note(context,
                    "torchtitan reduces gradients over dp_replicate after each of %llu micro-batches: the plan "
                    "counts once a step",
                    (unsigned long long)offer->parallelism.micro_batches);
    }
    if ((redcoi_traffic(&sharded, shards) & REDCO_OVERLAP_AR) != 0) {
        redcoi_note(context, "gradients are reduced block by block: the plan's buckets of %.3g GB are not used",
                    (double)context->plan->bucket_bytes / 1e9);
    }
    redcoi_note_placement(context, "torchrun");
}

static redco_status configure(const redcoi_context *context, json_t **config_out, redco_error *err)
{
    const redco_engine *engine = &context->offer->engine;
    if (redco_model_get_dims(context->reopened->inputs.model)->encoder_layers > 0) {
        return redco_fail(err, REDCO_EINFEASIBLE, "", "torchtitan 0.2.2 trains no encoder-decoder models");
    }
    if (redcoi_base_precision(context->plan) == REDCO_FP16) {
        return redco_fail(err, REDCO_EINFEASIBLE, "",
                          "torchtitan 0.2.2 does not train in fp16: plan with bf16 or fp32");
    }
    json_t *const json = json_object();
    if (json == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    add_training(context, json);
    add_parallelism(context, json);
    redcoi_say_if(json, &redcoi_torchtitan_keys, "compiled", engine->compiled, "1");
    redcoi_say_if(json, &redcoi_torchtitan_keys, ".overlap-tp", engine->async_tp && context->offer->parallelism.tp > 1,
                  "yes");
    add_checkpoint(context, json);
    *config_out = json;
    add_notes(context);
    return REDCO_OK;
}

static redco_status write(const redcoi_context *context, const json_t *config, FILE *stream, redco_error *err)
{
    static const char *const objects[] = {"activation_checkpoint", NULL};
    const char *policy = json_string_value(json_object_get(config, "activation_checkpoint"));
    char use[200];
    (void)err;
    (void)snprintf(use, sizeof use,
                   "Return apply(CONFIG()) from a function of your configurations; run it by torchrun --nnodes=%u "
                   "--nproc-per-node=%u -m torchtitan.train.",
                   redcoi_hosts(context->plan), redcoi_gpus_per_host(context->plan));
    redcoi_write_python_head(context, "torchtitan 0.2.2", use, stream);
    if (policy != NULL) {
        (void)fprintf(stream, "from torchtitan.distributed.activation_checkpoint import %s\n\n\n", policy);
    }
    (void)fputs("def apply(config):\n", stream);
    redcoi_write_python_sections(config, "config", objects, NULL, stream);
    (void)fprintf(stream, "    config.activation_checkpoint = %s%s\n    return config\n",
                  policy != NULL ? policy : "None", policy != NULL ? ".Config()" : "");
    return REDCO_OK;
}

const redcoi_ability redcoi_torchtitan = {
    .title = "torchtitan",
    .engine = "torchtitan",
    .source = "torchtitan 0.2.2, commit b5bcd76: torchtitan/config/configs.py, torchtitan/distributed/fsdp.py, "
              "torchtitan/distributed/pipeline_parallel.py, torchtitan/distributed/activation_checkpoint.py",
    .pipeline = true,
    .context_parallel = true,
    .cp_types = 1U << REDCO_CP_ALL_GATHER,
    .cp_type = REDCO_CP_ALL_GATHER,
    .sequence_parallel = true,
    .shard_over_cp = true,
    .own_tp = true,
    .can_pipeline = can_pipeline,
    .limit = limit,
    .scheme_fixed = true,
    .scheme = REDCO_INTRA_TENSOR,
    .recompute = REDCOI_RECOMPUTE_FULL_ALL,
    .can_shard = can_shard,
    .overlap = overlap,
    .configure = configure,
    .write = write,
};
