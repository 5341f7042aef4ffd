import torch
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.mixed_precision import MixedPrecisionConfig


def apply(cfg):
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.sequence_parallel = True
    cfg.model.pipeline_model_parallel_size = 2
    cfg.model.virtual_pipeline_model_parallel_size = None
    cfg.model.microbatch_group_size_per_vp_stage = 2
    cfg.model.pipeline_model_parallel_layout = "Et*4|t*4|t*5|t*4|t*4|t*4|t*4|t*3L"
    cfg.model.account_for_embedding_in_pipeline_split = False
    cfg.model.account_for_loss_in_pipeline_split = False
    cfg.model.context_parallel_size = 1
    cfg.model.cp_comm_type = None
    cfg.model.recompute_granularity = None
    cfg.model.recompute_method = None
    cfg.model.recompute_num_layers = None
    cfg.model.recompute_modules = None
    cfg.model.cross_entropy_loss_fusion = True
    cfg.model.seq_length = 4096
    cfg.dataset.seq_length = 4096
    cfg.train.micro_batch_size = 4
    cfg.train.global_batch_size = 1024
    cfg.ddp.use_distributed_optimizer = True
    cfg.ddp.num_distributed_optimizer_instances = 1
    cfg.ddp.bucket_size = 128000000
    cfg.ddp.overlap_grad_reduce = True
    cfg.ddp.overlap_param_gather = True
    cfg.ddp.use_megatron_fsdp = False
    cfg.ddp.data_parallel_sharding_strategy = "no_shard"
    cfg.ddp.outer_dp_sharding_strategy = "no_shard"
    cfg.optimizer.use_distributed_optimizer = True
    cfg.optimizer.use_precision_aware_optimizer = False
    cfg.optimizer.main_grads_dtype = torch.float32
    cfg.optimizer.main_params_dtype = torch.float32
    cfg.optimizer.exp_avg_dtype = torch.float32
    cfg.optimizer.exp_avg_sq_dtype = torch.float32
    cfg.dist.use_megatron_fsdp = False
    cfg.mixed_precision = MixedPrecisionConfig(
        bf16=True,
        fp16=False,
        grad_reduce_in_fp32=True,
        fp32=False,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
    )
    cfg.comm_overlap = CommOverlapConfig(
        tp_comm_overlap=False,
        overlap_grad_reduce=True,
        overlap_param_gather=True,
        bucket_size=128000000,
    )
    return cfg
