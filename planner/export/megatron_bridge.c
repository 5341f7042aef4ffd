/* Megatron-Bridge's configuration: a Python function that changes a recipe's ConfigContainer. Bridge trains by Megatron
   Core, so that its keys are derived from the options of megatron.c, one row of a table each. Keys: Megatron-Bridge
   0.7.0, commit 067f987, src/megatron/bridge/training/config.py, mixed_precision.py, comm_overlap.py,
   models/gpt_provider.py. */
#include "planner/export/internal.h"

#include <string.h>

/** A key that has no value where the option is not set: null, false, a number; or it stays the recipe's. */
typedef enum absence { ABSENT_KEPT, ABSENT_NULL, ABSENT_FALSE, ABSENT_TRUE, ABSENT_ONE, ABSENT_NO_SHARD } absence;

/** An option of Megatron-LM as a key. Flags are true, or false where the option says "no". */
struct key {
    const char *option, *section, *key;
    absence absent;
};

static const struct key keys[] = {
    {"tensor-model-parallel-size", "model", "tensor_model_parallel_size", ABSENT_ONE},
    {"sequence-parallel", "model", "sequence_parallel", ABSENT_FALSE},
    {"pipeline-model-parallel-size", "model", "pipeline_model_parallel_size", ABSENT_ONE},
    {"num-virtual-stages-per-pipeline-rank", "model", "virtual_pipeline_model_parallel_size", ABSENT_NULL},
    {"microbatch-group-size-per-virtual-pipeline-stage", "model", "microbatch_group_size_per_vp_stage", ABSENT_NULL},
    {"pipeline-model-parallel-layout", "model", "pipeline_model_parallel_layout", ABSENT_NULL},
    {"account-for-embedding-in-pipeline-split", "model", "account_for_embedding_in_pipeline_split", ABSENT_FALSE},
    {"account-for-loss-in-pipeline-split", "model", "account_for_loss_in_pipeline_split", ABSENT_FALSE},
    {"context-parallel-size", "model", "context_parallel_size", ABSENT_ONE},
    {"cp-comm-type", "model", "cp_comm_type", ABSENT_NULL},
    {"recompute-granularity", "model", "recompute_granularity", ABSENT_NULL},
    {"recompute-method", "model", "recompute_method", ABSENT_NULL},
    {"recompute-num-layers", "model", "recompute_num_layers", ABSENT_NULL},
    {"recompute-modules", "model", "recompute_modules", ABSENT_NULL},
    {"attention-backend", "model", "attention_backend", ABSENT_KEPT},
    {"no-masked-softmax-fusion", "model", "masked_softmax_fusion", ABSENT_KEPT},
    {"cross-entropy-loss-fusion", "model", "cross_entropy_loss_fusion", ABSENT_FALSE},
    {"seq-length", "model", "seq_length", ABSENT_KEPT},
    {"seq-length", "dataset", "seq_length", ABSENT_KEPT},
    {"micro-batch-size", "train", "micro_batch_size", ABSENT_KEPT},
    {"global-batch-size", "train", "global_batch_size", ABSENT_KEPT},
    {"use-distributed-optimizer", "ddp", "use_distributed_optimizer", ABSENT_FALSE},
    {"num-distributed-optimizer-instances", "ddp", "num_distributed_optimizer_instances", ABSENT_ONE},
    {"ddp-bucket-size", "ddp", "bucket_size", ABSENT_NULL},
    {"overlap-grad-reduce", "ddp", "overlap_grad_reduce", ABSENT_FALSE},
    {"overlap-param-gather", "ddp", "overlap_param_gather", ABSENT_FALSE},
    {"use-megatron-fsdp", "ddp", "use_megatron_fsdp", ABSENT_FALSE},
    {"data-parallel-sharding-strategy", "ddp", "data_parallel_sharding_strategy", ABSENT_NO_SHARD},
    {"outer-dp-sharding-strategy", "ddp", "outer_dp_sharding_strategy", ABSENT_NO_SHARD},
    {"use-distributed-optimizer", "optimizer", "use_distributed_optimizer", ABSENT_FALSE},
    {"use-megatron-fsdp", "dist", "use_megatron_fsdp", ABSENT_FALSE},
    {"ckpt-format", "checkpoint", "ckpt_format", ABSENT_KEPT},
    {"bf16", "mixed_precision", "bf16", ABSENT_FALSE},
    {"fp16", "mixed_precision", "fp16", ABSENT_FALSE},
    {"grad-reduce-in-bf16", "mixed_precision", "grad_reduce_in_fp32", ABSENT_TRUE},
    {"fp8-format", "mixed_precision", "fp8", ABSENT_KEPT},
    {"fp8-recipe", "mixed_precision", "fp8_recipe", ABSENT_KEPT},
    {"fp4-format", "mixed_precision", "fp4", ABSENT_KEPT},
    {"tp-comm-overlap", "comm_overlap", "tp_comm_overlap", ABSENT_FALSE},
    {"overlap-grad-reduce", "comm_overlap", "overlap_grad_reduce", ABSENT_FALSE},
    {"overlap-param-gather", "comm_overlap", "overlap_param_gather", ABSENT_FALSE},
    {"ddp-bucket-size", "comm_overlap", "bucket_size", ABSENT_NULL},
};

/** Options that say how the model is made: the recipe's, told by a note; and one that repeats what another says. */
static const char *const of_recipe[] = {"num-layers",
                                        "hidden-size",
                                        "ffn-hidden-size",
                                        "num-attention-heads",
                                        "kv-channels",
                                        "group-query-attention",
                                        "num-query-groups",
                                        "vocab-size",
                                        "max-position-embeddings",
                                        "position-embedding-type",
                                        "rotary-base",
                                        "rotary-percent",
                                        "normalization",
                                        "norm-epsilon",
                                        "swiglu",
                                        "disable-bias-linear",
                                        "add-qkv-bias",
                                        "qk-layernorm",
                                        "untie-embeddings-and-output-weights",
                                        "attention-dropout",
                                        "hidden-dropout",
                                        "accumulate-allreduce-grads-in-fp32",
                                        NULL};

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

/* The value of an option under its key, a new reference. */
static json_t *converted(const struct key *key, json_t *value)
{
    if (strcmp(key->key, "attention_backend") == 0) { return json_sprintf("AttnBackend.%s", json_string_value(value)); }
    if (strncmp(key->option, "no-", 3) == 0 || strcmp(key->key, "grad_reduce_in_fp32") == 0) { return json_false(); }
    return json_incref(value);
}

static void set_in(json_t *config, const char *section, const char *key, json_t *value)
{
    json_t *keys_of = json_object_get(config, section);
    if (keys_of == NULL) {
        keys_of = json_object();
        (void)json_object_set_new(config, section, keys_of);
    }
    (void)json_object_set_new(keys_of, key, value);
}

static bool is_known(const char *option)
{
    bool known = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) { known = known || strcmp(keys[i].option, option) == 0; }
    for (size_t i = 0; of_recipe[i] != NULL; i++) { known = known || strcmp(of_recipe[i], option) == 0; }
    return known;
}

/* Number formats, and the optimizer's states in 32 bits, as the plan counts them. */
static void add_formats(const redcoi_context *context, json_t *config)
{
    static const char *const types[] = {"torch.bfloat16", "torch.float16", "torch.float32"};
    static const char *const states[] = {"main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"};
    const redco_precision precision = redcoi_base_precision(context->plan);
    set_in(config, "mixed_precision", "fp32", json_boolean(precision == REDCO_FP32));
    set_in(config, "mixed_precision", "params_dtype", json_string(types[precision]));
    set_in(config, "mixed_precision", "pipeline_dtype", json_string(types[precision]));
    if (precision == REDCO_FP16) {
        set_in(config, "mixed_precision", "grad_reduce_in_fp32",
               json_boolean(redcoi_gradient_bytes(context->plan, &context->offer->engine) == 4));
    }
    set_in(config, "optimizer", "use_precision_aware_optimizer", json_false());
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        set_in(config, "optimizer", states[i], json_string("torch.float32"));
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
        value = json_object_get(options, keys[i].option);
        json_t *made = value != NULL ? converted(&keys[i], value) : absent(keys[i].absent);
        if (made != NULL) { set_in(config, keys[i].section, keys[i].key, made); }
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
