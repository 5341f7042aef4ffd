/* Megatron-Bridge's configuration: a Python function that changes a recipe's ConfigContainer. Bridge trains by Megatron
   Core, so that the values are those of megatron.c, by what the tables of both say that their keys mean.
   Megatron-Bridge 0.7.0, commit 067f987. */
#include "planner/export/internal.h"

#include <string.h>

/** A key that has no value where the option is not set: null, false, a number; or it stays the recipe's. */
typedef enum absence { ABSENT_KEPT, ABSENT_NULL, ABSENT_FALSE, ABSENT_TRUE, ABSENT_ONE, ABSENT_NO_SHARD } absence;

/** A key, and the option of Megatron-LM that it repeats where that says nothing that redco plans. */
struct key {
    const char *key;
    absence absent;
    const char *option;
};

static const struct key keys[] = {
    {"model.tensor_model_parallel_size", ABSENT_ONE, NULL},
    {"model.sequence_parallel", ABSENT_FALSE, NULL},
    {"model.pipeline_model_parallel_size", ABSENT_ONE, NULL},
    {"model.virtual_pipeline_model_parallel_size", ABSENT_NULL, NULL},
    {"model.microbatch_group_size_per_vp_stage", ABSENT_NULL, NULL},
    {"model.pipeline_model_parallel_layout", ABSENT_NULL, NULL},
    {"model.account_for_embedding_in_pipeline_split", ABSENT_FALSE, NULL},
    {"model.account_for_loss_in_pipeline_split", ABSENT_FALSE, NULL},
    {"model.context_parallel_size", ABSENT_ONE, NULL},
    {"model.expert_model_parallel_size", ABSENT_KEPT, NULL},
    {"model.expert_tensor_parallel_size", ABSENT_KEPT, NULL},
    {"model.moe_token_dispatcher_type", ABSENT_KEPT, "moe-token-dispatcher-type"},
    {"model.moe_flex_dispatcher_backend", ABSENT_KEPT, "moe-flex-dispatcher-backend"},
    {"model.moe_router_dtype", ABSENT_KEPT, "moe-router-dtype"},
    {"model.moe_grouped_gemm", ABSENT_KEPT, "moe-grouped-gemm"},
    {"model.moe_expert_capacity_factor", ABSENT_KEPT, "moe-expert-capacity-factor"},
    {"model.moe_pad_expert_input_to_capacity", ABSENT_KEPT, "moe-pad-expert-input-to-capacity"},
    {"model.overlap_moe_expert_parallel_comm", ABSENT_KEPT, "overlap-moe-expert-parallel-comm"},
    {"model.cp_comm_type", ABSENT_NULL, NULL},
    {"model.recompute_granularity", ABSENT_NULL, NULL},
    {"model.recompute_method", ABSENT_NULL, NULL},
    {"model.recompute_num_layers", ABSENT_NULL, NULL},
    {"model.recompute_modules", ABSENT_NULL, NULL},
    {"model.attention_backend", ABSENT_KEPT, NULL},
    {"model.masked_softmax_fusion", ABSENT_KEPT, "no-masked-softmax-fusion"},
    {"model.cross_entropy_loss_fusion", ABSENT_FALSE, NULL},
    {"model.activation_func_fp8_input_store", ABSENT_KEPT, NULL},
    {"model.seq_length", ABSENT_KEPT, NULL},
    {"dataset.seq_length", ABSENT_KEPT, NULL},
    {"train.micro_batch_size", ABSENT_KEPT, NULL},
    {"train.global_batch_size", ABSENT_KEPT, NULL},
    {"ddp.use_distributed_optimizer", ABSENT_FALSE, NULL},
    {"ddp.num_distributed_optimizer_instances", ABSENT_ONE, NULL},
    {"ddp.bucket_size", ABSENT_NULL, "ddp-bucket-size"},
    {"ddp.overlap_grad_reduce", ABSENT_FALSE, NULL},
    {"ddp.overlap_param_gather", ABSENT_FALSE, NULL},
    {"ddp.use_megatron_fsdp", ABSENT_FALSE, NULL},
    {"ddp.data_parallel_sharding_strategy", ABSENT_NO_SHARD, NULL},
    {"ddp.outer_dp_sharding_strategy", ABSENT_NO_SHARD, NULL},
    {"optimizer.use_distributed_optimizer", ABSENT_FALSE, NULL},
    {"dist.use_megatron_fsdp", ABSENT_FALSE, NULL},
    {"checkpoint.ckpt_format", ABSENT_KEPT, "ckpt-format"},
    {"mixed_precision.bf16", ABSENT_FALSE, NULL},
    {"mixed_precision.fp16", ABSENT_FALSE, NULL},
    {"mixed_precision.grad_reduce_in_fp32", ABSENT_TRUE, NULL},
    {"mixed_precision.fp8", ABSENT_KEPT, NULL},
    {"mixed_precision.fp8_recipe", ABSENT_KEPT, NULL},
    {"mixed_precision.fp4", ABSENT_KEPT, NULL},
    {"comm_overlap.tp_comm_overlap", ABSENT_FALSE, NULL},
    {"comm_overlap.overlap_grad_reduce", ABSENT_FALSE, NULL},
    {"comm_overlap.overlap_param_gather", ABSENT_FALSE, NULL},
    {"comm_overlap.bucket_size", ABSENT_NULL, "ddp-bucket-size"},
    {"comm_overlap.overlap_moe_expert_parallel_comm", ABSENT_KEPT, "overlap-moe-expert-parallel-comm"},
};

static json_t *absent(absence kind)
{
    switch (kind) {
    case ABSENT_NULL: return json_null();
    case ABSENT_FALSE: return json_false();
    case ABSENT_TRUE: return json_true();
    case ABSENT_ONE: return json_integer(1);
    case ABSENT_NO_SHARD: return json_string("no_shard");
    case ABSENT_KEPT: break;
    }
    return NULL;
}

/* The value of a key by Megatron-LM's options, a new reference; NULL: the key is left out. */
static json_t *value_of(const struct key *key, const json_t *options)
{
    json_t *value = NULL;
    if (key->option != NULL) {
        value = json_incref(json_object_get(options, key->option));
        if (value != NULL && strncmp(key->option, "no-", 3) == 0) {
            json_decref(value);
            value = json_false();
        }
    } else if (!redcoi_translate(&redcoi_megatron_keys, options, &redcoi_megatron_bridge_keys, key->key, &value)) {
        value = NULL;
    }
    return value != NULL ? value : absent(key->absent);
}

static void say(json_t *config, const char *key, json_t *value)
{
    redcoi_say_key(config, &redcoi_megatron_bridge_keys, key, value);
}

/* Some key repeats an option, or it says how the model is made: that is the recipe's, told by a note. */
static bool is_known(const char *option)
{
    const redcoi_trainer_key *const said = redcoi_key_of(&redcoi_megatron_keys, option);
    if (said == NULL || said->means == REDCOI_MEANS_MODEL) { return said != NULL; }
    if (strncmp(option, "moe-router-", 11) == 0 || strncmp(option, "moe-shared-", 11) == 0) { return true; }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const redcoi_trainer_key *const row = redcoi_key_of(&redcoi_megatron_bridge_keys, keys[i].key);
        if (keys[i].option != NULL ? strcmp(keys[i].option, option) == 0 : strcmp(row->target, said->target) == 0) {
            return true;
        }
    }
    return false;
}

/* Number formats, and the optimizer's states in 32 bits, as the plan counts them. */
static void add_formats(const redcoi_context *context, json_t *config)
{
    static const char *const types[] = {"torch.bfloat16", "torch.float16", "torch.float32"};
    static const char *const states[] = {"optimizer.main_grads_dtype", "optimizer.main_params_dtype",
                                         "optimizer.exp_avg_dtype", "optimizer.exp_avg_sq_dtype"};
    const redco_precision precision = redcoi_base_precision(context->plan);
    say(config, "mixed_precision.fp32", json_boolean(precision == REDCO_FP32));
    say(config, "mixed_precision.params_dtype", json_string(types[precision]));
    say(config, "mixed_precision.pipeline_dtype", json_string(types[precision]));
    if (precision == REDCO_FP16) {
        say(config, "mixed_precision.grad_reduce_in_fp32",
            json_boolean(redcoi_gradient_bytes(context->plan, &context->offer->engine) == 4));
    }
    say(config, "optimizer.use_precision_aware_optimizer", json_false());
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        say(config, states[i], json_string("torch.float32"));
    }
}

static void add_notes(const redcoi_context *context, const json_t *options)
{
    const redco_model_dims *dims = redco_model_get_dims(context->reopened->inputs.model);
    redcoi_note(context, "the model is the recipe's: the plan is for %u layers of %u, vocabulary %llu", dims->layers,
                dims->hidden, (unsigned long long)dims->vocab);
    redcoi_note(context, json_object_get(options, "use-megatron-fsdp") != NULL
                             ? "start it without CUDA_DEVICE_MAX_CONNECTIONS=1: Megatron-FSDP refuses it"
                             : "start it with CUDA_DEVICE_MAX_CONNECTIONS=1 on GPUs before Blackwell");
    redcoi_note_placement(context, "torchrun");
}

static redco_status configure(const redcoi_context *context, json_t **config_out, redco_error *err)
{
    json_t *options = NULL;
    const char *option = NULL;
    json_t *value = NULL;
    if (redco_model_get_dims(context->reopened->inputs.model)->encoder_layers > 0) {
        return redco_fail(err, REDCO_EINFEASIBLE, "", "Megatron-Bridge 0.7.0 is exported for decoder-only models");
    }
    redco_status st = redcoi_megatron.configure(context, &options, err);
    if (st != REDCO_OK) { return st; }
    json_t *config = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        value = value_of(&keys[i], options);
        if (value != NULL) { say(config, keys[i].key, value); }
    }
    json_object_foreach(options, option, value)
    {
        if (st == REDCO_OK && !is_known(option)) {
            st = redco_fail(err, REDCO_EVALUE, "", "megatron_bridge.c: no key for --%s", option);
        }
    }
    add_formats(context, config);
    add_notes(context, options);
    json_decref(options);
    if (st != REDCO_OK) {
        json_decref(config);
        return st;
    }
    *config_out = config;
    return REDCO_OK;
}

/* "    cfg.SECTION = CLASS(" and a keyword for each key. */
static const char *const modules[] = {"torch", "AttnBackend", NULL};

static void write_object(const json_t *config, const char *section, const char *class_name, FILE *stream)
{
    const char *key = NULL;
    json_t *value = NULL;
    (void)fprintf(stream, "    cfg.%s = %s(\n", section, class_name);
    json_object_foreach(json_object_get(config, section), key, value)
    {
        (void)fprintf(stream, "        %s=", key);
        redcoi_write_python(value, 2, modules, stream);
        (void)fputs(",\n", stream);
    }
    (void)fputs("    )\n", stream);
}

static redco_status write(const redcoi_context *context, const json_t *config, FILE *stream, redco_error *err)
{
    static const char *const objects[] = {"mixed_precision", "comm_overlap", NULL};
    char use[200];
    (void)err;
    (void)snprintf(
        use, sizeof use,
        "pretrain(apply(RECIPE()), forward_step) under torchrun --nnodes=%u --nproc-per-node=%u; what is not "
        "set here is the recipe's.",
        redcoi_hosts(context->plan), redcoi_gpus_per_host(context->plan));
    redcoi_write_python_head(context, "Megatron-Bridge 0.7.0", use, stream);
    (void)fputs("import torch\n"
                "from megatron.bridge.training.comm_overlap import CommOverlapConfig\n"
                "from megatron.bridge.training.mixed_precision import MixedPrecisionConfig\n",
                stream);
    if (json_object_get(json_object_get(config, "model"), "attention_backend") != NULL) {
        (void)fputs("from megatron.core.transformer.enums import AttnBackend\n", stream);
    }
    (void)fputs("\n\ndef apply(cfg):\n", stream);
    redcoi_write_python_sections(config, "cfg", objects, modules, stream);
    write_object(config, "mixed_precision", "MixedPrecisionConfig", stream);
    write_object(config, "comm_overlap", "CommOverlapConfig", stream);
    (void)fputs("    return cfg\n", stream);
    return REDCO_OK;
}

/* Meshes, overlap and traits are those of Megatron-LM. */
static bool can_shard(const redco_parallelism *parallelism, const redco_shards *shards)
{
    return redcoi_megatron.can_shard(parallelism, shards);
}

static bool can_pipeline(const redco_pipeline *pipeline, const uint32_t *split, uint32_t layers)
{
    return redcoi_megatron.can_pipeline(pipeline, split, layers);
}

static uint32_t overlap(const redco_parallelism *parallelism, const redco_shards *shards, uint32_t wanted)
{
    return redcoi_megatron.overlap(parallelism, shards, wanted);
}

static void limit(redco_engine *engine, const redco_parallelism *parallelism)
{
    redcoi_megatron.limit(engine, parallelism);
}

const redcoi_ability redcoi_megatron_bridge = {
    .title = "Megatron-Bridge",
    .engine = "megatron-bridge",
    .source = "Megatron-Bridge 0.7.0, commit 067f987: src/megatron/bridge/training/config.py, mixed_precision.py, "
              "comm_overlap.py, src/megatron/bridge/models/gpt_provider.py; Megatron Core 0.20",
    .pipeline = true,
    .context_parallel = true,
    .cp_types = 1U << REDCO_CP_P2P | 1U << REDCO_CP_ALL_GATHER | 1U << REDCO_CP_ALL_TO_ALL,
    .cp_type = REDCO_CP_P2P,
    .sequence_parallel = true,
    .shard_over_cp = true,
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
