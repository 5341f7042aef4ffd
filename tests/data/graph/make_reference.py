#!/usr/bin/env python3
"""Writes reference.txt: losses and gradients of two small transformers by PyTorch in fp64, for test_graph_training.c.

Made with Debian 12's python3-torch (1.13.1):  python3 make_reference.py > reference.txt
Parameters and tokens are formulas, the same here and there. Each model: five losses of gradient descent with rate 0.1, then
for every parameter the length of its first gradient and that gradient's sum weighted by cos(0.3 i). Then five steps of AdamW."""
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
BATCH, SEQUENCE, WIDTH, HEADS, SIZE, FFN, VOCABULARY, LAYERS = 2, 6, 16, 4, 4, 24, 11, 2


class Parameters:
    """Made when first asked for, in order; later passes get the same ones again."""

    def __init__(self):
        self.made, self.next = [], 0

    def get(self, shape, centre, spread):
        if self.next == len(self.made):
            i = torch.arange(math.prod(shape), dtype=torch.float64)
            p = centre + spread * torch.sin(1.3 * i + 0.7 * self.next)
            self.made.append(p.reshape(shape).requires_grad_(True))
        self.next += 1
        return self.made[self.next - 1]


def linear(p, x, inputs, outputs, llama):
    y = x @ p.get((inputs, outputs), 0, 1 / math.sqrt(inputs))
    return y if llama else y + p.get((outputs,), 0, 0.1)


def norm(p, x, llama):
    scale = p.get((WIDTH,), 1, 0.1)
    if llama:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * scale
    return F.layer_norm(x, (WIDTH,), scale, p.get((WIDTH,), 0, 0.1), 1e-5)


def rotate(x):
    frequency = 10000.0 ** (-torch.arange(0, SIZE, 2, dtype=torch.float64) / SIZE)
    angle = torch.arange(SEQUENCE, dtype=torch.float64)[:, None] * frequency
    angle = torch.cat([angle, angle], -1)[None, :, None, :]
    half = torch.cat([-x[..., SIZE // 2:], x[..., :SIZE // 2]], -1)
    return x * angle.cos() + half * angle.sin()


def block(p, x, llama):
    groups = HEADS // 2 if llama else HEADS
    qkv = linear(p, norm(p, x, llama), WIDTH, (HEADS + 2 * groups) * SIZE, llama)
    q, k, v = (part.reshape(BATCH, SEQUENCE, -1, SIZE)
               for part in qkv.split([HEADS * SIZE, groups * SIZE, groups * SIZE], -1))
    if llama:
        q, k = rotate(q), rotate(k)
    k, v = (a.repeat_interleave(HEADS // groups, 2) for a in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(SIZE)
    hidden = torch.ones(SEQUENCE, SEQUENCE).triu(1).bool()
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    seen = torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(BATCH, SEQUENCE, WIDTH)
    x = x + linear(p, seen, WIDTH, WIDTH, llama)
    inner = linear(p, norm(p, x, llama), WIDTH, 2 * FFN if llama else FFN, llama)
    active = F.silu(inner[..., :FFN]) * inner[..., FFN:] if llama else F.gelu(inner, approximate="tanh")
    return x + linear(p, active, FFN, WIDTH, llama)


def loss_of(p, llama):
    p.next = 0
    token = [(7 * i + 3 * i * i) % VOCABULARY for i in range(BATCH * SEQUENCE + 1)]
    x = F.embedding(torch.tensor(token[:-1]).reshape(BATCH, SEQUENCE), p.get((VOCABULARY, WIDTH), 0, 1))
    if not llama:
        x = x + p.get((SEQUENCE, WIDTH), 0, 0.5)
    for _ in range(LAYERS):
        x = block(p, x, llama)
    logits = linear(p, norm(p, x, llama), WIDTH, VOCABULARY, llama)
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), torch.tensor(token[1:]))


for name in ("llama", "gpt2"):
    print(name)
    p, first = Parameters(), None
    for _ in range(5):
        loss = loss_of(p, name == "llama")
        gradients = torch.autograd.grad(loss, p.made)
        first = first or gradients
        print(f"{loss.item():.17g}")
        with torch.no_grad():
            for parameter, gradient in zip(p.made, gradients):
                parameter -= 0.1 * gradient
    for gradient in first:
        weights = torch.cos(0.3 * torch.arange(gradient.numel(), dtype=torch.float64))
        print(f"{gradient.norm().item():.17g} {(gradient.flatten() * weights).sum().item():.17g}")

print("adamw")
p = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
optimizer = torch.optim.AdamW([p], lr=0.05, weight_decay=0.1, eps=1e-8)
for _ in range(5):
    with torch.no_grad():
        p.grad = (p - 1) ** 2 * p.sin()
    optimizer.step()
    print(" ".join(f"{x:.17g}" for x in p.tolist()))
