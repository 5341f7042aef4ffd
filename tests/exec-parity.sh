#!/bin/sh
# tests/exec-parity.sh TOOLS [quick|few|short|full]: plans of small models trained by real processes, each compared with the
# same training on one rank: named strategies, chosen triples, tensor parallelism, accumulation, both schemes,
# recomputation, in f32 and some in f64. Prints the worst errors. "full" takes all of it for every model.
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
size=${2:-short}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
failures=0 runs=0 steps=20

try() { # CLUSTER MODEL GPUS TP BATCH DTYPE OPTION...
    what="$*"
    cluster=$1 named=$2 gpus=$3 tp=$4 batch=$5 dtype=$6
    shift 6
    if ! redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/$cluster.json" --model "$named.json" \
        --gpus "$gpus" --tp "$tp" --seq 12 --global-batch "$batch" --micro-batch 1 --precision fp32 --sequence-parallel=off "$@" -o plan.json \
        >plan.out 2>&1; then
        echo "no plan: $what: $(tail -1 plan.out)"
        failures=$((failures + 1))
        return
    fi
    runs=$((runs + 1))
    if ! redco-exec plan.json --steps $steps --check --dtype "$dtype" --json >run.json 2>run.err; then
        echo "differs: $what: $(cat run.err) $(sed -n '/"check"/,$p' run.json | tr -d '\n')"
        failures=$((failures + 1))
        return
    fi
    for error in loss weight; do
        sed -n "s/.*\"${error}_error\": \([-+.0-9eE]*\).*/$named $dtype $error \1/p" run.json >>errors
    done
}

strategies() { # MODEL RANKS
    named='ddp zero1 zero2 zero3 hsdp mics zeropp amsp'
    [ "$size" != quick ] || named='zero1 mics amsp'
    for strategy in $named; do
        if [ "$2 $strategy" = '2 mics' ]; then continue; fi # there is none
        try quad "$1" "$2" 1 $((4 * $2)) f32 --strategy "$strategy"
    done
}

triples() { # MODEL: on 4 nodes of 2
    for fix in p=1x1,g=2x1,os=2x2 p=2x1,g=2x2,os=2x4 p=2x2,g=2x4,os=2x4 p=1x2,g=1x2,os=2x4; do
        try pair "$1" 8 1 32 f32 --fix $fix --scheme intra-tensor
        try pair "$1" 8 1 32 f64 --fix $fix --scheme inter-tensor
    done
    try quad "$1" 8 2 16 f64 --fix p=2x1,g=2x1,os=2x2
}

cp "$tests/data/models/oracle/qwen3.json" . # norms of heads, which tensor parallelism deals out
try quad qwen3 2 2 4 f64 --sequence-parallel
for model in gemma phi3 internlm2 bloom mpt t5 mt5 bart; do
    cp "$tests/data/models/oracle/$model.json" .
    try quad $model 2 1 4 f64 --strategy zero3
    try quad $model 4 2 4 f64 --recompute full --strategy zero3
done
for model in llama gpt2 opt; do
    cp "$tests/data/models/oracle/$model.json" . # of 61 words, which nothing divides
    sed 's/"vocab_size": 61/"vocab_size": 64/' $model.json >$model-64.json
    try quad $model-64 8 2 16 f64 --tp-placement milp
    # Gathers for which nothing of the simulator's waits: memory that a collective of tensor parallelism still reads.
    try processors $model-64 4 2 8 f64 --strategy zero3 --recompute full
    try processors $model-64 4 2 8 f64 --strategy zeropp --recompute full
    strategies $model 4
    try quad $model 1 1 4 f32
    try quad $model 8 4 8 f64 --fix p=1x1,g=1x2,os=1x2
    try quad $model 4 2 8 f64 --recompute full
    case $size in quick | few) break ;; esac
    for tp in 1 2 4; do try quad $model 8 $tp 32 f32; done
    if [ "$size" = short ] && [ $model != llama ]; then continue; fi
    strategies $model 2
    strategies $model 8
    triples $model
    for tp in 1 2 4; do try quad $model 8 $tp 8 f32; done
    for recompute in none selective; do try quad $model 4 2 8 f64 --recompute $recompute; done
done
sort -k1,3 -k4,4g errors | awk '
    { key = $1 " " $2 ": worst error of a " $3; worst[key] = $4; count[key]++ }
    END { for (key in worst) { print key, worst[key], "in", count[key], "runs" } }' | sort
echo "$runs plans of $steps steps, $failures failures"
[ $failures -eq 0 ]
