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

static bool can_shard(const redco_setting *setting, const redco_shards *shards)
{
    const redco_mesh os = shards->optimizer;
    const bool p = is_one(shards->parameters) || redco_mesh_equal(shards->parameters, os);
    const bool g = is_one(shards->gradients) || redco_mesh_equal(shards->gradients, os);
    if (!p || !g || !redcoi_consecutive(os, setting->dp)) { return false; }
    /* a copy over one rank is what reshard_after_forward = False keeps */
    const uint64_t again = redco_mesh_ranks(setting->secondary);
    return again == 0 || (redco_mesh_equal(shards->parameters, os) && again < redco_mesh_ranks(os) &&
                          redcoi_consecutive(setting->secondary, setting->dp));
}

/* Gathers are fetched ahead and reductions run beside backward, always. */
static uint32_t overlap(const redco_setting *setting, const redco_shards *shards, uint32_t wanted)
{
    (void)setting;
    (void)shards;
    (void)wanted;
    return REDCO_OVERLAP_ALL;
}

/* The classic name of a range's strategy; NULL where only fully_shard() can. */
static const char *strategy_of(const redco_setting *setting, const redco_shards *shards)
{
    const bool all = redco_mesh_equal(shards->optimizer, setting->dp);
    if (is_one(shards->optimizer)) { return "NO_SHARD"; }
    const bool copied = setting->secondary.gpus > 0;
    if (copied && !is_one(setting->secondary)) { return NULL; }
    if (copied || is_one(shards->parameters)) { return all ? "SHARD_GRAD_OP" : "_HYBRID_SHARD_ZERO2"; }
    return all ? "FULL_SHARD" : "HYBRID_SHARD";
}

static json_t *reshard_json(const redco_setting *setting, const redco_shards *shards)
{
    if (is_one(shards->parameters) || is_one(setting->secondary)) { return json_false(); }
    if (setting->secondary.gpus == 0) { return json_true(); }
    return json_integer((json_int_t)redco_mesh_ranks(setting->secondary));
}

static bool uses_accumulation(const redcoi_context *context, const redco_shards *shards)
{
    return context->offer->setting.micro_batches > 1 && is_one(shards->parameters) && !is_one(shards->optimizer);
}

/* One range of layers. */
static json_t *unit_json(const redcoi_context *context, const redco_plan_layers *row)
{
    const redco_setting *setting = &context->offer->setting;
    const redco_shards *shards = &row->shards;
    const char *strategy = strategy_of(setting, shards);
    const uint64_t group = redco_mesh_ranks(shards->optimizer);
    const uint64_t copies = redco_mesh_ranks(setting->dp) / group;
    json_t *json = json_pack("{s:s,s:[I,I],s:o,s:I,s:I}", "class", row->class_name, "layers",
                             (json_int_t)row->first_layer, (json_int_t)row->last_layer, "sharding_strategy",
                             strategy != NULL ? json_string(strategy) : json_null(), "dp_replicate", (json_int_t)copies,
                             "dp_shard", (json_int_t)group);
    if (group == 1) {
        (void)json_object_set_new(json, "wrap", json_string("DistributedDataParallel"));
        return json;
    }
    (void)json_object_set_new(json, "wrap", json_string("fully_shard"));
    (void)json_object_set_new(json, "reshard_after_forward", reshard_json(setting, shards));
    /* of all micro-batches but the last */
    (void)json_object_set_new(json, "set_reshard_after_backward", json_boolean(!uses_accumulation(context, shards)));
    (void)json_object_set_new(json, "set_requires_gradient_sync",
                              json_boolean(!(uses_accumulation(context, shards) && is_one(shards->gradients))));
    return json;
}

/* The finest cut of the data-parallel ranks that all ranges' groups are made of whole dimensions of. */
static json_t *mesh_json(const redcoi_context *context)
{
    const redco_setting *setting = &context->offer->setting;
    const redco_plan_layers *main = redcoi_main_layers(context->offer->layers, context->offer->count);
    const uint64_t group = redco_mesh_ranks(main->shards.optimizer);
    const uint64_t copies = redco_mesh_ranks(setting->dp) / group;
    const struct {
        const char *name;
        uint64_t size;
        bool always;
    } dims[] = {{"pp", setting->pp, false},
                {"dp_replicate", copies, group == 1},
                {"dp_shard", group, group > 1},
                {"cp", setting->cp, false},
                {"tp", setting->tp, false}};
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
    static const char *const what[] = {NULL, "attention", "layer"};
    json_t *rows = json_array();
    for (uint32_t i = 0; i < context->offer->count; i++) {
        const redco_plan_layers *row = &context->offer->layers[i];
        if (row->recompute == REDCO_RECOMPUTE_NONE) { continue; }
        (void)json_array_append_new(rows, json_pack("{s:s,s:[I,I],s:s}", "class", row->class_name, "layers",
                                                    (json_int_t)row->first_layer, (json_int_t)row->last_layer,
                                                    "checkpoint", what[row->recompute]));
    }
    return rows;
}

static json_t *launch_json(const redcoi_context *context)
{
    const redco_plan *plan = context->plan;
    char text[400];
    (void)snprintf(text, sizeof text,
                   "torchrun --nnodes=%u --nproc-per-node=%u --node-rank=\"$NODE_RANK\" "
                   "--master-addr=\"$MASTER_ADDR\" --master-port=\"$MASTER_PORT\" train.py",
                   redcoi_hosts(plan), redcoi_gpus_per_host(plan));
    return json_string(text);
}

static void add_notes(const redcoi_context *context)
{
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
    if (offer->shard_over_cp) {
        (void)json_array_append_new(context->notes,
                                    json_string("flatten dp_shard and cp to one dimension and shard over it, so that "
                                                "gradients are reduced over cp, too"));
    }
}

static redco_status configure(const redcoi_context *context, json_t **config_out, redco_error *err)
{
    static const char *const types[] = {"bfloat16", "float16", "float32"};
    const redco_plan *plan = context->plan;
    const redco_setting *setting = &context->offer->setting;
    const char *type = types[plan->precision];
    json_t *json = json_pack(
        "{s:s,s:i,s:b,s:o,s:o,s:o,s:{s:s,s:s},s:{s:I,s:I,s:I,s:I},s:o}", "format", "redco-fsdp", "version",
        REDCO_EXPORT_VERSION, "exact", context->exact, "device_mesh", mesh_json(context), "units", units_json(context),
        "activation_checkpointing", checkpoint_json(context), "mixed_precision", "param_dtype", type, "reduce_dtype",
        type, "batch", "seq_len", (json_int_t)plan->seq_len, "global_batch_size", (json_int_t)plan->global_batch,
        "micro_batch_size", (json_int_t)setting->micro_batch, "gradient_accumulation_steps",
        (json_int_t)setting->micro_batches, "launch", launch_json(context));
    if (json == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    add_notes(context);
    if (context->summary != NULL) { (void)json_object_set_new(json, "difference", json_string(context->summary)); }
    (void)json_object_set(json, "notes", context->notes);
    *config_out = json;
    return REDCO_OK;
}

const redcoi_ability redcoi_fsdp = {
    .title = "PyTorch FSDP",
    .source = "PyTorch 2: torch/distributed/fsdp/api.py, torch/distributed/fsdp/_fully_shard/_fully_shard.py, "
              "torch/distributed/device_mesh.py",
    .pipeline = true,
    .context_parallel = true,
    .sequence_parallel = true,
    .layerwise = true,
    .shard_over_cp = true,
    .scheme_fixed = true,
    .scheme = REDCO_INTRA_TENSOR,
    .recompute = REDCOI_RECOMPUTE_ANY,
    .can_shard = can_shard,
    .overlap = overlap,
    .configure = configure,
    .write = redcoi_write_json,
};
