NPROC_PER_NODE=8 \
megatron sft \
    --model Qwen/Qwen3-8B \
    --tuner_type full \
    --tensor_model_parallel_size 2 \
    --sequence_parallel true \
    --micro_batch_size 1 \
    --global_batch_size 16 \
    --max_length 8192 \
    --packing true \
    --recompute_granularity full \
    --recompute_method uniform \
    --recompute_num_layers 1
