#!/usr/bin/env python3
"""Makes folders/transformers-VERSION.tar.gz: tiny models of all families and of what their configs can say, each in a
folder as this version of transformers saves it (bf16), with prompts and the 16 tokens that it makes of them greedily in
float64, examples, and their mean loss. Versions and environment: README.md.

    save_folders.py [NAME...]
"""
import io
import json
import pathlib
import random
import sys
import tarfile
import tempfile

import torch
import transformers

# As in make_reference.py: where transformers lowers to float32, it lowers to float64 here.
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)
modern = int(transformers.__version__.split(".")[0]) >= 5
WORDS, TOKENS = 13, 16
common = {"vocab_size": WORDS, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
llama = {**common, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 2, "max_position_embeddings": 32}
gemma = {**llama, "num_key_value_heads": 1, "head_dim": 4, "pad_token_id": 0}
phi3 = {**llama, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0}
gpt2 = {**common, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 32}
neox = {**common, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "max_position_embeddings": 32}
gptj = {**common, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "rotary_dim": 4}
opt = {**common, "hidden_size": 8, "ffn_dim": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
       "max_position_embeddings": 32, "word_embed_proj_dim": 8, "pad_token_id": 1}
bloom = {**common, "hidden_size": 8, "n_layer": 2, "n_head": 2}
mpt = {**common, "d_model": 8, "n_layers": 2, "n_heads": 2, "max_seq_len": 32}
t5 = {**common, "d_model": 8, "d_ff": 12, "d_kv": 4, "num_layers": 1, "num_decoder_layers": 2, "num_heads": 2,
      "relative_attention_num_buckets": 6, "relative_attention_max_distance": 9, "decoder_start_token_id": 0,
      "pad_token_id": 0, "eos_token_id": 1}
bart = {**common, "d_model": 8, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 32,
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
        "forced_eos_token_id": None}


def rope(theta=10000.0, part=None, **scaling):
    """Rotary positions as this version's configs take them."""
    if not modern:
        return {"rope_theta": theta, **({"rope_scaling": scaling} if scaling else {}),
                **({"partial_rotary_factor": part} if part else {})}
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **scaling,
                                **({"partial_rotary_factor": part} if part else {})}}


def neox_rope(theta, part):
    return rope(theta, part) if modern else {"rotary_emb_base": theta, "rotary_pct": part}


llama3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
models = {
    "llama": ("Llama", llama), "llama-groups": ("Llama", {**llama, "num_key_value_heads": 1}),
    "llama-tied": ("Llama", {**llama, "tie_word_embeddings": True}),
    "llama-biases": ("Llama", {**llama, "attention_bias": True, "mlp_bias": True}),
    "llama-head": ("Llama", {**llama, "head_dim": 6}), "llama-base": ("Llama", {**llama, **rope(100.0)}),
    "llama-linear": ("Llama", {**llama, **rope(500.0, rope_type="linear", factor=2.0)}),
    "llama-llama3": ("Llama", {**llama, **rope(50.0, **llama3)}),
    "llama-dynamic": ("Llama", {**llama, **rope(rope_type="dynamic", factor=2.0)}),
    "llama-yarn": ("Llama", {**llama, **rope(rope_type="yarn", factor=2.0, original_max_position_embeddings=16)}),
    "llama-relu": ("Llama", {**llama, "hidden_act": "relu"}), "llama-ends": ("Llama", llama),
    "llama-dropout": ("Llama", {**llama, "attention_dropout": 0.1}),
    "mistral": ("Mistral", {**llama, "sliding_window": 4}), "mistral-all": ("Mistral", {**llama, "sliding_window": None}),
    "mistral-base": ("Mistral", {**llama, "sliding_window": 5, **rope(1000.0)}),
    "qwen2": ("Qwen2", llama), "qwen2-tied": ("Qwen2", {**llama, "tie_word_embeddings": True}),
    "qwen2-linear": ("Qwen2", {**llama, **rope(300.0, rope_type="linear", factor=3.0)}),
    "qwen2-base": ("Qwen2", {**llama, **rope(1e6)}),
    "qwen3": ("Qwen3", {**llama, "head_dim": 6}),
    "qwen3-tied": ("Qwen3", {**llama, "head_dim": 4, "tie_word_embeddings": True, **rope(1e6)}),
    "qwen3-window": ("Qwen3", {**llama, "head_dim": 4, "use_sliding_window": True, "sliding_window": 4,
                               "max_window_layers": 1}),
    "qwen3-biases": ("Qwen3", {**llama, "head_dim": 4, "attention_bias": True}),
    "phi3": ("Phi3", phi3), "phi3-window": ("Phi3", {**phi3, "sliding_window": 4}),
    "phi3-base": ("Phi3", {**phi3, **rope(200.0)}),
    "gemma": ("Gemma", gemma), "gemma-groups": ("Gemma", {**gemma, "num_key_value_heads": 2, "head_dim": 6}),
    "gemma-base": ("Gemma", {**gemma, **rope(100.0)}), "gemma-untied": ("Gemma", {**gemma, "tie_word_embeddings": False}),
    "gpt2": ("GPT2", gpt2), "gpt2-scaled": ("GPT2", {**gpt2, "scale_attn_by_inverse_layer_idx": True}),
    "gpt2-unscaled": ("GPT2", {**gpt2, "scale_attn_weights": False}),
    "gpt2-untied": ("GPT2", {**gpt2, "tie_word_embeddings": False}), "gpt2-narrow": ("GPT2", {**gpt2, "n_inner": 12}),
    "gpt2-relu": ("GPT2", {**gpt2, "activation_function": "relu", "attn_pdrop": 0.0, "resid_pdrop": 0.0,
                           "embd_pdrop": 0.0}),
    "gpt_neox": ("GPTNeoX", neox), "gpt_neox-sequential": ("GPTNeoX", {**neox, "use_parallel_residual": False}),
    "gpt_neox-rotated": ("GPTNeoX", {**neox, **neox_rope(10000.0, 1.0)}),
    "gpt_neox-base": ("GPTNeoX", {**neox, **neox_rope(300.0, 0.5)}),
    "gpt_neox-tied": ("GPTNeoX", {**neox, "tie_word_embeddings": True}),
    "gpt_neox-unbiased": ("GPTNeoX", {**neox, "attention_bias": False}),
    "gptj": ("GPTJ", gptj), "gptj-rotated": ("GPTJ", {**gptj, "rotary_dim": 8}),
    "gptj-narrow": ("GPTJ", {**gptj, "n_inner": 12}),
    "opt": ("OPT", opt), "opt-unbiased": ("OPT", {**opt, "enable_bias": False}),
    "opt-post-norm": ("OPT", {**opt, "do_layer_norm_before": False, "word_embed_proj_dim": 4}),
    "opt-gelu": ("OPT", {**opt, "activation_function": "gelu"}),
    "opt-plain": ("OPT", {**opt, "layer_norm_elementwise_affine": False}),
    "bloom": ("Bloom", bloom), "bloom-heads": ("Bloom", {**bloom, "hidden_size": 12, "n_head": 6}),
    "bloom-post": ("Bloom", {**bloom, "apply_residual_connection_post_layernorm": True}),
    "mpt": ("Mpt", mpt), "mpt-scaled": ("Mpt", {**mpt, "attn_config": {"softmax_scale": 0.4}}),
    "mpt-clipped": ("Mpt", {**mpt, "attn_config": {"clip_qkv": 0.5}}),
    "mpt-wide": ("Mpt", {**mpt, "expansion_ratio": 2}),
    "t5": ("T5", t5), "t5-gated": ("T5", {**t5, "feed_forward_proj": "gated-gelu"}),
    "t5-untied": ("T5", {**t5, "tie_word_embeddings": False}),
    "t5-silu": ("T5", {**t5, "feed_forward_proj": "gated-silu"}),
    "mt5": ("MT5", t5), "mt5-tied": ("MT5", {**t5, "tie_word_embeddings": True}),
    "bart": ("Bart", bart), "bart-scaled": ("Bart", {**bart, "scale_embedding": True}),
    "bart-forced": ("Bart", {**bart, "forced_eos_token_id": 2, "forced_bos_token_id": 4}),
    "bart-relu": ("Bart", {**bart, "activation_function": "relu"}),
}
if modern:  # 4.48's Phi-3 has this key and does not run with it; its Qwen2 has windows with flash attention alone
    models["phi3-part"] = ("Phi3", {**phi3, **rope(10000.0, 0.5)})
    models["qwen2-window"] = ("Qwen2", {**llama, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1})


def ids(count):
    return [random.randrange(3, WORDS) for _ in range(count)]


def fill(model):
    """Weights of few digits, so that the archive is small."""
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            size = 0.5 if parameter.dim() > 1 else 0.2
            parameter.copy_(torch.round(torch.randn(parameter.shape) * size * 16) / 16)
            if parameter.dim() == 1 and name.endswith("weight"):
                parameter.add_(1.0)


def save(name, folder):
    kind, settings = models[name]
    torch.manual_seed(sum(map(ord, name)))
    random.seed(name)
    config = getattr(transformers, f"{kind}Config")(**settings)
    auto = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation="eager")
    fill(model)
    if name == "llama-ends":
        model.generation_config.eos_token_id = [5, 7, 11]
    model.to(torch.bfloat16).save_pretrained(folder)
    model = auto.from_pretrained(folder, attn_implementation="eager", torch_dtype=torch.float64).double().eval()
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    total, count = 0.0, 0
    with open(folder / "prompts.jsonl", "w") as prompts, open(folder / "examples.jsonl", "w") as examples:
        for length in (3, 1, 6):
            tokens, targets = ids(length), ids(length + 3)
            batch, labels = torch.tensor([tokens]), torch.tensor([targets])
            with torch.no_grad():
                made = model.generate(batch, attention_mask=torch.ones_like(batch), max_new_tokens=TOKENS, min_length=0,
                                      use_cache=False, do_sample=False, num_beams=1, pad_token_id=0)[0].tolist()
                made = made[1:] if config.is_encoder_decoder else made[length:]
                ended = made[-1] in ends
                if config.is_encoder_decoder:
                    logits = model(batch, labels=labels).logits
                else:
                    tokens_seen = tokens + ids(3)
                    logits = model(torch.tensor([tokens_seen])).logits
            print(json.dumps({"tokens": tokens, "made": made[:-1] if ended else made, "ended": ended}), file=prompts)
            print(json.dumps({"tokens": tokens if config.is_encoder_decoder else tokens_seen, "targets": targets}),
                  file=examples)
            total += torch.nn.functional.cross_entropy(logits[0], labels[0], reduction="sum").item()
            count += len(targets)
    (folder / "loss").write_text(f"{total / count:.15g} {count}\n")


def add(archive, path, name):
    data = path.read_bytes()
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    archive.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    version = f"transformers-{transformers.__version__}"
    target = pathlib.Path(__file__).parent / "folders"
    target.mkdir(exist_ok=True)
    names = sys.argv[1:] or [n for n, (kind, _) in models.items() if hasattr(transformers, f"{kind}Config")]
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(target / f"{version}.tar.gz", "w:gz") as archive:
        for model_name in names:
            folder = pathlib.Path(scratch) / model_name
            save(model_name, folder)
            for file in sorted(folder.iterdir()):
                add(archive, file, f"{version}/{model_name}/{file.name}")
