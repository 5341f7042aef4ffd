#!/usr/bin/env python3
"""Trains the small models of this folder with HuggingFace transformers in float64 and prints what they came to.

    make_reference.py [NAME...] > reference.txt

Weights and tokens are formulas (number(), below), so that the C test can have the same. README says with which versions
reference.txt was made.
"""
import json
import pathlib
import sys

import numpy
import torch

# transformers lifts norms, softmax, rotary positions and logits to float32, whatever the model's type: right for half
# precision, but here it would lower them. In this process float32 means float64; nothing else of the models changes.
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)

import transformers  # noqa: E402  (after the above)

STEPS, MICRO_BATCHES, SEQUENCES, LENGTH = 20, 2, 2, 12


def number(stream, count):
    """Element i of a stream, in [0, 1): the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    with numpy.errstate(over="ignore"):
        i = numpy.arange(1, count + 1, dtype=numpy.uint64)
        z = i * numpy.uint64(0x9E3779B97F4A7C15) + numpy.uint64(stream) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    return (z >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53


def weight(stream, name, shape):
    """Matrices and tables 0.4 wide, vectors 0.2; gains of norms around 1."""
    norm = len(shape) == 1 and name.endswith("weight")
    width = 0.4 if len(shape) > 1 else 0.2
    values = (1.0 if norm else 0.0) + width * (number(stream, int(numpy.prod(shape))) - 0.5)
    return torch.from_numpy(values.reshape(shape))


def batch(step, micro_batch, vocabulary):
    """Tokens, and those that follow; every seventh is not asked for."""
    tokens, targets = [], []
    for sequence in range(SEQUENCES):
        n = (step * MICRO_BATCHES + micro_batch) * SEQUENCES + sequence
        row = (number(100000 + n, LENGTH + 1) * vocabulary).astype(numpy.int64)
        following = row[1:].copy()
        following[[t for t in range(LENGTH) if (n + t) % 7 == 0]] = -100
        tokens.append(row[:LENGTH])
        targets.append(following)
    return torch.tensor(numpy.array(tokens)), torch.tensor(numpy.array(targets))


def line(tensor):
    """Length, and sum weighted by cos(0.3 i)."""
    flat = tensor.detach().reshape(-1)
    weights = torch.cos(0.3 * torch.arange(flat.numel(), dtype=torch.float64))
    return f"{flat.norm().item():.17g} {(flat * weights).sum().item():.17g}"


class InternLM2(torch.nn.Module):
    """InternLM2, which transformers does not hold, is its LLaMA with other names and one matrix for queries, keys and
    values: of each group of heads its queries, its key, its value. Here that matrix is the parameter; LLaMA computes."""

    NAMES = (("model.tok_embeddings.", "model.embed_tokens."), ("output.", "lm_head."),
             (".attention.wo.", ".self_attn.o_proj."), (".attention_norm.", ".input_layernorm."),
             (".ffn_norm.", ".post_attention_layernorm."), (".feed_forward.w1.", ".mlp.gate_proj."),
             (".feed_forward.w3.", ".mlp.up_proj."), (".feed_forward.w2.", ".mlp.down_proj."))

    def __init__(self, raw):
        super().__init__()
        bias = raw.pop("bias", True)
        self.config = transformers.LlamaConfig(**{**raw, "model_type": "llama", "attention_bias": bias})
        self.llama = transformers.LlamaForCausalLM(self.config).double().eval()
        self.groups = self.config.num_key_value_heads
        self.shared = self.config.num_attention_heads // self.groups
        self.own = {}
        for name, parameter in self.llama.named_parameters():
            if ".self_attn." in name and ".o_proj." not in name:
                continue
            for ours, theirs in self.NAMES:
                name = name.replace(theirs, ours) if name.startswith(theirs) or theirs[0] == "." else name
            self.own[name] = torch.nn.Parameter(parameter.detach().clone())
        size = self.config.head_dim
        for layer in range(self.config.num_hidden_layers):
            rows = self.groups * (self.shared + 2) * size
            prefix = f"model.layers.{layer}.attention.wqkv."
            self.own[prefix + "weight"] = torch.nn.Parameter(torch.zeros(rows, self.config.hidden_size))
            if bias:
                self.own[prefix + "bias"] = torch.nn.Parameter(torch.zeros(rows))

    def named_parameters(self, *_, **__):
        return self.own.items()

    def parameters(self, recurse=True):
        return self.own.values()

    def forward(self, tokens):
        theirs = {}
        for name, value in self.own.items():
            if ".attention.wqkv." in name:
                apart = value.reshape(self.groups, self.shared + 2, self.config.head_dim, *value.shape[1:])
                for part, rows in (("q", apart[:, :-2]), ("k", apart[:, -2]), ("v", apart[:, -1])):
                    theirs[name.replace("attention.wqkv", f"self_attn.{part}_proj")] = rows.reshape(-1, *value.shape[1:])
                continue
            for ours, other in self.NAMES:
                name = name.replace(ours, other) if name.startswith(ours) or ours[0] == "." else name
            theirs[name] = value
        return torch.func.functional_call(self.llama, theirs, (tokens,))


def create(path):
    raw = json.loads(path.read_text())
    if raw["model_type"] == "internlm2":
        return InternLM2(raw)
    config = transformers.AutoConfig.from_pretrained(path)
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    model = kind.from_config(config, attn_implementation="eager").double().eval()
    for module in model.modules(): # BART's padding is a word like others: redco's sequences have none
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    return model


def train(path):
    model = create(path)
    config = model.config
    parameters = sorted(model.named_parameters())
    with torch.no_grad():
        for stream, (name, parameter) in enumerate(parameters):
            parameter.copy_(weight(stream, name, tuple(parameter.shape)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    print(path.stem, len(parameters))
    first = {}
    for step in range(STEPS):
        mean = 0.0
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * min(1.0, (step + 1) / 5)
        optimizer.zero_grad()
        for micro_batch in range(MICRO_BATCHES):
            tokens, targets = batch(step, micro_batch, config.vocab_size)
            given = {"labels": targets} if config.is_encoder_decoder else {} # made into the decoder's input
            logits = model(tokens, **given).logits
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, config.vocab_size), targets.reshape(-1))
            (loss / MICRO_BATCHES).backward()
            mean += loss.item() / MICRO_BATCHES
        if step == 0:
            first = {name: line(parameter.grad) for name, parameter in parameters}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"{mean:.17g} {norm.item():.17g}")
    for name, parameter in parameters:
        print(name, first[name], line(parameter))


if __name__ == "__main__":
    print(f"torch {torch.__version__}, transformers {transformers.__version__}", file=sys.stderr)
    for config_path in sorted(pathlib.Path(__file__).parent.glob("*.json")):
        if len(sys.argv) == 1 or config_path.stem in sys.argv[1:]:
            train(config_path)
