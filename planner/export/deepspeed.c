/* DeepSpeed's JSON. ZeRO stages cut over all data-parallel ranks (stages 1 to 3), or over groups of them (MiCS); hpZ
   adds a second copy of the parameters. Options: DeepSpeed 0.19.8, deepspeed/runtime/config.py and zero/config.py;
   mics_shard_size stood there from 0.9.2 to 0.19.6. */
#include "planner/export/internal.h"

static bool is_one(redco_mesh mesh)
{
    return redco_mesh_ranks(mesh) == 1;
}

/* @return -1 when there is none */
static int stage_of(const redco_parallelism *parallelism, const redco_shards *shards)
{
    const redco_mesh dp = parallelism->dp;
    const redco_mesh p = shards->parameters;
    const bool all_os = redco_mesh_equal(shards->optimizer, dp);
    if (is_one(p) && is_one(shards->gradients) && is_one(shards->optimizer)) { return 0; }
    if (redco_mesh_equal(p, shards->gradients) && redco_mesh_equal(p, shards->optimizer)) { return 3; }
    if (!is_one(p) || !all_os) { return -1; }
    if (is_one(shards->gradients)) { return 1; }
    return redco_mesh_equal(shards->gradients, dp) ? 2 : -1;
}

static bool is_mics(const redco_parallelism *parallelism, const redco_shards *shards)
{
    return stage_of(parallelism, shards) == 3 && !redco_mesh_equal(shards->parameters, parallelism->dp);
}

/* Groups of MiCS and hpZ are consecutive ranks of the world: with tensor parallelism they would not be data-parallel.
 */
static bool can_shard(const redco_parallelism *parallelism, const redco_shards *shards)
{
    const int stage = stage_of(parallelism, shards);
    if (parallelism->pp > 1 || parallelism->cp > 1 || stage < 0) { return false; }
    if (parallelism->secondary.gpus > 0) {
        return stage == 3 && !is_mics(parallelism, shards) && parallelism->tp == 1 &&
               redco_mesh_consecutive(parallelism->secondary, parallelism->dp);
    }
    if (!is_mics(parallelism, shards)) { return true; }
    return parallelism->tp == 1 && redco_mesh_consecutive(shards->parameters, parallelism->dp);
}

/* Without ZeRO gradients are reduced after backward. overlap_comm hides the reduction, in stage 3 gathers, too. Updated
   parameters are gathered at the end of the step, before the next forward. */
static uint32_t overlap(const redco_parallelism *parallelism, const redco_shards *shards, uint32_t wanted)
{
    const int stage = stage_of(parallelism, shards);
    if (stage == 0) { return REDCO_OVERLAP_NONE; }
    if (stage < 3) { return wanted & REDCO_OVERLAP_AR; }
    return (wanted & REDCO_OVERLAP_AG_RS) != 0 ? REDCO_OVERLAP_AG_RS | REDCO_OVERLAP_AR : REDCO_OVERLAP_NONE;
}

static void say(json_t *json, const char *target, const char *value)
{
    redcoi_say(json, &redcoi_deepspeed_keys, target, value);
}

static void number(json_t *json, const char *target, uint64_t value)
{
    redcoi_say_number(json, &redcoi_deepspeed_keys, target, value);
}

static void beside(json_t *json, const char *key, json_t *value)
{
    redcoi_say_key(json, &redcoi_deepspeed_keys, key, value);
}

static void add_zero(const redcoi_context *context, json_t *json)
{
    static const char *const stages[] = {"ddp", "zero1", "zero2", "zero3"};
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_shards *shards = &context->offer->layers[0].shards;
    const int stage = stage_of(parallelism, shards);
    const json_int_t bucket = (json_int_t)redcoi_bucket_elements(context->plan);
    say(json, ".zero", stages[stage > 0 ? stage : 0]);
    if (stage == 0) { return; }
    beside(json, "zero_optimization.overlap_comm",
           json_boolean((context->offer->overlap & (REDCO_OVERLAP_AR | REDCO_OVERLAP_AG_RS)) != 0));
    beside(json, "zero_optimization.contiguous_gradients", json_true());
    beside(json, "zero_optimization.reduce_bucket_size", json_integer(bucket));
    if (stage < 3) {
        beside(json, "zero_optimization.reduce_scatter", json_true());
        beside(json, "zero_optimization.allgather_partitions", json_true());
        beside(json, "zero_optimization.allgather_bucket_size", json_integer(bucket));
    }
    const redco_offload offload = context->offer->engine.offload;
    if (offload != REDCO_OFFLOAD_NONE) { say(json, ".offload-optimizer", "yes"); }
    if (offload == REDCO_OFFLOAD_PARAMETERS && stage == 3) { say(json, ".offload-parameters", "yes"); }
    if (parallelism->secondary.gpus > 0) { number(json, ".second-copy", redco_mesh_ranks(parallelism->secondary)); }
    if (is_mics(parallelism, shards)) {
        number(json, ".shard-group", redco_mesh_ranks(shards->parameters));
        beside(json, "zero_optimization.mics_hierarchical_params_gather", json_boolean(shards->parameters.nodes > 1));
    }
}

/* DeepSpeed leaves the model to the user's code; of formats it has none below 16 bits, of overlapped tensor parallelism
   none. */
static void limit(redco_engine *engine, const redco_parallelism *parallelism)
{
    (void)parallelism;
    engine->partial_recompute = engine->async_tp = engine->planned_memory = engine->made_again = engine->cuda_graphs =
        false;
    engine->gemm_format = REDCO_GEMM_SAME;
    engine->workspace_bytes = 0;
}

/* Notes for what the model's code and the launcher decide: no key says it. */
static void add_user_notes(const redcoi_context *context)
{
    static const char *const attention[] = {NULL, "flash 1", "flash 2", "flash 3", "fused", "unfused"};
    const redco_engine *engine = &context->offer->engine;
    redcoi_note(context, "sequences of %u tokens come from your data loader: no key says it", context->plan->seq_len);
    if (engine->attention != REDCO_ATTENTION_AUTO) {
        redcoi_note(context, "attention is your model's code: the plan counts with %s", attention[engine->attention]);
    }
    if (engine->plain_norm) { redcoi_note(context, "norms are your model's code: the plan counts with unfused ones"); }
    if (engine->compiled) { redcoi_note(context, "the plan counts with a compiled model: call engine.compile()"); }
    if (engine->fused_loss) { redcoi_note(context, "the loss is your model's code: the plan counts with a fused one"); }
    if (engine->logits_gathered) {
        redcoi_note(context, "logits are your model's code: the plan gathers them on every tensor-parallel rank");
    }
    if (stage_of(&context->offer->parallelism, &context->offer->layers[0].shards) == 0) {
        redcoi_note(context,
                    "without ZeRO, DeepSpeed's buckets of gradients are its own; the plan's have %llu elements",
                    (unsigned long long)redcoi_bucket_elements(context->plan));
    }
    redcoi_note_placement(context, "torchrun (the deepspeed launcher sorts the GPUs of --include)");
}

static void add_notes(const redcoi_context *context)
{
    const redco_shards *shards = &context->offer->layers[0].shards;
    const uint32_t full = redcoi_count_recompute(context, REDCO_RECOMPUTE_FULL);
    const uint32_t selective = redcoi_count_recompute(context, REDCO_RECOMPUTE_CORE_ATTN);
    if (is_mics(&context->offer->parallelism, shards)) {
        redcoi_note(context,
                    "MiCS needs DeepSpeed 0.9.2 to 0.19.6, and deepspeed.zero.MiCS_Init where the model is built");
    }
    if (full + selective > 0) {
        char attention[48] = "";
        if (selective > 0) { (void)snprintf(attention, sizeof attention, ", the attention of %u more", selective); }
        redcoi_note(context,
                    "which layers are recomputed is the model's own code (torch.utils.checkpoint): %u of %u in full%s",
                    full, context->plan->model_layers, attention);
    }
    add_user_notes(context);
}

static redco_status configure(const redcoi_context *context, json_t **config_out, redco_error *err)
{
    const redco_plan *plan = context->plan;
    const redco_parallelism *parallelism = &context->offer->parallelism;
    json_t *json = json_object();
    if (json == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    number(json, "global-batch", plan->global_batch);
    number(json, "micro-batch", parallelism->micro_batch);
    number(json, ".accumulation", parallelism->micro_batches);
    add_zero(context, json);
    const redco_precision precision = redcoi_base_precision(plan);
    if (precision != REDCO_FP32) {
        const bool wide = redcoi_gradient_bytes(plan, &context->offer->engine) == 4;
        const char *word = redco_precision_words[precision];
        say(json, precision == REDCO_BF16 ? ".bf16" : ".fp16", "yes");
        beside(json, "data_types.grad_accum_dtype", json_string(wide ? "fp32" : word));
        if (wide) { say(json, "grad_reduce_bytes", "4"); }
    }
    if (parallelism->tp > 1) { number(json, "tp", parallelism->tp); }
    add_notes(context);
    *config_out = json;
    return REDCO_OK;
}

const redcoi_ability redcoi_deepspeed = {
    .title = "DeepSpeed",
    .engine = "deepspeed",
    .source = "DeepSpeed 0.19.8: deepspeed/runtime/config.py, deepspeed/runtime/zero/config.py; "
              "deepspeed.ai/docs/config-json",
    .own_tp = true,
    .limit = limit,
    .scheme_fixed = true,
    .scheme = REDCO_INTRA_TENSOR,
    .recompute = REDCOI_RECOMPUTE_ANY,
    .can_shard = can_shard,
    .overlap = overlap,
    .configure = configure,
    .write = redcoi_write_json,
};
