def apply(config):
    config.training.num_tokens_per_microbatch_per_dp_rank = 16384
    config.training.num_tokens_per_train_step = 4194304
    config.training.max_context_length = 4096
    config.training.dtype = "float32"
    config.training.mixed_precision_param = "bfloat16"
    config.training.mixed_precision_reduce = "float32"
    config.training.disable_cuda_graphs = True
    config.parallelism.data_parallel_replicate_degree = 1
    config.parallelism.data_parallel_shard_degree = 16
    config.parallelism.fsdp_reshard_after_forward = "never"
    config.parallelism.tensor_parallel_degree = 2
    config.parallelism.enable_sequence_parallel = True
    config.parallelism.context_parallel_degree = 1
    config.parallelism.pipeline_parallel_degree = 2
    config.parallelism.pipeline_parallel_schedule = "Interleaved1F1B"
    config.parallelism.num_pp_microbatches = 16
    config.parallelism.pipeline_parallel_first_stage_less_layers = 0
    config.parallelism.pipeline_parallel_last_stage_less_layers = 0
    config.parallelism.pipeline_parallel_layers_per_stage = None
    config.parallelism.module_fqns_per_model_part = [["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3"], ["layers.4", "layers.5", "layers.6", "layers.7"], ["layers.8", "layers.9", "layers.10", "layers.11", "layers.12"], ["layers.13", "layers.14", "layers.15", "layers.16"], ["layers.17", "layers.18", "layers.19", "layers.20"], ["layers.21", "layers.22", "layers.23", "layers.24"], ["layers.25", "layers.26", "layers.27", "layers.28"], ["layers.29", "layers.30", "layers.31", "norm", "lm_head"]]
    config.compile.enable = False
    config.compile.enable_async_tensor_parallel = False
    config.activation_checkpoint = None
    return config
