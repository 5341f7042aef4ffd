#!/usr/bin/env python3
"""Writes friedman-train.jsonl (COUNT lines, 4000 by default) and friedman-test.jsonl (1000) to the folder given:
y = 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + noise of deviation 1, with ten x in [0, 1)
(J. H. Friedman, Multivariate adaptive regression splines, Ann. Statist. 19(1), 1991, section 4.3)."""
import json
import math
import pathlib
import random
import sys

random.seed(1)
count = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
for name, lines in (("train", count), ("test", 1000)):
    with open(pathlib.Path(sys.argv[1]) / f"friedman-{name}.jsonl", "w") as file:
        for _ in range(lines):
            x = [round(random.random(), 4) for _ in range(10)]
            y = 10 * math.sin(math.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4] + random.gauss(0, 1)
            print(json.dumps({"x": x, "y": round(y, 4)}), file=file)
