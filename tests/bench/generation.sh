#!/bin/sh
# generation.sh TOOLS_DIR [REPEATS]: ratios of what generated tokens cost on one rank of this machine: a token behind few others
# and behind many, and eight prompts together against one. Keys and values are kept where they lie, so that a token costs
# a + b x (tokens before it): attention alone reads what was before. Processor time of one thread, without that of starting;
# the least of REPEATS runs each (3 by default). It is no test, as times depend on the machine.
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
python3 - "$repeats" <<'PY'
import os, resource, subprocess, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
def seconds(prompts, batch, tokens):
    least = float("inf")
    for _ in range(int(sys.argv[1])):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["redco-exec", "plan.json", "--steps", "0", "--predict", prompts + ".jsonl", "--batch", str(batch),
                        "--max-new-tokens", str(tokens), "--predictions", f"made.{prompts}.{tokens}"], check=True,
                       stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least
one = {tokens: seconds("one", 1, tokens) for tokens in (1, 64, 256)}
eight = seconds("eight", 8, 64) - seconds("eight", 8, 1)
early, late = (one[64] - one[1]) / 63, (one[256] - one[64]) / 192
print(f"a token: {1e3 * early:.2f} ms from the 2nd to the 64th, {1e3 * late:.2f} ms from the 65th to the 256th: ratio {late / early:.2f}")
growth = (late - early) / ((8 + 160) - (8 + 33))  # means of the tokens before, the prompt's 8 among them
print(f"a token behind n others: {1e3 * (early - growth * 41):.3f} + {1e3 * growth:.5f} n ms")
print(f"63 more tokens of eight prompts together: {eight:.3f} s, of one {one[64] - one[1]:.3f} s: ratio {eight / (one[64] - one[1]):.2f}")
PY
