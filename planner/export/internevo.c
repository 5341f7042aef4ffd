/* InternEvo's configuration, AMSP's public engine: weight parallelism cuts parameters and gradients (mode isp, without
   tensor parallelism), zero1 cuts the optimizer over some more ranks; whole tensors are assigned to owners. Options:
   InternEvo 0.3.4, configs/7B_isp_sft.py and internlm/initialize/launch.py. */
#include "planner/export/internal.h"

#include <stdlib.h>
#include <string.h>

static bool can_shard(const redco_parallelism *parallelism, const redco_shards *shards)
{
    const redco_mesh p = shards->parameters;
    return parallelism->cp == 1 && parallelism->secondary.gpus == 0 && redco_mesh_equal(p, shards->gradients) &&
           redco_mesh_consecutive(p, parallelism->dp) && redco_mesh_consecutive(shards->optimizer, parallelism->dp) &&
           (redco_mesh_ranks(p) == 1 || parallelism->tp == 1);
}

/* weight.overlap, overlap_sync_grad, overlap_sync_param */
static uint32_t overlap(const redco_parallelism *parallelism, const redco_shards *shards, uint32_t wanted)
{
    (void)parallelism;
    (void)shards;
    return wanted;
}

/* partition_uniform() cuts the layers in equal chunks, and those in stages; interleaved steps take pp micro-batches at
   a time. */
static bool can_pipeline(const redco_pipeline *pipeline, const uint32_t *split, uint32_t layers)
{
    const uint64_t positions = (uint64_t)pipeline->stages * pipeline->chunks;
    if (split != NULL) { return false; }
    return pipeline->kind == REDCO_PIPELINE_1F1B || (pipeline->kind == REDCO_PIPELINE_INTERLEAVED &&
                                                     pipeline->group == pipeline->stages && layers % positions == 0);
}

/* No options for torch.compile, narrow formats, wider gradients or other norms. */
static void limit(redco_engine *engine, const redco_parallelism *parallelism)
{
    (void)parallelism;
    engine->fused_loss = false;
    engine->plain_norm = engine->compiled = engine->partial_recompute = engine->async_tp = false;
    engine->planned_memory = engine->made_again = engine->cuda_graphs = false;
    engine->gemm_format = REDCO_GEMM_SAME;
    engine->gradient_bytes = 0;
    engine->workspace_bytes = 0;
}

static void say(json_t *json, const char *target, const char *value)
{
    redcoi_say(json, &redcoi_internevo_keys, target, value);
}

static void number(json_t *json, const char *target, uint64_t value)
{
    redcoi_say_number(json, &redcoi_internevo_keys, target, value);
}

static void beside(json_t *json, const char *key, json_t *value)
{
    redcoi_say_key(json, &redcoi_internevo_keys, key, value);
}

static void add_parallel(const redcoi_context *context, json_t *json)
{
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_shards *shards = &context->offer->layers[0].shards;
    const uint64_t weight = redco_mesh_ranks(shards->parameters);
    const uint64_t zero1 = redco_mesh_ranks(shards->optimizer) / weight;
    const bool hidden = weight > 1 && (context->offer->overlap & REDCO_OVERLAP_AG_RS) != 0;
    const bool sequence = parallelism->sequence_parallel && parallelism->tp > 1;
    number(json, ".zero1-group", zero1);
    say(json, ".zero1-fsdp", "");
    number(json, "tp", parallelism->tp);
    if (weight > 1) {
        beside(json, "parallel.tensor.mode", json_string("isp")); /* which cuts weights, not activations */
    } else {
        say(json, "sequence-parallel", sequence ? "on" : "off");
    }
    number(json, "pp", parallelism->pp);
    beside(json, "parallel.pipeline.interleaved_overlap", json_boolean(parallelism->chunks > 1));
    number(json, ".weight-group", weight);
    beside(json, "parallel.weight.overlap", json_boolean(hidden));
    beside(json, "parallel.weight.memory_pool", json_boolean(hidden));
}

/* Layers below num_layers x checkpoint are recomputed: half a layer less than the count is safe from rounding. */
static void add_checkpoint(const redcoi_context *context, json_t *json)
{
    const uint32_t full = redcoi_count_recompute(context, REDCO_RECOMPUTE_FULL);
    const uint32_t layers = context->plan->model_layers;
    const uint32_t stages = redcoi_positions(&context->offer->parallelism);
    if (full == 0 || full == layers) {
        say(json, ".checkpointing", full > 0 ? "full" : "none");
    } else {
        beside(json, "model.checkpoint", json_real((full / (double)stages - 0.5) / (layers / (double)stages)));
    }
}

/* The width of the FFN is int(hidden_size x mlp_ratio): the ratio as written must not come out below it. */
static double mlp_ratio(const redco_model_dims *dims)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.*g", REDCO_PLAN_DIGITS, (double)dims->ffn / dims->hidden);
    const double written = strtod(text, NULL);
    return (uint32_t)(dims->hidden * written) == dims->ffn ? written : (dims->ffn + 0.5) / dims->hidden;
}

static void add_model(const redcoi_context *context, json_t *json)
{
    const redco_model_dims *dims = redco_model_get_dims(context->reopened->inputs.model);
    const redco_engine *engine = &context->offer->engine;
    add_checkpoint(context, json);
    number(json, "num_hidden_layers", dims->layers);
    number(json, "hidden_size", dims->hidden);
    number(json, "num_attention_heads", dims->heads);
    number(json, "num_key_value_heads", dims->kv_heads);
    redcoi_say_json(json, &redcoi_internevo_keys, ".mlp-ratio", json_real(mlp_ratio(dims)));
    number(json, "vocab_size", dims->vocab);
    say(json, ".mixed-precision", redco_precision_words[redcoi_base_precision(context->plan)]);
    number(json, "pp-chunks", context->offer->parallelism.chunks);
    say(json, "attention", redcoi_flash_attention(engine) ? "" : "unfused");
    if (engine->logits_gathered) { beside(json, "model.parallel_output", json_false()); }
}

static void add_notes(const redcoi_context *context)
{
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_engine *engine = &context->offer->engine;
    const uint32_t layers = context->plan->model_layers;
    if (layers % parallelism->pp != 0) {
        redcoi_note(context, "InternEvo gives the odd layers to the last stages, the plan to the first (%u on %u)",
                    layers, parallelism->pp);
    }
    if (engine->attention != REDCO_ATTENTION_AUTO && engine->attention != REDCO_ATTENTION_FLASH2) {
        redcoi_note(context, "which kernel of attention runs, flash or not aside, is that of the installed libraries");
    }
    redcoi_note_placement(context, "torchrun");
}

static const char *model_type(const char *type)
{
    if (strcmp(type, "llama") == 0 || strcmp(type, "mistral") == 0) { return "LLAMA2"; }
    return strcmp(type, "internlm2") == 0 ? "INTERNLM2_PUBLIC" : NULL;
}

static redco_status configure(const redcoi_context *context, json_t **config_out, redco_error *err)
{
    const redco_plan *plan = context->plan;
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const char *type = model_type(plan->model_type);
    const uint32_t hidden = context->offer->overlap;
    if (redco_model_get_dims(context->reopened->inputs.model)->encoder_layers > 0) {
        return redco_fail(err, REDCO_EINFEASIBLE, "", "InternEvo 0.3.4 trains no encoder-decoder models");
    }
    json_t *json = json_object();
    if (json == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (type != NULL) { beside(json, "model_type", json_string(type)); }
    number(json, "seq", plan->seq_len);
    number(json, ".accumulation", parallelism->micro_batches);
    number(json, "micro-batch", parallelism->micro_batch);
    beside(json, "hybrid_zero_optimizer.overlap_sync_grad", json_boolean((hidden & REDCO_OVERLAP_AR) != 0));
    beside(json, "hybrid_zero_optimizer.overlap_sync_param", json_boolean((hidden & REDCO_OVERLAP_BC) != 0));
    beside(json, "hybrid_zero_optimizer.reduce_bucket_size", json_integer((json_int_t)redcoi_bucket_elements(plan)));
    beside(json, "hybrid_zero_optimizer.clip_grad_norm", json_real(1.0));
    add_model(context, json);
    add_parallel(context, json);
    if (type == NULL) {
        redcoi_note(context, "InternEvo 0.3.4 has no model of type %.40s: register your own as model_type",
                    plan->model_type);
    }
    add_notes(context);
    *config_out = json;
    return REDCO_OK;
}

static redco_status write(const redcoi_context *context, const json_t *config, FILE *stream, redco_error *err)
{
    const char *key = NULL;
    json_t *value = NULL;
    (void)err;
    redcoi_write_python_head(context, "InternEvo 0.3.4 configuration",
                             "The plan decides this much; data, checkpoints, optimizer and schedule are yours to add.",
                             stream);
    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        (void)fprintf(stream, "%s = ", key);
        redcoi_write_python(value, 0, NULL, stream);
        (void)fputc('\n', stream);
    }
    return REDCO_OK;
}

const redcoi_ability redcoi_internevo = {
    .title = "InternEvo",
    .engine = "internevo",
    .source = "InternEvo 0.3.4: configs/7B_isp_sft.py, internlm/initialize/launch.py, "
              "internlm/core/context/process_group_initializer.py",
    .pipeline = true,
    .sequence_parallel = true,
    .own_tp = true,
    .can_pipeline = can_pipeline,
    .limit = limit,
    .scheme_fixed = true,
    .scheme = REDCO_INTER_TENSOR,
    .recompute = REDCOI_RECOMPUTE_FULL_COUNT,
    .can_shard = can_shard,
    .overlap = overlap,
    .configure = configure,
    .write = write,
};
