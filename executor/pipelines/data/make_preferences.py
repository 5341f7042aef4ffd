#!/usr/bin/env python3
"""Writes preferences-train.jsonl and preferences-test.jsonl to the folder given: of each line of Alice's adventures the
first 32 bytes as prompt, and what follows in capitals rather than as it stands."""
import json
import pathlib
import sys

here = pathlib.Path(__file__).parent
for name in ("train", "test"):
    with open(pathlib.Path(sys.argv[1]) / f"preferences-{name}.jsonl", "w") as file:
        for line in open(here / f"alice-{name}.jsonl"):
            text = json.loads(line)["text"]
            if text[32:64].upper() != text[32:64]:
                print(json.dumps({"prompt": text[:32], "chosen": text[32:64].upper(), "rejected": text[32:64]}), file=file)
