/* accelerate's configuration YAML or JSON, and the FSDP JSON that the Trainer reads.
 * Source: accelerate 1.12, src/accelerate/commands/config/config_args.py, src/accelerate/utils/dataclasses.py;
 * transformers 5.24, src/transformers/training_args.py (fsdp_config). */
#include "planner/read/keys/key_rows.h"

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"distributed_type", OPTION, ".launch", "NO=none MULTI_GPU=ddp FSDP=fsdp DEEPSPEED=deepspeed MEGATRON_LM=megatron"},
    {"num_processes", OPTION, "gpus", NULL},
    {"num_machines", OPTION, ".machines", NULL},
    {"mixed_precision", OPTION, ".mixed-precision", "no=fp32 bf16=bf16 fp16=fp16 fp8=fp8"},
    {"sharding_strategy", OPTION, ".fsdp", "1=zero3 FULL_SHARD=zero3 2=zero2 SHARD_GRAD_OP=zero2 3=ddp NO_SHARD=ddp 4=mics HYBRID_SHARD=mics 5=hybrid-zero2 HYBRID_SHARD_ZERO2=hybrid-zero2"},
    {"reshard_after_forward", OPTION, ".fsdp", "true=zero3 false=zero2 FULL_SHARD=zero3 SHARD_GRAD_OP=zero2 NO_SHARD=ddp HYBRID_SHARD=mics HYBRID_SHARD_ZERO2=hybrid-zero2"},
    {"activation_checkpointing", OPTION, ".checkpointing", "true=full false=none"},
    {"offload_params", OPTION, ".offload-parameters", YES},
    {"cpu_offload", OPTION, ".offload-parameters", YES},
    {"version", ENGINE, "FSDP 1 or 2: the same layout", NULL},
    HARMLESS("config"),
    {"auto_wrap_policy", ENGINE, "a unit is a layer", "TRANSFORMER_BASED_WRAP= *="},
    {"transformer_layer_cls_to_wrap", ENGINE, "a unit is a layer", NULL},
    {"min_num_params", ENGINE, "a unit is a layer", NULL},
    {"xla*", LIMIT, "PyTorch/XLA", NULL},
    {"backward_prefetch*", ENGINE, "gathers as the engine hides them", NULL},
    {"forward_prefetch", ENGINE, "gathers as the engine hides them", NULL},
    {"limit_all_gathers", ENGINE, "gathers as the engine hides them", NULL},
    {"use_orig_params", ENGINE, "flat units", NULL},
    {"ignored_modules", LIMIT, "modules that are not sharded", NULL},
    HARMLESS("sync_module_states"), HARMLESS("state_dict_type"), HARMLESS("cpu_ram_efficient_loading"),
    {"deepspeed_config.zero_stage", OPTION, ".zero", "0=ddp 1=zero1 2=zero2 3=zero3"},
    {"deepspeed_config.gradient_accumulation_steps", OPTION, ".accumulation", "auto= *=*"},
    {"deepspeed_config.train_micro_batch_size_per_gpu", OPTION, "micro-batch", "auto= *=*"},
    {"deepspeed_config.deepspeed_config_file", OPTION, ".file", NULL},
    {"deepspeed_config.offload_optimizer_device", OPTION, ".offload-optimizer", "none= cpu=yes"},
    {"deepspeed_config.offload_param_device", OPTION, ".offload-parameters", "none= cpu=yes"},
    HARMLESS("deepspeed_config.zero3_init_flag"), HARMLESS("deepspeed_config.zero3_save_16bit_model"),
    HARMLESS("deepspeed_config.*"),
    {"megatron_lm_config.megatron_lm_tp_degree", OPTION, "tp", NULL},
    {"megatron_lm_config.megatron_lm_pp_degree", OPTION, "pp", NULL},
    {"megatron_lm_config.megatron_lm_num_micro_batches", OPTION, ".accumulation", NULL},
    {"megatron_lm_config.megatron_lm_sequence_parallelism", OPTION, "sequence-parallel", "true=on false=off"},
    {"megatron_lm_config.megatron_lm_recompute_activations", OPTION, ".recompute", "true=selective false=none"},
    {"megatron_lm_config.megatron_lm_use_distributed_optimizer", OPTION, ".optimizer-shards", YES},
    HARMLESS("megatron_lm_config.*"),
    {"parallelism_config.parallelism_config_dp_replicate_size", OPTION, ".dp-replicate", NULL},
    {"parallelism_config.parallelism_config_dp_shard_size", OPTION, ".dp-shard", NULL},
    {"parallelism_config.parallelism_config_tp_size", OPTION, "tp", NULL},
    {"parallelism_config.parallelism_config_cp_size", OPTION, "cp", NULL},
    {"parallelism_config.parallelism_config_sp_size", OPTION, ".ulysses", NULL},
    {"parallelism_config.parallelism_config_cp_comm_strategy", OPTION, "cp-type", "allgather=all-gather alltoall=p2p"},
    HARMLESS("parallelism_config.*"),
    {"gradient_accumulation_steps", OPTION, ".accumulation", NULL},
    {"dynamo_config.dynamo_backend", TRAIT, "compiled", "NO= INDUCTOR=1"},
    {"dynamo_backend", TRAIT, "compiled", "NO= INDUCTOR=1"},
    HARMLESS("dynamo_config.*"),
    {"fp8_config.*", ENGINE, "recipe of fp8", NULL},
    {"use_cpu", LIMIT, "training on processors", YES},
    HARMLESS("tpu_*"), HARMLESS("compute_environment"), HARMLESS("debug"), HARMLESS("downcast_bf16"),
    HARMLESS("machine_rank"), HARMLESS("main_*"), HARMLESS("rdzv_backend"), HARMLESS("same_network"),
    HARMLESS("enable_cpu_affinity"), HARMLESS("gpu_ids"), HARMLESS("command_file"), HARMLESS("commands"),
    HARMLESS("deepspeed_multinode_launcher"),
    {"fsdp", OPTION, ".fsdp-words", NULL},
    END_OF_KEYS,
};
/* clang-format on */

static const char *const prefixes[] = {"fsdp_config.fsdp_", "fsdp_config.", "fsdp_", NULL};
static const char *const defaults[] = {"tp", "1", "pp", "1", "cp", "1", NULL};

const redcoi_trainer redcoi_accelerate_keys = {
    .word = "accelerate", .title = "accelerate", .keys = keys, .prefixes = prefixes, .defaults = defaults};
