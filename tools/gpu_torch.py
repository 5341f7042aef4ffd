#!/usr/bin/env python3
"""Trains a LLaMA-like model with PyTorch as redco-exec does, and times its steps.

The same dimensions (a config.json), sequence, micro-batch and count of micro-batches; weights, activations and
gradients in bf16, 32-bit master weights and moments by fused AdamW, gradients clipped to a norm of 1; attention by
scaled_dot_product_attention, forward and backward compiled. Prints one JSON document: the median of all steps but the
first two, which compile.

gpu_torch.py --config FILE [--seq N] [--micro-batch N] [--micro-batches N] [--recompute none|selective|full] [--steps N]
             [--device cuda|cpu] [--no-compile] [--json]
Exit code: 0 done, 2 usage, 3 PyTorch or the device is missing.
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    import torch.utils.checkpoint
    from torch import nn
except ImportError:
    print("gpu_torch.py: PyTorch is not installed", file=sys.stderr)
    sys.exit(3)


def attend(q, k, v):
    """Causal attention by PyTorch's fused kernels; releases before 2 have none."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v


class Norm(nn.Module):
    """RMS norm; statistics in 32 bits."""

    def __init__(self, size, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return wide.to(x.dtype) * self.weight


def rotary_tables(length, size, theta, device, dtype):
    frequencies = theta ** (-torch.arange(0, size, 2, device=device, dtype=torch.float32) / size)
    angles = torch.arange(length, device=device, dtype=torch.float32)[:, None] * frequencies[None, :]
    angles = torch.cat((angles, angles), -1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x, cosines, sines):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cosines + turned * sines


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c["hidden_size"]
        self.heads = c["num_attention_heads"]
        self.kv_heads = c.get("num_key_value_heads", self.heads)
        self.size = c.get("head_dim", h // self.heads)
        epsilon = c.get("rms_norm_eps", 1e-6)
        self.input_norm, self.middle_norm = Norm(h, epsilon), Norm(h, epsilon)
        self.q = nn.Linear(h, self.heads * self.size, bias=False)
        self.k = nn.Linear(h, self.kv_heads * self.size, bias=False)
        self.v = nn.Linear(h, self.kv_heads * self.size, bias=False)
        self.out = nn.Linear(self.heads * self.size, h, bias=False)
        self.gate = nn.Linear(h, c["intermediate_size"], bias=False)
        self.up = nn.Linear(h, c["intermediate_size"], bias=False)
        self.down = nn.Linear(c["intermediate_size"], h, bias=False)
        self.selective = False

    def core(self, q, k, v):
        if self.kv_heads != self.heads:  # as each release of PyTorch understands
            k = k.repeat_interleave(self.heads // self.kv_heads, 1)
            v = v.repeat_interleave(self.heads // self.kv_heads, 1)
        return attend(q, k, v)

    def forward(self, x, cosines, sines):
        b, s, _ = x.shape
        y = self.input_norm(x)
        q = self.q(y).view(b, s, self.heads, self.size).transpose(1, 2)
        k = self.k(y).view(b, s, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(y).view(b, s, self.kv_heads, self.size).transpose(1, 2)
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        if self.selective:
            seen = torch.utils.checkpoint.checkpoint(self.core, q, k, v, use_reentrant=False)
        else:
            seen = self.core(q, k, v)
        x = x + self.out(seen.transpose(1, 2).reshape(b, s, -1))
        z = self.middle_norm(x)
        return x + self.down(F.silu(self.gate(z)) * self.up(z))


class Model(nn.Module):
    def __init__(self, c, recompute):
        super().__init__()
        self.recompute = recompute
        self.theta = c.get("rope_theta", 10000.0)
        self.embedding = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        for block in self.blocks:
            block.selective = recompute == "selective"
        self.norm = Norm(c["hidden_size"], c.get("rms_norm_eps", 1e-6))
        self.head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        if c.get("tie_word_embeddings", False):
            self.head.weight = self.embedding.weight

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        cosines, sines = rotary_tables(tokens.shape[1], self.blocks[0].size, self.theta, x.device, x.dtype)
        for block in self.blocks:
            if self.recompute == "full":
                x = torch.utils.checkpoint.checkpoint(block, x, cosines, sines, use_reentrant=False)
            else:
                x = block(x, cosines, sines)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class MasterAdamW:
    """Weights of 16 bits that are rounded copies of 32-bit ones, which fused AdamW updates in chunks, so that 32-bit
    gradients of all of them never exist at once."""

    MOST_ELEMENTS = 1 << 28

    def __init__(self, parameters, device):
        self.weights = list(parameters)
        self.chunks = []
        options = {"lr": 1e-3, "betas": (0.9, 0.95), "weight_decay": 0.1}
        if device == "cuda":
            options["fused"] = True
        chunk, elements = [], 0
        for weight in self.weights:
            if chunk and elements + weight.numel() > self.MOST_ELEMENTS:
                self.add(chunk, options)
                chunk, elements = [], 0
            chunk.append(weight)
            elements += weight.numel()
        self.add(chunk, options)

    def add(self, weights, options):
        masters = [p.detach().clone().float() for p in weights]
        self.chunks.append((weights, masters, torch.optim.AdamW(masters, **options)))

    @torch.no_grad()
    def step(self):
        norms = [torch.linalg.vector_norm(p.grad, dtype=torch.float32) for p in self.weights]
        factor = torch.clamp(1.0 / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6), max=1.0)
        for weights, masters, adamw in self.chunks:
            for master, weight in zip(masters, weights):
                master.grad = weight.grad.float().mul_(factor)
                weight.grad = None
            adamw.step()
            for master, weight in zip(masters, weights):
                weight.copy_(master)
                master.grad = None


def run(args):
    with open(args.config, encoding="utf-8") as file:
        config = json.load(file)
    device = args.device
    if device == "cuda" and not torch.cuda.is_available():
        print("gpu_torch.py: no CUDA device", file=sys.stderr)
        return 3
    torch.manual_seed(1)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    fused = hasattr(F, "scaled_dot_product_attention")
    if device == "cuda" and not fused:
        print(f"gpu_torch.py: PyTorch {torch.__version__} has no fused attention; 2.0 or newer is needed", file=sys.stderr)
        return 3
    with torch.device(device) if fused else contextlib.nullcontext():
        model = Model(config, args.recompute).to(dtype)
    optimizer = MasterAdamW(model.parameters(), device)
    loss_of = model if args.no_compile else torch.compile(model)
    shape = (args.micro_batches, args.micro_batch, args.seq + 1)
    tokens = torch.randint(0, config["vocab_size"], shape, device=device)

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    times, loss = [], None
    began = time.perf_counter()
    compile_s = 0.0
    for step in range(args.steps):
        wait()
        before = time.perf_counter()
        for batch in tokens:
            loss = loss_of(batch[:, :-1], batch[:, 1:])
            (loss / args.micro_batches).backward()
        optimizer.step()
        wait()
        times.append(time.perf_counter() - before)
        if step == 1:
            compile_s = time.perf_counter() - began
    counted = times[2:] or times[-1:]
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    print(
        json.dumps(
            {
                "version": torch.__version__,
                "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
                "step_s": statistics.median(counted),
                "peak_memory_bytes": peak,
                "compile_s": compile_s,
                "loss": float(loss.detach()),
                "steps": times,
            }
        )
    )
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--recompute", choices=("none", "selective", "full"), default="none")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json", action="store_true", help="accepted: JSON is what is printed")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
