#!/bin/sh
# generation.sh TOOLS_DIR [REPEATS]: ratios of what generated tokens cost on one rank of this machine: a token behind few others
# and behind many, and eight prompts together against one. Keys and values are kept where they lie, so that a token costs
# a + b x (tokens before it): attention alone reads what was before. Processor time of one thread, without that of starting;
# the least of REPEATS runs each (3 by default), all of equally many tokens. It is no test, as times depend on the machine.
set -eu
PATH=$(cd "$1" && pwd):$PATH
repeats=${2:-3}
cluster=$(cd "$(dirname "$0")/.." && pwd)/data/exec/quad.json
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
cat >model.json <<'JSON'
{"model_type": "llama", "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 8,
 "num_key_value_heads": 8, "vocab_size": 4000, "max_position_embeddings": 1024}
JSON
redco-plan --quiet --cluster "$cluster" --model model.json --gpus 1 --seq 64 --global-batch 1 --micro-batch 1 --precision fp32 \
    -o plan.json >/dev/null
for n in 1 2 3 4 5 6 7 8; do echo "{\"tokens\": [$n, 2, 3, 4, 5, 6, 7, 8]}"; done >eight.jsonl
head -n 1 eight.jsonl >one.jsonl
python3 -c 'import json; print(json.dumps({"tokens": [7 * n % 4000 for n in range(264)]}))' >long.jsonl
python3 - "$repeats" <<'PY'
import os, resource, subprocess, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
def seconds(prompts, batch, tokens):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["redco-exec", "plan.json", "--steps", "0", "--predict", prompts + ".jsonl", "--batch", str(batch),
                    "--max-new-tokens", str(tokens), "--predictions", f"made.{prompts}.{tokens}"], check=True,
                   stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
runs = [(prompts, batch, tokens) for prompts, batch in (("one", 1), ("long", 1), ("eight", 8)) for tokens in (1, 128)]
least = dict.fromkeys(runs, float("inf"))
for _ in range(int(sys.argv[1])):  # in turn: other programs disturb all of them alike
    for run in runs:
        least[run] = min(least[run], seconds(*run))
early, late, together = ((least[p, b, 128] - least[p, b, 1]) / 127 for p, b in (("one", 1), ("long", 1), ("eight", 8)))
growth = (late - early) / 256
print(f"a token: {1e3 * early:.2f} ms behind a prompt of 8, {1e3 * late:.2f} ms behind one of 264: ratio {late / early:.2f}")
print(f"a token behind n others: {1e3 * (early - growth * 72):.3f} + {1e3 * growth:.5f} n ms")  # 8 + 64 on average
print(f"a token of eight prompts together: {1e3 * together:.2f} ms: ratio {together / early:.2f}")
PY
