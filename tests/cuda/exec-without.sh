#!/bin/sh
# tests/cuda/exec-without.sh TOOLS: redco-exec --backend cuda where redco was built without CUDA.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd) || exit 2
tools=$(cd "$1" && pwd) || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
"$tools/redco-plan" --quiet --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --gpus 1 \
    --seq 12 --global-batch 8 --micro-batch 1 --precision fp32 -o plan.json >/dev/null || exit 2
"$tools/redco-exec" plan.json --backend cuda >out 2>err
code=$?
cat out err
[ $code -eq 3 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -q ': no CUDA device: redco was built without CUDA' err
