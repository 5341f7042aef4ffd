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

static json_t *parallel_json(const redcoi_context *context)
{
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_shards *shards = &context->offer->layers[0].shards;
    const uint64_t weight = redco_mesh_ranks(shards->parameters);
    const uint64_t zero1 = redco_mesh_ranks(shards->optimizer) / weight;
    const bool hidden = weight > 1 && (context->offer->overlap & REDCO_OVERLAP_AG_RS) != 0;
    const char *plain = context->offer->parallelism.sequence_parallel && parallelism->tp > 1 ? "msp" : "mtp";
    return json_pack("{s:{s:I,s:b},s:{s:I,s:s},s:{s:I,s:b},s:{s:I,s:b,s:b}}", "zero1", "size", (json_int_t)zero1,
                     "fsdp", 0, "tensor", "size", (json_int_t)parallelism->tp, "mode", weight > 1 ? "isp" : plain,
                     "pipeline", "size", (json_int_t)parallelism->pp, "interleaved_overlap",
                     context->offer->parallelism.chunks > 1, "weight", "size", (json_int_t)weight, "overlap", hidden,
                     "memory_pool", hidden);
}

/* Layers below num_layers x checkpoint are recomputed: half a layer less than the count is safe from rounding. */
static json_t *checkpoint_json(const redcoi_context *context)
{
    const uint32_t full = redcoi_count_recompute(context, REDCO_RECOMPUTE_FULL);
    const uint32_t layers = context->plan->model_layers;
    const uint32_t stages = redcoi_positions(&context->offer->parallelism);
    if (full == 0 || full == layers) { return json_boolean(full > 0); }
    return json_real((full / (double)stages - 0.5) / (layers / (double)stages));
}

/* The width of the FFN is int(hidden_size x mlp_ratio): the ratio as written must not come out below it. */
static double mlp_ratio(const redco_model_dims *dims)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.*g", REDCO_PLAN_DIGITS, (double)dims->ffn / dims->hidden);
    const double written = strtod(text, NULL);
    return (uint32_t)(dims->hidden * written) == dims->ffn ? written : (dims->ffn + 0.5) / dims->hidden;
}

static json_t *model_json(const redcoi_context *context)
{
    static const char *const types[] = {"torch.bfloat16", "torch.float16", "torch.float32"};
    const redco_model_dims *dims = redco_model_get_dims(context->reopened->inputs.model);
    const redco_engine *engine = &context->offer->engine;
    json_t *json = json_pack(
        "{s:o,s:I,s:I,s:I,s:I,s:f,s:I,s:s,s:I,s:b}", "checkpoint", checkpoint_json(context), "num_layers",
        (json_int_t)dims->layers, "hidden_size", (json_int_t)dims->hidden, "num_attention_heads",
        (json_int_t)dims->heads, "num_kv_attention_heads", (json_int_t)dims->kv_heads, "mlp_ratio", mlp_ratio(dims),
        "vocab_size", (json_int_t)dims->vocab, "dtype", types[redcoi_base_precision(context->plan)], "num_chunks",
        (json_int_t)context->offer->parallelism.chunks, "use_flash_attn", redcoi_flash_attention(engine));
    if (engine->logits_gathered) { (void)json_object_set_new(json, "parallel_output", json_false()); }
    return json;
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
    if (type != NULL) { (void)json_object_set_new(json, "model_type", json_string(type)); }
    (void)json_object_set_new(json, "data",
                              json_pack("{s:I,s:I,s:I}", "seq_len", (json_int_t)plan->seq_len, "micro_num",
                                        (json_int_t)parallelism->micro_batches, "micro_bsz",
                                        (json_int_t)parallelism->micro_batch));
    (void)json_object_set_new(json, "hybrid_zero_optimizer",
                              json_pack("{s:b,s:b,s:I,s:f}", "overlap_sync_grad", (hidden & REDCO_OVERLAP_AR) != 0,
                                        "overlap_sync_param", (hidden & REDCO_OVERLAP_BC) != 0, "reduce_bucket_size",
                                        (json_int_t)redcoi_bucket_elements(plan), "clip_grad_norm", 1.0));
    (void)json_object_set_new(json, "model", model_json(context));
    (void)json_object_set_new(json, "parallel", parallel_json(context));
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
