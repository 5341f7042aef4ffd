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


def renamed(raw, names):
    """A config under other keys."""
    return {names.get(key, key): value for key, value in raw.items() if names.get(key, key) is not None}


class Renamed(torch.nn.Module):
    """A family whose code is no part of transformers, computed by one that is. NAMES: ours, theirs. FUSED: the matrix
    for all queries, all keys and all values. ALIBI: no rotation, biases of the scores in its place. UNIT: rows of the
    head have length 1."""

    FUSED, ALIBI, UNIT = None, False, False

    def __init__(self, config, names):
        super().__init__()
        self.config, self.names = config, names
        kind = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        self.inner = kind.double().eval()
        size = config.head_dim if getattr(config, "head_dim", None) else config.hidden_size // config.num_attention_heads
        self.rows = [heads * size for heads in (config.num_attention_heads, *2 * (config.num_key_value_heads,))]
        self.own = {}
        for name, parameter in self.inner.named_parameters():
            ours = self.ours(name)
            if self.FUSED and any(f".{x}_proj." in name for x in "kv"):
                continue
            if self.FUSED and ".q_proj." in name:
                shape = (sum(self.rows), *parameter.shape[1:])
                ours = ours.replace(self.ours("self_attn.q_proj"), self.FUSED)
                self.own[ours] = torch.nn.Parameter(torch.zeros(shape))
            else:
                self.own[ours] = torch.nn.Parameter(parameter.detach().clone())

    def ours(self, name):
        for ours, theirs in self.names:
            name = name.replace(theirs, ours)
        return name

    def theirs(self, name):
        for ours, theirs in self.names:
            name = name.replace(ours, theirs)
        return name

    def named_parameters(self, *_, **__):
        return self.own.items()

    def parameters(self, recurse=True):
        return self.own.values()

    def forward(self, tokens):
        values, more = {}, {}
        for name, value in self.own.items():
            if self.FUSED and self.FUSED in name:
                for part, rows in zip("qkv", torch.split(value, self.rows)):
                    values[self.theirs(name.replace(self.FUSED, self.ours("self_attn.q_proj"))).replace(
                        "q_proj", part + "_proj")] = rows
            elif self.UNIT and name == "lm_head.weight":
                values[name] = torch.nn.functional.normalize(value)
            else:
                values[self.theirs(name)] = value
        if self.ALIBI:
            heads, length = self.config.num_attention_heads, tokens.shape[1]
            slopes = torch.tensor([2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)]) # a power of 2
            at = torch.arange(length, dtype=torch.float64)
            hidden = torch.triu(torch.full((length, length), -torch.inf), 1)
            mask = slopes[:, None, None] * (at[None, :] - at[:, None])[None] + hidden
            more["attention_mask"] = mask[None].expand(tokens.shape[0], -1, -1, -1)
        return torch.func.functional_call(self.inner, values, (tokens,), more)


class Baichuan(Renamed):
    FUSED, ALIBI = "self_attn.W_pack", True


class Qwen(Renamed):
    FUSED = "attn.c_attn"


QWEN = (("transformer.wte.", "model.embed_tokens."), ("transformer.h.", "model.layers."), ("transformer.ln_f.", "model.norm."),
        (".ln_1.", ".input_layernorm."), (".ln_2.", ".post_attention_layernorm."), (".attn.c_proj.", ".self_attn.o_proj."),
        (".mlp.w2.", ".mlp.gate_proj."), (".mlp.w1.", ".mlp.up_proj."), (".mlp.c_proj.", ".mlp.down_proj."))
EXAONE = (("transformer.wte.", "model.embed_tokens."), ("transformer.h.", "model.layers."),
          ("transformer.ln_f.", "model.norm."), (".ln_1.", ".input_layernorm."), (".ln_2.", ".post_attention_layernorm."),
          (".attn.attention.out_proj.", ".self_attn.o_proj."), (".attn.attention.", ".self_attn."),
          (".mlp.c_fc_0.", ".mlp.gate_proj."), (".mlp.c_fc_1.", ".mlp.up_proj."), (".mlp.c_proj.", ".mlp.down_proj."))


def other_code(raw):
    """The model of a family that transformers has not; None: it has it."""
    kind = raw.pop("model_type")
    if kind == "internlm3":
        bias = raw.pop("bias")
        assert raw.pop("qkv_bias") == bias
        return Renamed(transformers.LlamaConfig(**raw, attention_bias=bias, mlp_bias=bias), ())
    if kind == "minicpm": # Granite's factors are its own
        raw["embedding_multiplier"] = raw.pop("scale_emb")
        raw["residual_multiplier"] = raw.pop("scale_depth") / raw["num_hidden_layers"] ** 0.5
        raw["logits_scaling"] = raw["hidden_size"] / raw.pop("dim_model_base")
        raw["attention_multiplier"] = (raw["hidden_size"] // raw["num_attention_heads"]) ** -0.5
        return Renamed(transformers.GraniteConfig(**raw), ())
    if kind == "exaone":
        names = {"num_layers": "num_hidden_layers", "layer_norm_epsilon": "rms_norm_eps", "activation_function": "hidden_act"}
        return Renamed(transformers.LlamaConfig(**renamed(raw, names)), EXAONE)
    if kind == "baichuan":
        config = transformers.LlamaConfig(**raw)
        model = Baichuan(config, ())
        model.UNIT = raw["vocab_size"] == 125696
        rotary = model.inner.model.rotary_emb
        rotary.forward = lambda x, ids: (torch.ones(*ids.shape, config.head_dim), torch.zeros(*ids.shape, config.head_dim))
        return model
    if kind == "qwen":
        names = {"layer_norm_epsilon": "rms_norm_eps", "rotary_emb_base": "rope_theta", "kv_channels": "head_dim",
                 "rotary_pct": None, "no_bias": None, "scale_attn_weights": None, "seq_length": None}
        raw["intermediate_size"] //= 2
        return Qwen(transformers.Qwen2Config(**renamed(raw, names), num_key_value_heads=raw["num_attention_heads"]), QWEN)
    return None


def create(path):
    raw = json.loads(path.read_text())
    if raw["model_type"] == "internlm2":
        return InternLM2(raw)
    model = other_code(dict(raw))
    if model is None:
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
            sys.stdout.flush()
