#!/bin/sh
# tests/presets.sh TOOLS [full]: every cluster preset with a model and every model preset with a cluster, on 8 and on
# 1,024 GPUs, in one layout; "full": models in all layouts, too. Each is answered (exit 0), said not to fit (1) or refused
# (2) in one line that names the place.
set -u
tools=$1
full=${2:-quick}
folder=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
count=0 wrong=0 answered=0

fail() {
    echo "$*" >&2
    wrong=$((wrong + 1))
}

# ask WHAT OPTION...: one question
ask() {
    what=$1
    shift
    "$tools/redco-plan" "$@" --json --quiet >"$scratch/out" 2>"$scratch/err"
    code=$?
    lines=$(wc -l <"$scratch/err")
    case $code in
    0)
        answered=$((answered + 1))
        grep -q '"step_s"' "$scratch/out" || fail "$what: no step in the answer"
        ;;
    1) grep -q '"feasible": *false' "$scratch/out" || fail "$what: exit 1 without a reason" ;;
    2)
        [ "$lines" -eq 1 ] || fail "$what: $lines lines"
        grep -q '^redco-plan: .*: ' "$scratch/err" || fail "$what: $(cat "$scratch/err")"
        ;;
    *) fail "$what: exit $code: $(head -n 1 "$scratch/err")" ;;
    esac
    count=$((count + 1))
}

presets() {
    for file in "$folder/$1"/*.json; do basename "$file" .json; done
}

one_layout="--seq 512 --tp 1 --pp 1 --strategy zero3 --micro-batch 1 --recompute full"
for gpus in 8 1024; do
    for cluster in $(presets topology/presets/clusters); do
        # shellcheck disable=SC2086 # words
        ask "--cluster $cluster --gpus $gpus" --gpus "$gpus" --cluster "$cluster" --model llama-7b $one_layout
    done
done
for model in $(presets costmodel/presets/models); do
    # shellcheck disable=SC2086 # words
    ask "--model $model" --sweep gpus=8,1024 --cluster dgx-h100 --model "$model" $one_layout
    [ "$full" = full ] || continue
    for gpus in 8 1024; do ask "--model $model --gpus $gpus" --gpus "$gpus" --cluster dgx-h100 --model "$model"; done
done
[ "$answered" -gt 0 ] || fail "nothing is answered"
echo "$count questions, $answered answered, $wrong wrong"
[ "$wrong" -eq 0 ]
