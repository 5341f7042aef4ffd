#!/usr/bin/env python3
"""Writes digits-train.jsonl and digits-test.jsonl from the digits that scikit-learn ships: every fifth is a test."""
import json
import pathlib

from sklearn.datasets import load_digits

digits = load_digits()
here = pathlib.Path(__file__).parent
with open(here / "digits-train.jsonl", "w") as train, open(here / "digits-test.jsonl", "w") as test:
    for i, (pixels, label) in enumerate(zip(digits.data, digits.target)):
        text = "".join(chr(ord("a") + int(p)) for p in pixels)
        print(json.dumps({"pixels": text, "digit": int(label)}), file=test if i % 5 == 4 else train)
