"""adafactor.py WEIGHTS DATA RUN.json [OPTION=VALUE...]: Adafactor of Shazeer and Stern (arXiv 1804.04235) in the form of
transformers' Adafactor, on the loss of plain.c by loops over plain numbers. Losses and norms of RUN must be the same to
1e-10."""
import json
import struct
import sys
from math import sqrt

weights, data, run = sys.argv[1:4]
o = dict(lr=0.05, beta1=0.0, power=0.8, clip=1.0, eps2=1e-3, decay=0.0, norm=1.0, relative=0.0, matrices=0.0)
o.update((k, float(v)) for k, v in (a.split("=") for a in sys.argv[4:]))
raw = open(weights, "rb").read()
head = struct.unpack("<Q", raw[:8])[0]
entries = json.loads(raw[8 : 8 + head])


def values(name):
    a, b = entries[name]["data_offsets"]
    return list(struct.unpack("<%df" % ((b - a) // 4), raw[8 + head + a : 8 + head + b]))


def rms(v):
    return sqrt(sum(x * x for x in v) / len(v))


# Name: values, matrices, rows, columns; a vector has one row and no row means.
p = {"w": [values("plain.weight"), 1, 6, 4], "b": [values("plain.bias"), 1, 0, 4], "c": [values("cube.weight"), 2, 3, 4]}
rows, state, first = [json.loads(line) for line in open(data)], {}, {}
got = json.load(open(run))["steps"]
for step, told in enumerate(got, 1):
    w, b, c = (p[k][0] for k in "wbc")
    loss, g = 0.0, {"w": [0.0] * 24, "b": [0.0] * 4, "c": [2 * x / 24 for x in c]}
    for row in rows:
        for j in range(4):
            e = sum(row["x"][i] * w[4 * i + j] for i in range(6)) + b[j] - row["y"][j]
            loss += e * e / (4 * len(rows))
            g["b"][j] += 2 * e / (4 * len(rows))
            for i in range(6):
                g["w"][4 * i + j] += 2 * e * row["x"][i] / (4 * len(rows))
    loss += sum(x * x for x in c) / 24
    norm = sqrt(sum(x * x for v in g.values() for x in v))
    for have, want in ((told["loss"], loss), (told["gradient_norm"], norm)):
        assert abs(have / want - 1) < 1e-10, (step, have, want)
    clip = min(1.0, o["norm"] / (norm + 1e-6)) if o["norm"] > 0 else 1.0
    keep = 1 - step ** -o["power"]
    for k, (v, matrices, n, m) in p.items():
        u = [clip * x for x in g[k]]
        square = [x * x + 1e-30 for x in u]
        r, s = state.setdefault(k, ([0.0] * (matrices * n), [0.0] * (matrices * m)))
        for q in range(matrices):
            at = q * max(n, 1) * m
            for i in range(n):
                r[q * n + i] = keep * r[q * n + i] + (1 - keep) * sum(square[at + i * m : at + i * m + m]) / m
            for j in range(m):
                column = [square[at + i * m + j] for i in range(max(n, 1))]
                s[q * m + j] = keep * s[q * m + j] + (1 - keep) * sum(column) / len(column)
            mean = sum(r[q * n : q * n + n]) / n if n else 1.0
            for i in range(max(n, 1)):
                for j in range(m):
                    u[at + i * m + j] /= sqrt((r[q * n + i] / mean if n else 1.0) * s[q * m + j])
        size = max(1.0, rms(u) / o["clip"])
        lr = min(1e-2, 1 / sqrt(step)) if o["relative"] else o["lr"]
        if o["eps2"] > 0:
            lr *= max(o["eps2"], rms(v))
        u = [lr * x / size for x in u]
        if o["beta1"] > 0:
            before = first.get(k, [0.0] * len(u))
            u = first[k] = [o["beta1"] * x + (1 - o["beta1"]) * y for x, y in zip(before, u)]
        decay = 0.0 if o["matrices"] and n == 0 else o["decay"]
        p[k][0] = [x - decay * lr * x - y for x, y in zip(v, u)]
print(len(got), "steps alike")
