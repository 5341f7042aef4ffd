/* PyTorch FSDP: a device mesh, and per range of layers how fully_shard() cuts it over which part of that mesh. One
   dimension of ranks holds the shards; parameters are gathered back for forward and backward (reshard_after_forward),
   kept after forward, or cut over fewer ranks in between. Terms: PyTorch 2, torch/distributed/fsdp/api.py
   (ShardingStrategy) and _fully_shard/_fully_shard.py; the mesh's dimensions are named as torchtitan names them. */
#include "planner/export/internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_one(redco_mesh mesh)
{
    return redco_mesh_ranks(mesh) == 1;
}

static bool can_shard(const redco_parallelism *parallelism, const redco_shards *shards)
{
    const redco_mesh os = shards->optimizer;
    const bool p = is_one(shards->parameters) || redco_mesh_equal(shards->parameters, os);
    const bool g = is_one(shards->gradients) || redco_mesh_equal(shards->gradients, os);
    if (!p || !g || !redco_mesh_consecutive(os, parallelism->dp)) { return false; }
    if (!is_one(os) && redco_mesh_ranks(os) % parallelism->cp != 0) { return false; } /* its mesh is dp_shard x cp */
    /* a copy over one rank is what reshard_after_forward = False keeps */
    const uint64_t again = redco_mesh_ranks(parallelism->secondary);
    return again == 0 || (redco_mesh_equal(shards->parameters, os) && again < redco_mesh_ranks(os) &&
                          redco_mesh_consecutive(parallelism->secondary, parallelism->dp));
}

static bool can_pipeline(const redco_pipeline *pipeline, const uint32_t *split, uint32_t layers)
{
    (void)split;
    (void)layers;
    return redcoi_torch_schedule(pipeline) != NULL;
}

/* The model is the user's code, so that most traits are told under "model". */
static void limit(redco_engine *engine, const redco_parallelism *parallelism)
{
    (void)parallelism;
    engine->partial_recompute = engine->planned_memory = engine->made_again = engine->cuda_graphs = false;
    engine->gemm_format = REDCO_GEMM_SAME;
    engine->workspace_bytes = 0;
}

/* Gathers are fetched ahead and reductions run beside backward, always. */
static uint32_t overlap(const redco_parallelism *parallelism, const redco_shards *shards, uint32_t wanted)
{
    (void)parallelism;
    (void)shards;
    (void)wanted;
    return REDCO_OVERLAP_ALL;
}

/* The classic name of a range's strategy; NULL where only fully_shard() can. */
static const char *strategy_of(const redco_parallelism *parallelism, const redco_shards *shards)
{
    const bool all = redco_mesh_equal(shards->optimizer, parallelism->dp);
    if (is_one(shards->optimizer)) { return "NO_SHARD"; }
    const bool copied = parallelism->secondary.gpus > 0;
    if (copied && !is_one(parallelism->secondary)) { return NULL; }
    if (copied || is_one(shards->parameters)) { return all ? "SHARD_GRAD_OP" : "_HYBRID_SHARD_ZERO2"; }
    return all ? "FULL_SHARD" : "HYBRID_SHARD";
}

static json_t *reshard_json(const redco_parallelism *parallelism, const redco_shards *shards)
{
    if (is_one(shards->parameters) || is_one(parallelism->secondary)) { return json_false(); }
    if (parallelism->secondary.gpus == 0) { return json_true(); }
    return json_integer((json_int_t)redco_mesh_ranks(parallelism->secondary));
}

static bool uses_accumulation(const redcoi_context *context, const redco_shards *shards)
{
    return context->offer->parallelism.micro_batches > 1 && is_one(shards->parameters) && !is_one(shards->optimizer);
}

/* One range of layers. */
static json_t *unit_json(const redcoi_context *context, const redco_plan_layers *row)
{
    const redco_parallelism sharded = redcoi_offer_sharded(context), *parallelism = &sharded;
    const redco_shards *shards = &row->shards;
    const char *strategy = strategy_of(parallelism, shards);
    const uint64_t group = redco_mesh_ranks(shards->optimizer);
    const uint64_t copies = redco_mesh_ranks(parallelism->dp) / group;
    json_t *json = json_pack("{s:s,s:[I,I],s:o,s:I,s:I}", "class", row->class_name, "layers",
                             (json_int_t)row->first_layer, (json_int_t)row->last_layer, "sharding_strategy",
                             strategy != NULL ? json_string(strategy) : json_null(), "dp_replicate", (json_int_t)copies,
                             "dp_shard", (json_int_t)group);
    if (group == 1) {
        const double mib = 1048576.0;
        (void)json_object_set_new(json, "wrap", json_string("DistributedDataParallel"));
        (void)json_object_set_new(json, "bucket_cap_mb", json_real((double)context->plan->bucket_bytes / mib));
        return json;
    }
    (void)json_object_set_new(json, "wrap", json_string("fully_shard"));
    (void)json_object_set_new(json, "reshard_after_forward", reshard_json(parallelism, shards));
    /* for all micro-batches but the last */
    (void)json_object_set_new(json, "set_reshard_after_backward", json_boolean(!uses_accumulation(context, shards)));
    (void)json_object_set_new(json, "set_requires_gradient_sync",
                              json_boolean(!(uses_accumulation(context, shards) && is_one(shards->gradients))));
    return json;
}

/* The finest cut of the data-parallel ranks that all ranges' groups are made of whole dimensions of. */
static json_t *mesh_json(const redcoi_context *context)
{
    const redco_parallelism sharded = redcoi_offer_sharded(context), *parallelism = &sharded;
    const redco_plan_layers *main = redcoi_main_layers(context->offer->layers, context->offer->count);
    const uint64_t group = redco_mesh_ranks(main->shards.optimizer);
    const uint64_t within = group > 1 ? group : parallelism->cp; /* dp_shard x cp hold the shards */
    const uint64_t copies = redco_mesh_ranks(parallelism->dp) / within;
    const struct {
        const char *name;
        uint64_t size;
        bool always;
    } dims[] = {{"pp", parallelism->pp, false},
                {"dp_replicate", copies, group == 1},
                {"dp_shard", within / parallelism->cp, group > 1},
                {"cp", parallelism->cp, false},
                {"tp", parallelism->tp, false}};
    json_t *shape = json_array();
    json_t *names = json_array();
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        if (dims[i].size == 1 && !dims[i].always) { continue; }
        (void)json_array_append_new(shape, json_integer((json_int_t)dims[i].size));
        (void)json_array_append_new(names, json_string(dims[i].name));
    }
    return json_pack("{s:s,s:o,s:o}", "device_type", "cuda", "mesh_shape", shape, "mesh_dim_names", names);
}

static json_t *units_json(const redcoi_context *context)
{
    json_t *units = json_array();
    for (uint32_t i = 0; i < context->offer->count; i++) {
        (void)json_array_append_new(units, unit_json(context, &context->offer->layers[i]));
    }
    return units;
}

static json_t *checkpoint_json(const redcoi_context *context)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < context->offer->count; i++) {
        const redco_plan_layers *row = &context->offer->layers[i];
        if (row->recompute == REDCO_RECOMPUTE_NONE) { continue; }
        const char *what = row->recompute == REDCO_RECOMPUTE_CORE_ATTN ? "attention" : "layer"; /* no other: offer.c */
        (void)json_array_append_new(rows, json_pack("{s:s,s:[I,I],s:s}", "class", row->class_name, "layers",
                                                    (json_int_t)row->first_layer, (json_int_t)row->last_layer,
                                                    "checkpoint", what));
    }
    return rows;
}

static void say(json_t *json, const char *target, const char *value)
{
    redcoi_say(json, &redcoi_fsdp_keys, target, value);
}

static void number(json_t *json, const char *target, uint64_t value)
{
    redcoi_say_number(json, &redcoi_fsdp_keys, target, value);
}

static void beside(json_t *json, const char *key, json_t *value)
{
    redcoi_say_key(json, &redcoi_fsdp_keys, key, value);
}

/* Ranges of blocks by position. torch.distributed.pipelining places them in a loop, i on stage i mod pp; DualPipeV's in
 * a V. */
static void add_pipeline(const redcoi_context *context, json_t *json)
{
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_pipeline pipeline = redco_parallelism_pipeline(parallelism);
    json_t *ranges = json_array();
    uint32_t first = 0;
    for (uint32_t i = 0; i < redcoi_positions(parallelism); i++) {
        const uint32_t layers = redcoi_position_layers(context, i);
        (void)json_array_append_new(ranges,
                                    layers > 0 ? json_pack("[I,I]", (json_int_t)first, (json_int_t)(first + layers - 1))
                                               : json_array());
        first += layers;
    }
    say(json, "pp-schedule", redco_pipeline_words[pipeline.kind]);
    number(json, "pp-chunks", pipeline.chunks);
    redcoi_say_json(json, &redcoi_fsdp_keys, ".stage-layers", ranges);
}

/* Arguments for parallelize_module(): the plan's rules over names of Flax. */
static void add_tensor(const redcoi_context *context, json_t *json)
{
    const redco_plan *plan = context->plan;
    const redcoi_offer *offer = context->offer;
    json_t *rules = json_array();
    for (uint32_t i = 0; i < plan->rules_count && offer->parallelism.tp == plan->parallelism.tp; i++) {
        const redco_plan_rule *rule = &plan->rules[i];
        (void)json_array_append_new(rules, json_pack("{s:s,s:o,s:I,s:I}", "match", rule->match, "dim",
                                                     rule->dim < 0 ? json_null() : json_integer((json_int_t)rule->dim),
                                                     "unit", (json_int_t)(rule->unit > 0 ? rule->unit : 1), "parts",
                                                     (json_int_t)(rule->parts > 0 ? rule->parts : 1)));
    }
    number(json, "tp", offer->parallelism.tp);
    say(json, "sequence-parallel", offer->parallelism.sequence_parallel ? "on" : "off");
    redcoi_say_if(json, &redcoi_fsdp_keys, ".overlap-tp", offer->engine.async_tp, "yes");
    beside(json, "tensor_parallel.rules", rules);
}

/* Traits of the model's code, as far as the plan says. */
static void add_traits(const redcoi_context *context, json_t *json)
{
    static const char *const attention[] = {NULL, "flash1", "flash2", "flash3", "fused", "unfused"};
    const redco_engine *engine = &context->offer->engine;
    (void)json_object_set_new(json, "model", json_object());
    if (engine->attention != REDCO_ATTENTION_AUTO) { say(json, "attention", attention[engine->attention]); }
    if (engine->plain_norm) { say(json, "fused_norm", "0"); }
    if (engine->compiled) { say(json, "compiled", "1"); }
    if (engine->logits_gathered) { say(json, "logits_gathered", "1"); }
    if (engine->fused_loss) { say(json, "cross_entropy", "fused"); }
    if (engine->layer_units) { beside(json, "model.fully_shard_each", json_string("layer")); }
}

static json_t *hosts_json(const redco_plan *plan)
{
    json_t *hosts = json_array();
    for (uint32_t i = 0; i < plan->hosts_count; i++) {
        (void)json_array_append_new(hosts, json_string(plan->hosts[i]));
    }
    return hosts;
}

/* NODE_RANK is a host's place in "hosts". */
static json_t *launch_json(const redcoi_context *context)
{
    const redco_plan *plan = context->plan;
    char *order = redcoi_gpu_order_text(plan);
    json_t *json = json_sprintf("%s%s%storchrun --nnodes=%u --nproc-per-node=%u --node-rank=\"$NODE_RANK\" "
                                "--master-addr=\"$MASTER_ADDR\" --master-port=\"$MASTER_PORT\" train.py",
                                order != NULL ? "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=" : "",
                                order != NULL ? order : "", order != NULL ? " " : "", redcoi_hosts(plan),
                                redcoi_gpus_per_host(plan));
    free(order);
    return json;
}

static void add_notes(const redcoi_context *context)
{
    const redco_parallelism sharded = redcoi_offer_sharded(context);
    const redcoi_offer *offer = context->offer;
    bool mixed = false;
    for (uint32_t i = 1; i < offer->count; i++) {
        mixed = mixed || !redco_shards_equal(offer->layers[i].shards, offer->layers[0].shards);
    }
    if (mixed) {
        (void)json_array_append_new(
            context->notes,
            json_string("layers differ: give each range's fully_shard() a mesh of its own dp_replicate x "
                        "dp_shard; device_mesh is that of most layers"));
    }
    if (offer->engine.shard_over_cp && offer->parallelism.cp > 1) {
        (void)json_array_append_new(context->notes,
                                    json_string("flatten dp_shard and cp to one dimension and shard over it, so that "
                                                "gradients are reduced over cp, too"));
    }
    const redco_shards *shards = &redcoi_main_layers(offer->layers, offer->count)->shards;
    if (!is_one(shards->optimizer) && (redcoi_traffic(&sharded, shards) & REDCO_OVERLAP_AR) != 0) {
        redcoi_note(context, "fully_shard() reduces gradients unit by unit: the plan's buckets of %.3g GB are not used",
                    (double)context->plan->bucket_bytes / 1e9);
    }
    if (offer->parallelism.tp != context->plan->parallelism.tp) {
        redcoi_note(context,
                    "the plan's tensor-parallel rules are for tp %u: redco-rules --shards %u has those for tp %u",
                    context->plan->parallelism.tp, offer->parallelism.tp, offer->parallelism.tp);
    }
    if (context->plan->hosts_count > 0) {
        redcoi_note(context, "NODE_RANK is a host's place in \"hosts\", MASTER_ADDR the first of them");
    }
}

/* set_rotate_method(): alltoall passes keys and values around a ring (PyTorch 2, torch/distributed/tensor/experimental/
 * _context_parallel/_attention.py, _AllToAllRotater); enable_load_balance is its zigzag. */
static void add_context(const redcoi_context *context, json_t *json)
{
    say(json, "cp-type", redco_cp_type_words[context->offer->parallelism.cp_type]);
    beside(json, "context_parallel.enable_load_balance", json_boolean(!context->offer->engine.contiguous_context));
}

static redco_status configure(const redcoi_context *context, json_t **config_out, redco_error *err)
{
    const redco_plan *plan = context->plan;
    const redco_parallelism *parallelism = &context->offer->parallelism;
    const redco_precision precision = redcoi_base_precision(plan);
    const uint32_t bytes = redcoi_gradient_bytes(plan, &context->offer->engine);
    json_t *json = json_pack("{s:s,s:i,s:b,s:o,s:o,s:o}", "format", "redco-fsdp", "version", REDCO_EXPORT_VERSION,
                             "exact", context->exact, "device_mesh", mesh_json(context), "units", units_json(context),
                             "activation_checkpointing", checkpoint_json(context));
    if (json == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const redco_offload offload = context->offer->engine.offload;
    if (offload == REDCO_OFFLOAD_PARAMETERS) { say(json, ".offload-parameters", "yes"); }
    if (offload == REDCO_OFFLOAD_OPTIMIZER) { say(json, ".offload-optimizer", "yes"); }
    say(json, ".mixed-precision", redco_precision_words[precision]);
    beside(json, "mixed_precision.reduce_dtype",
           json_string(bytes == 4                ? "float32"
                       : precision == REDCO_FP16 ? "float16"
                                                 : "bfloat16"));
    number(json, "seq", plan->seq_len);
    number(json, "global-batch", plan->global_batch);
    number(json, "micro-batch", parallelism->micro_batch);
    number(json, ".accumulation", parallelism->micro_batches);
    add_traits(context, json);
    beside(json, "hosts", hosts_json(plan));
    beside(json, "launch", launch_json(context));
    if (parallelism->pp > 1) { add_pipeline(context, json); }
    if (parallelism->tp > 1) { add_tensor(context, json); }
    if (parallelism->cp > 1) { add_context(context, json); }
    add_notes(context);
    if (context->summary != NULL) { (void)json_object_set_new(json, "difference", json_string(context->summary)); }
    (void)json_object_set(json, "notes", context->notes);
    *config_out = json;
    return REDCO_OK;
}

const redcoi_ability redcoi_fsdp = {
    .title = "PyTorch FSDP",
    .engine = "fsdp2",
    .source = "PyTorch 2: torch/distributed/fsdp/api.py, torch/distributed/fsdp/_fully_shard/_fully_shard.py, "
              "torch/distributed/device_mesh.py",
    .pipeline = true,
    .context_parallel = true,
    .cp_types = 1U << REDCO_CP_P2P | 1U << REDCO_CP_ALL_GATHER,
    .cp_type = REDCO_CP_ALL_GATHER,
    .sequence_parallel = true,
    .layerwise = true,
    .shard_over_cp = true,
    .launches = true,
    .can_pipeline = can_pipeline,
    .limit = limit,
    .scheme_fixed = true,
    .scheme = REDCO_INTRA_TENSOR,
    .recompute = REDCOI_RECOMPUTE_ANY,
    .can_shard = can_shard,
    .overlap = overlap,
    .configure = configure,
    .write = redcoi_write_json,
};
