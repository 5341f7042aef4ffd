#!/usr/bin/env python3
"""Makes saved/: a tiny Qwen2 as transformers saves it (bf16, once in one file and once in two with an index), and of
each tensor its length and its sum weighted by cos(0.3 i). Versions and environment: README.md.
"""
import pathlib
import shutil

import torch
import transformers

folder = pathlib.Path(__file__).parent / "saved"
config = transformers.Qwen2Config(vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=1,
                                  num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=16,
                                  tie_word_embeddings=True)
torch.manual_seed(1)
model = transformers.AutoModelForCausalLM.from_config(config)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.normal_()
model.to(torch.bfloat16)
shutil.rmtree(folder, ignore_errors=True)
model.save_pretrained(folder, max_shard_size="1KB")
model.save_pretrained(folder.with_name("whole"))
shutil.move(folder.with_name("whole") / "model.safetensors", folder)
shutil.rmtree(folder.with_name("whole"))
(folder / "generation_config.json").unlink()
with open(folder / "checksums.txt", "w") as file:
    for name, parameter in model.named_parameters():
        flat = parameter.detach().double().reshape(-1)
        weights = torch.cos(0.3 * torch.arange(flat.numel(), dtype=torch.float64))
        print(name, f"{flat.norm().item():.17g} {(flat * weights).sum().item():.17g}", file=file)
