#!/usr/bin/env python3
"""Makes predictions/: a tiny T5, BART and Phi-3 as transformers saves them (f32), examples, and of these what transformers
in float64 generates greedily and the mean loss over all targets; the same of the Qwen2 of saved/. Versions and
environment: README.md.

    save_predictions.py [NAME...]
"""
import json
import pathlib
import random
import shutil
import sys

import torch
import transformers
import transformers.generation.utils

transformers.generation.utils.is_fsdp_managed_module = lambda model: False  # torch 1.13's cannot be imported here
torch.set_default_dtype(torch.float64)
here = pathlib.Path(__file__).parent
folder = here / "predictions"
configs = {
    "t5": transformers.T5Config(vocab_size=19, d_model=8, d_ff=12, d_kv=4, num_layers=1, num_decoder_layers=2, num_heads=2,
                                relative_attention_num_buckets=6, relative_attention_max_distance=9,
                                decoder_start_token_id=0, eos_token_id=9),
    "bart": transformers.BartConfig(vocab_size=19, d_model=8, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
                                    decoder_attention_heads=2, encoder_ffn_dim=12, decoder_ffn_dim=12,
                                    max_position_embeddings=24, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                                    decoder_start_token_id=2, forced_eos_token_id=None),
    "qwen2": None,
    "phi3": transformers.Phi3Config(vocab_size=19, hidden_size=16, intermediate_size=12, num_hidden_layers=2,
                                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=24,
                                    sliding_window=4, pad_token_id=0, bos_token_id=1, eos_token_id=9,
                                    attn_implementation="eager"),
}
ids = lambda count, words: [random.randrange(3, words) for _ in range(count)]
for name in sys.argv[1:] or configs:
    config = configs[name]
    torch.manual_seed(3)
    random.seed(4)
    path = folder / name if config else here / "saved"
    shutil.rmtree(folder / name, ignore_errors=True)
    encoder = config is not None and config.is_encoder_decoder
    auto = transformers.AutoModelForSeq2SeqLM if encoder else transformers.AutoModelForCausalLM
    if config:
        model = auto.from_config(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1 or name == "t5":  # BART's last bias would choose all tokens
                    parameter.normal_(std=0.5)
        model.to(torch.float32).save_pretrained(path)
        (path / "generation_config.json").unlink()
        (path / "model.safetensors").chmod(0o644)
    model = auto.from_pretrained(path, attn_implementation="eager").double().eval()
    settings = transformers.GenerationConfig(max_new_tokens=8, pad_token_id=0, eos_token_id=model.config.eos_token_id,
                                             decoder_start_token_id=model.config.decoder_start_token_id)
    words, total, count = model.config.vocab_size, 0.0, 0
    with open(folder / f"{name}.jsonl", "w") as prompts, open(folder / f"{name}.examples.jsonl", "w") as examples:
        for length in (5, 1, 7, 2, 6):
            tokens = ids(length, words)
            batch = torch.tensor([tokens])
            with torch.no_grad():
                made = model.generate(batch, generation_config=settings, attention_mask=torch.ones_like(batch))[0].tolist()
            made = made[1:] if encoder else made[length:]
            ended = made[-1] == model.config.eos_token_id
            print(json.dumps({"tokens": tokens, "made": made[:-1] if ended else made, "ended": ended}), file=prompts)
            targets = ids(length + 1 if encoder else length, words)
            targets[0] = -100 if length == 7 else targets[0]
            print(json.dumps({"tokens": tokens, "targets": targets}), file=examples)
            labels = torch.tensor([targets])
            with torch.no_grad():
                logits = model(batch, labels=labels).logits if encoder else model(batch).logits
            total += torch.nn.functional.cross_entropy(logits[0], labels[0], reduction="sum").item()
            count += int((labels >= 0).sum())
    (folder / f"{name}.loss").write_text(f"{total / count:.15g} {count}\n")
