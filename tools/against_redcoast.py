#!/usr/bin/env python3
"""Compares redco with RedCoast (PyPI: redco), whose rules and training it reimplements. tools/against-redcoast runs it.

against_redcoast.py TOOLS TREES

1. Training. redco-exec trains small models on 4 ranks (tensor parallelism 2), in f64, under several sharding strategies.
   Its first weights, which a step at learning rate 0 leaves as they are, go into flax's tree of the same model, which
   RedCoast's Trainer trains on 4 devices (dp 2 x mp 2) with the rules that its Deployer makes, in float64. The data are
   as many sequences as a step takes, so that both take the same ones, in whatever order. Losses of all steps and weights at the
   end are compared.
2. Rules. Random trees of parameters, named as published models name theirs and otherwise: the rules of RedCoast's
   get_sharding_rules() against those of redco-rules, key by key and in order.

Models are written here from their papers and from transformers' modelling files; no code is shared with redco.
"""
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
for name in list(os.environ):
    if name.startswith("SLURM_"):  # RedCoast would take this for a job of several hosts
        del os.environ[name]

import jax  # noqa: E402  (after the above)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from redco import Deployer, Trainer  # noqa: E402
from redco.deployers.partition_utils import get_sharding_rules  # noqa: E402

STEPS, SEQUENCES, LENGTH, RATE, VOCABULARY = 5, 8, 12, 0.01, 64
LOSS_BOUND, WEIGHT_BOUND = 1e-9, 1e-10

CONFIGS = {
    "llama": {"model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
              "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False},
    "gpt2": {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4,
             "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
             "attn_pdrop": 0.0, "tie_word_embeddings": True},
    "gptj": {"model_type": "gptj", "vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4,
             "rotary_dim": 4, "n_inner": 48, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
             "tie_word_embeddings": False},
}
PLANS = {
    "ZeRO-1": ["--strategy", "zero1"],
    "ZeRO-2, activations recomputed": ["--strategy", "zero2", "--recompute", "full"],
    "ZeRO-3": ["--strategy", "zero3"],
    "ZeRO++": ["--strategy", "zeropp"],
    "AMSP": ["--fix", "p=1x1,g=2x1,os=2x1"],
}
CLUSTER = {
    "format": "redco-cluster", "version": 1, "name": "four", "about": "Four GPUs", "source": "made up", "nodes": 1,
    "node": {"format": "redco-node", "version": 1, "name": "quad", "cpu": "unknown", "hosts": 1, "fabric": "switch",
             "switches": 1, "numas": [], "nics": [], "warnings": [], "link_bytes_per_s": 1e11,
             "gpu_types": [{"name": "device", "vendor": "host", "arch": "emulated", "compute_capability": 0,
                            "fp16_flops_per_s": 1e14, "bf16_flops_per_s": 1e14, "fp8_flops_per_s": 0,
                            "tf32_flops_per_s": 0, "fp32_flops_per_s": 1e13, "memory_bytes": 80000000000,
                            "memory_bandwidth_bytes_per_s": 1e12, "link": "wire", "link_count": 1,
                            "scale_up_bytes_per_s": 1e11, "pcie_bytes_per_s": 1e10, "pcie_gen": 0, "tdp_w": 0}],
             "gpus": [{"type": "device", "memory_bytes": 80000000000, "pcie_bytes_per_s": 1e10}] * 4},
}


def run(command):
    command = list(map(str, command))
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(f"against_redcoast: {' '.join(command)}: exit {result.returncode}\n{result.stderr}", file=sys.stderr)
        sys.exit(3)
    return result.stdout


def read_weights(checkpoint):
    """All tensors of a checkpoint's model files, by name."""
    tensors = {}
    for path in sorted(pathlib.Path(checkpoint).glob("model-*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        for key, about in json.loads(data[8:8 + size]).items():
            if key == "__metadata__":
                continue
            begin, end = about["data_offsets"]
            values = np.frombuffer(data[8 + size + begin:8 + size + end], {"F64": "<f8", "F32": "<f4"}[about["dtype"]])
            tensors[key] = values.reshape(about["shape"]).astype(np.float64)
    return tensors


# Names and orders of flax's trees: kernels are [in, out], tables "embedding", gains of norms "scale" (RMS: "weight").

def flax_path(kind, name):
    """Where flax's model of transformers has a tensor of PyTorch's. @return path, whether it is transposed"""
    *path, last = name.split(".")
    table = path[-1] in ("embed_tokens", "wte", "wpe")
    norm = path[-1].startswith("ln_") or path[-1].endswith("norm") or path[-1].endswith("layernorm")
    if last == "bias" or (norm and kind == "llama"):
        return (*path, last), False
    if norm:
        return (*path, "scale"), False
    if table:
        return (*path, "embedding"), False
    # Conv1D of GPT-2 has [in, out]; its flax twin has [out, in], so that its rules see the other order.
    return (*path, "kernel"), True


def to_tree(kind, tensors):
    tree = {}
    for name, value in tensors.items():
        path, transposed = flax_path(kind, name)
        at = tree
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = value.T.copy() if transposed else value.copy()
    return tree


def leaf(tree, kind, name):
    path, transposed = flax_path(kind, name)
    for key in path:
        tree = tree[key]
    value = np.asarray(tree)
    return value.T if transposed else value


def attend(q, k, v):
    """[batch, length, heads, size]; keys' and values' heads serve as many queries' as there are for each."""
    repeat = q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, repeat, axis=2), jnp.repeat(v, repeat, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), -1), v)


def angles(size, theta, length):
    return jnp.arange(length)[:, None] * theta ** (-jnp.arange(0, size, 2, dtype=jnp.float64) / size)


def rotate_halves(x, theta):
    """LLaMA: element i with element i + half."""
    angle = angles(x.shape[-1], theta, x.shape[1])
    sine, cosine = (jnp.concatenate([f(angle)] * 2, -1)[:, None] for f in (jnp.sin, jnp.cos))
    first, second = jnp.split(x, 2, -1)
    return x * cosine + jnp.concatenate([-second, first], -1) * sine


def rotate_pairs(x, size):
    """GPT-J: element 2i with element 2i + 1, of the first ones."""
    turned, rest = x[..., :size], x[..., size:]
    angle = angles(size, 10000.0, x.shape[1])
    sine, cosine = (jnp.repeat(f(angle), 2, -1)[:, None] for f in (jnp.sin, jnp.cos))
    pairs = jnp.stack([-turned[..., 1::2], turned[..., ::2]], -1).reshape(turned.shape)
    return jnp.concatenate([turned * cosine + pairs * sine, rest], -1)


def layer_norm(p, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]


def rms_norm(p, x):
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * p["weight"]


def linear(p, x):
    return x @ p["kernel"] + p.get("bias", 0.0)


def gelu(x):
    return 0.5 * x * (1.0 + jnp.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def heads(x, count):
    return x.reshape(*x.shape[:2], count, -1)


def flat(x):
    return x.reshape(*x.shape[:2], -1)


def llama(params, tokens):
    c, p = CONFIGS["llama"], params["model"]
    x = p["embed_tokens"]["embedding"][tokens]
    for i in range(c["num_hidden_layers"]):
        layer = p["layers"][str(i)]
        a, y = layer["self_attn"], rms_norm(layer["input_layernorm"], x)
        q = heads(linear(a["q_proj"], y), c["num_attention_heads"])
        k, v = (heads(linear(a[n], y), c["num_key_value_heads"]) for n in ("k_proj", "v_proj"))
        x = x + linear(a["o_proj"], flat(attend(rotate_halves(q, c["rope_theta"]), rotate_halves(k, c["rope_theta"]), v)))
        m, y = layer["mlp"], rms_norm(layer["post_attention_layernorm"], x)
        x = x + linear(m["down_proj"], jax.nn.silu(linear(m["gate_proj"], y)) * linear(m["up_proj"], y))
    return linear(params["lm_head"], rms_norm(p["norm"], x))


def gpt2(params, tokens):
    c, p = CONFIGS["gpt2"], params["transformer"]
    x = p["wte"]["embedding"][tokens] + p["wpe"]["embedding"][jnp.arange(tokens.shape[1])]
    for i in range(c["n_layer"]):
        layer = p["h"][str(i)]
        kernels = {n: {"kernel": w["kernel"].T, "bias": w["bias"]} for part in ("attn", "mlp") for n, w in
                   ((f"{part}.{k}", w) for k, w in layer[part].items())}
        q, k, v = jnp.split(linear(kernels["attn.c_attn"], layer_norm(layer["ln_1"], x)), 3, -1)
        x = x + linear(kernels["attn.c_proj"], flat(attend(*(heads(t, c["n_head"]) for t in (q, k, v)))))
        x = x + linear(kernels["mlp.c_proj"], gelu(linear(kernels["mlp.c_fc"], layer_norm(layer["ln_2"], x))))
    return layer_norm(p["ln_f"], x) @ p["wte"]["embedding"].T


def gptj(params, tokens):
    c, p = CONFIGS["gptj"], params["transformer"]
    x = p["wte"]["embedding"][tokens]
    for i in range(c["n_layer"]):
        layer = p["h"][str(i)]
        a, m, y = layer["attn"], layer["mlp"], layer_norm(layer["ln_1"], x)
        q, k, v = (heads(linear(a[n], y), c["n_head"]) for n in ("q_proj", "k_proj", "v_proj"))
        q, k = rotate_pairs(q, c["rotary_dim"]), rotate_pairs(k, c["rotary_dim"])
        x = x + linear(a["out_proj"], flat(attend(q, k, v))) + linear(m["fc_out"], gelu(linear(m["fc_in"], y)))
    return linear(params["lm_head"], layer_norm(p["ln_f"], x))


MODELS = {"llama": llama, "gpt2": gpt2, "gptj": gptj}


def clip(most):
    """As torch.nn.utils.clip_grad_norm_, which adds 1e-6 to the norm; optax does not."""
    def update(updates, state, params=None):
        del params
        factor = jnp.minimum(1.0, most / (optax.global_norm(updates) + 1e-6))
        return jax.tree.map(lambda g: g * factor, updates), state
    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


class Recorder(Deployer):
    """A Deployer that keeps what its Trainer tells."""

    def __init__(self, **options):
        super().__init__(**options)
        self.losses = []

    def log_metrics(self, metrics, step):
        self.losses.append(float(metrics["loss"]))


def train_redcoast(kind, tensors, windows):
    """@return losses and flax's tree after all steps"""
    def loss_fn(rng, state, params, batch, is_training):
        del rng, state, is_training
        logits = MODELS[kind](params, batch["tokens"])
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits, -1), batch["targets"][..., None], -1)
        return -chosen.mean()

    def collate(examples):
        both = np.array(examples)
        return {"tokens": both[:, :-1], "targets": both[:, 1:]}

    deployer = Recorder(jax_seed=1, n_model_shards=2, verbose=False)
    params = to_tree(kind, tensors)
    optimizer = optax.chain(clip(1.0), optax.adamw(RATE, b1=0.9, b2=0.95, eps=1e-8, weight_decay=0.1))
    trainer = Trainer(deployer=deployer, collate_fn=collate, apply_fn=None, loss_fn=loss_fn, params=params,
                      optimizer=optimizer, compute_dtype=jnp.float64,
                      params_sharding_rules=deployer.get_sharding_rules(params))
    for _ in range(STEPS):
        trainer.train(examples=[list(map(int, w)) for w in windows], per_device_batch_size=SEQUENCES // 2)
    return deployer.losses, trainer.state.params


def compare_training(tools, folder):
    generator = np.random.default_rng(1)
    ids = generator.integers(0, VOCABULARY, SEQUENCES * LENGTH + 1, dtype=np.uint16)
    windows = [ids[i * LENGTH:(i + 1) * LENGTH + 1] for i in range(SEQUENCES)]
    (folder / "tokens").write_bytes(ids.astype("<u2").tobytes())
    (folder / "cluster.json").write_text(json.dumps(CLUSTER))
    worst = 0
    for kind, config in CONFIGS.items():
        model = folder / f"{kind}.json"
        model.write_text(json.dumps(config))
        expected = None
        for title, options in PLANS.items():
            plan, checkpoints = folder / "plan.json", folder / f"{kind}-{title}"
            run([tools / "redco-plan", "--quiet", "--cluster", folder / "cluster.json", "--model", model, "--seq", LENGTH,
                 "--global-batch", SEQUENCES, "--micro-batch", 1, "--precision", "fp32", "--gpus", 4, "--tp", 2, *options,
                 "-o", plan])
            train = [tools / "redco-exec", plan, "--dtype", "f64", "--data", folder / "tokens", "--json"]
            if expected is None:
                first = folder / f"{kind}-first"
                run([*train, "--steps", 1, "--learning-rate", 0, "--checkpoint", first])
                expected = train_redcoast(kind, read_weights(first / "step-0000000001"), windows)
            answer = json.loads(run([*train, "--steps", STEPS, "--learning-rate", RATE, "--checkpoint", checkpoints]))
            losses = [step["loss"] for step in answer["steps"]]
            weights = read_weights(checkpoints / f"step-{STEPS:010d}")
            of_losses = max(abs(a - b) / abs(b) for a, b in zip(losses, expected[0], strict=True))
            of_weights = max(np.abs(value - leaf(expected[1], kind, name)).max() / np.abs(value).max()
                             for name, value in weights.items())
            same = of_losses <= LOSS_BOUND and of_weights <= WEIGHT_BOUND
            print(f"{kind:6} {title:31} losses {losses[0]:.9f} to {losses[-1]:.9f}, greatest relative difference "
                  f"{of_losses:.1e}; of weights {of_weights:.1e}{'' if same else '  DIFFERS'}", flush=True)
            worst += 0 if same else 1
    return worst


WORDS = ["attention", "attn", "self_attn", "mlp", "q_proj", "k", "wq", "query", "out_proj", "o", "wo", "wi", "up", "gate",
         "down_proj", "fc_in", "fc_out", "c_fc", "c_proj", "lm_head", "head", "dense", "in_out", "ln_1", "Attention_3", "x"]
LEAVES = ["kernel"] * 6 + ["embedding"] * 2 + ["bias", "scale", "weight"]


def random_tree(dice):
    """Paths and shapes; no path is the beginning of another."""
    shapes = {}
    sizes = [dice.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 30]) for _ in range(4)]
    for _ in range(dice.randint(1, 14)):
        path = tuple(dice.choice(WORDS) for _ in range(dice.randint(1, 4))) + (dice.choice(LEAVES),)
        rank = 1 if path[-1] in ("bias", "scale", "weight") else dice.choice([1, 2, 2, 2, 2, 3])
        shapes.setdefault(path, tuple(dice.choice(sizes) for _ in range(rank)))
    return shapes


def compare_rules(tools, folder, trees):
    dice = random.Random(1)
    wrong = refused = 0
    for number in range(trees):
        shapes, shards = random_tree(dice), dice.choice([2, 3, 4, 8])
        tree = {}
        for path, shape in shapes.items():
            at = tree
            for key in path[:-1]:
                at = at.setdefault(key, {})
            at[path[-1]] = jax.ShapeDtypeStruct(shape, np.float32)
        try:
            want = [["/".join(key), list(spec)] for key, spec in get_sharding_rules(tree, shards)]
        except (TypeError, IndexError):  # a key of ranks that differ, met again: RedCoast stops there
            refused += 1
            continue
        file = folder / "params.json"
        file.write_text(json.dumps({"params": [{"path": "/".join(p), "shape": list(s)} for p, s in shapes.items()]}))
        answer = json.loads(run([tools / "redco-rules", "--params", file, "--shards", shards, "--json", "--quiet"]))
        have = [[rule["key"], rule["spec"]] for rule in answer["rules"]]
        if have != want:
            wrong += 1
            print(f"tree {number}, {shards} shards: {json.dumps(sorted(map(list, shapes.items())))}\n  RedCoast {want}\n"
                  f"  redco    {have}")
    print(f"{trees - refused} random trees of parameters, {wrong} with other rules ({refused} more that RedCoast refuses)")
    return wrong


def main():
    tools, trees = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wrong = compare_training(tools, folder) + compare_rules(tools, folder, trees)
    print("the same as RedCoast" if wrong == 0 else f"{wrong} differences from RedCoast")
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
