model_type = "LLAMA2"
data = dict(
    seq_len=4096,
    micro_num=16,
    micro_bsz=4,
)
hybrid_zero_optimizer = dict(
    overlap_sync_grad=True,
    overlap_sync_param=True,
    reduce_bucket_size=128000000,
    clip_grad_norm=1,
)
model = dict(
    checkpoint=False,
    num_layers=32,
    hidden_size=4096,
    num_attention_heads=32,
    num_kv_attention_heads=8,
    mlp_ratio=3.5,
    vocab_size=128256,
    dtype="torch.bfloat16",
    num_chunks=1,
    use_flash_attn=True,
)
parallel = dict(
    zero1=dict(
        size=16,
        fsdp=False,
    ),
    tensor=dict(
        size=2,
        mode="msp",
    ),
    pipeline=dict(
        size=2,
        interleaved_overlap=False,
    ),
    weight=dict(
        size=1,
        overlap=False,
        memory_pool=False,
    ),
)
