#!/bin/sh
# tests/exec-binds.sh TOOLS: redco-exec finds a counterpart of every operator of plans of every family and recomputation,
# planned for a GPU framework as well as for itself, and split by RedCoast's rules.
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
plans=0 failures=0
try() { # MODEL OPTION...
    what=$(basename "$1") && file=$1 && shift
    plans=$((plans + 1))
    if ! { redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$file" --seq 12 --global-batch 2 --micro-batch 1 \
        --precision fp32 "$@" -o plan.json && redco-exec plan.json --steps 1 --quiet; } >out 2>&1; then
        if grep -q 'does not divide the [0-9]* attention heads' out; then
            plans=$((plans - 1))
            return
        fi
        echo "$what $*: $(tail -n 1 out)"
        failures=$((failures + 1))
    fi
}
for model in "$tests"/data/models/oracle/*.json; do
    grep -q '"model_type"' "$model" || continue
    for policy in none selective full; do
        for engine in framework redco-exec; do try "$model" --gpus 1 --recompute $policy --engine $engine; done
        for sequence in off on; do
            try "$model" --gpus 2 --tp 2 --recompute $policy --sequence-parallel=$sequence --engine redco-exec
        done
    done
done
echo "$plans plans: $failures that redco-exec does not run"
[ $plans -gt 100 ] && [ $failures -eq 0 ]
