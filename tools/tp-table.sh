#!/bin/sh
# tools/tp-table.sh [MODEL:SHARDS ...]: RedCoast's rules against GLPK's layout as a Markdown table, from the tools of the
# release build: one micro-batch of 4 x 1024 tokens through all layers of one GPU of AMSP's testbed, forward and backward.
set -eu
cd "$(dirname "$0")/.."
plan=$PWD/build/release/tools/redco-plan
[ $# -gt 0 ] || set -- llama-7b:8 llama-3-8b:8 mistral-7b:8 qwen2-7b:4 gpt-j-6b:8 t5-11b:8 opt-13b:2 opt-13b:8 opt-66b:8 \
    gpt2:4 gpt2-large:4 bloom-560m:8 bloom-7b1:8 gpt-neox-20b:8 mpt-7b:8 gemma-2b:2 gemma-2b:8 gemma-7b:8 \
    internlm2-7b:8 bart-large:8

echo "| model | shards | rules: time | sent | memory | GLPK: time | sent | memory | time | GLPK splits otherwise |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for each; do
    model=${each%:*}
    shards=${each#*:}
    "$plan" --model "$model" --gpus 64 --tp "$shards" --seq 1024 --micro-batch 4 --global-batch 128 --explain |
        awk -v model="$model" -v shards="$shards" '
            $1 == "all" {
                row = sprintf("| %s | %s | %s %s | %s %s | %s %s | %s %s | %s %s | %s %s | %s %s |", model, shards,
                              $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
                behind = 1
                next
            }
            behind && / by GLPK / { print row differs " |" }
            behind { sub(/^ +/, ""); differs = differs (differs == "" ? " " : "<br>") $0 }'
done
