#!/usr/bin/env python3
"""Makes fine_tuning/: a tiny LLaMA, GPT-2, Qwen2 and T5 as transformers saves them (bf16), ids to train them on, and what
transformers makes of them in float32 on a processor: the loss of 20 fine-tuning steps, the perplexity of examples before
the first, and 64 tokens that are generated greedily behind prompts, before and after training. README.md has versions.
"""
import json
import math
import pathlib
import random
import shutil
import struct
import sys

import torch
import transformers

STEPS, BATCH, LENGTH, WORDS, NEW, SEED = 20, 4, 16, 61, 64, 1
# Two likeliest tokens that are nearer than this could be exchanged by rounding: another seed of weights is taken then.
MARGIN = 2e-4
VARIETY = 7 # different tokens of five continuations, at least
folder = pathlib.Path(__file__).parent / "fine_tuning"
common = {"vocab_size": WORDS, "bos_token_id": None, "eos_token_id": None}
llama = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 96, **common}
configs = {
    "llama": transformers.LlamaConfig(**llama),
    "qwen2": transformers.Qwen2Config(**llama, tie_word_embeddings=True),
    "gpt2": transformers.GPT2Config(n_embd=24, n_layer=2, n_head=4, n_positions=96, resid_pdrop=0.0, embd_pdrop=0.0,
                                    attn_pdrop=0.0, **common),
    "t5": transformers.T5Config(d_model=24, d_ff=32, d_kv=6, num_layers=2, num_decoder_layers=2, num_heads=4,
                                dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0, vocab_size=WORDS,
                                eos_token_id=None),
}


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def order(count, epoch, index):
    """Which window an epoch takes as its index-th: a Feistel network of six rounds, as executor/data/tokens.c has it."""
    half = next(h for h in range(1, 33) if (count - 1) >> (2 * h) == 0)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for step in range(6):
            words = philox(((right ^ (epoch << 32)) & 0xFFFFFFFF, (right ^ (epoch << 32)) >> 32, epoch >> 32, 3 + step), (SEED, 0))
            left, right = right, left ^ (words[0] & mask)
        index = left << half | right
        if index < count:
            return index


def windows(ids, encoder):
    """Sequences of the run, without end: ids and their targets."""
    stride = 2 * LENGTH if encoder else LENGTH
    count = (len(ids) - (0 if encoder else 1)) // stride
    number = 0
    while True:
        first = order(count, number // count, number % count) * stride
        yield (ids[first:first + LENGTH], ids[first + LENGTH:first + stride]) if encoder else \
              (ids[first:first + LENGTH], ids[first + 1:first + LENGTH + 1])
        number += 1


def batch_loss(model, rows):
    """Mean of the targets, by transformers' own loss: it shifts the labels of decoder-only models itself."""
    if model.config.is_encoder_decoder:
        return model(torch.tensor([t for t, _ in rows]), labels=torch.tensor([y for _, y in rows])).loss
    whole = torch.tensor([t + y[-1:] for t, y in rows])
    return model(whole, labels=whole).loss


def generate(model, tokens):
    """64 tokens, each the likeliest by a clear margin, or None."""
    encoder = model.config.is_encoder_decoder
    settings = transformers.GenerationConfig(max_new_tokens=NEW, pad_token_id=0, eos_token_id=None, output_scores=True,
                                             decoder_start_token_id=0 if encoder else None, return_dict_in_generate=True)
    given = torch.tensor([tokens])
    with torch.no_grad():
        out = model.generate(given, generation_config=settings, attention_mask=torch.ones_like(given))
    best = [score[0].topk(2).values for score in out.scores]
    made = out.sequences[0].tolist()[1 if encoder else len(tokens):]
    assert len(made) == NEW
    return made if min((b[0] - b[1]).item() for b in best) > MARGIN else None


def train(model, ids):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    data, losses = windows(ids, model.config.is_encoder_decoder), []
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = 0.003 * min(1.0, (step + 1) / 5)
        optimizer.zero_grad()
        loss = batch_loss(model, [next(data) for _ in range(BATCH)])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def make(name, config, seed):
    path = folder / name
    auto = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    shutil.rmtree(path, ignore_errors=True)
    torch.manual_seed(seed)
    model = auto.from_config(config)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1: # wide, so that tokens vary; T5's scores are not scaled
                parameter.normal_(std=0.25 if name == "t5" else 0.35)
    model.to(torch.bfloat16).save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)
    (path / "model.safetensors").chmod(0o644)
    model = auto.from_pretrained(path, torch_dtype=torch.float32).eval() # nothing is dropped
    random.seed(seed)
    prompts = [[random.randrange(WORDS) for _ in range(length)] for length in (5, 1, 7, 2, 6)]
    made = [generate(model, tokens) for tokens in prompts]
    texts = [[random.randrange(WORDS) for _ in range(length)] for length in (12, 3, 16)]
    with torch.no_grad(): # mean over all targets of all examples
        of = [(batch_loss(model, [(t[:-1], t[1:])]).item(), len(t) - 1) for t in texts] if not config.is_encoder_decoder \
            else [(batch_loss(model, [(t, t[::-1])]).item(), len(t)) for t in texts]
    losses = train(model, ids)
    tuned = [generate(model, tokens) for tokens in prompts]
    if None in made + tuned or min(sum(len(set(words)) for words in both) for both in (made, tuned)) < VARIETY:
        return False
    with open(folder / f"{name}.jsonl", "w") as file:
        for tokens, a, b in zip(prompts, made, tuned):
            print(json.dumps({"tokens": tokens, "made": a, "tuned": b}), file=file)
    with open(folder / f"{name}.examples.jsonl", "w") as file:
        for t in texts:
            print(json.dumps({"tokens": t, "targets": t[::-1]} if config.is_encoder_decoder else {"tokens": t}), file=file)
    perplexity = math.exp(sum(a * n for a, n in of) / sum(n for _, n in of))
    (folder / f"{name}.expected.json").write_text(json.dumps({"losses": losses, "perplexity": perplexity}, indent=1) + "\n")
    print(name, "seed", seed, "losses", losses[0], losses[-1], "perplexity", perplexity)
    return True


if __name__ == "__main__":
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    folder.mkdir(exist_ok=True)
    random.seed(7)
    ids, word = [], 0
    for _ in range(1793): # the next is one of four, as redco's own made tokens
        ids.append(word)
        word = (5 * word + 1 + 7 * random.randrange(4)) % WORDS
    (folder / "ids.bin").write_bytes(struct.pack(f"<{len(ids)}H", *ids))
    for name, config in configs.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            next(seed for seed in range(1, 50) if make(name, config, seed))
