#!/usr/bin/env bash
MODEL=meta-llama/Llama-3.1-8B
accelerate launch --num_processes 16 --num_machines 2 --mixed_precision bf16 train.py \
  --model_name_or_path "$MODEL" --per_device_train_batch_size 2 --gradient_accumulation_steps=4 \
  --gradient_checkpointing True --fsdp "full_shard auto_wrap" --attn_implementation flash_attention_2 \
  --max_seq_length 2048 --learning_rate 2e-5 --output_dir out/$RUN --report_to none
