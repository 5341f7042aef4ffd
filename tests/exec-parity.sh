#!/bin/sh
# tests/exec-parity.sh TOOLS [full]: plans of small models trained by real processes, each compared with the same training on
# one rank: named strategies, chosen triples, tensor parallelism, accumulation, both schemes, recomputation, in f32 and
# some in f64. Prints the worst errors. "full" takes every strategy on 2, 4 and 8 ranks for every model.
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
failures=0 runs=0 size=${2:-short}
steps=20

try() { # CLUSTER MODEL GPUS TP BATCH DTYPE OPTION...
    what="$*"
    cluster=$1 model=$2 gpus=$3 tp=$4 batch=$5 dtype=$6
    shift 6
    if ! redco-plan --quiet --cluster "$tests/data/exec/$cluster.json" --model "$tests/data/models/oracle/$model.json" \
        --gpus "$gpus" --tp "$tp" --seq 12 --global-batch "$batch" --micro-batch 1 --precision fp32 "$@" -o plan.json \
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
        sed -n "s/.*\"${error}_error\": \([-+.0-9eE]*\).*/$model $dtype $error \1/p" run.json >>errors
    done
}

for model in llama gpt2 opt; do
    case $size$model in full* | *llama) worlds='2 4 8' ;; *) worlds=4 ;; esac
    for gpus in $worlds; do
        for strategy in ddp zero1 zero2 zero3 hsdp mics zeropp amsp; do
            if [ "$gpus $strategy" = '2 mics' ]; then continue; fi # there is none
            try quad $model $gpus 1 $((4 * gpus)) f32 --strategy $strategy
        done
    done
    for tp in 1 2 4; do
        for batch in 8 32; do try quad $model 8 $tp $batch f32; done
    done
    try quad $model 1 1 4 f32
    for fix in p=1x1,g=2x1,os=2x2 p=2x1,g=2x2,os=2x4 p=2x2,g=2x4,os=2x4 p=1x2,g=1x2,os=2x4; do
        try pair $model 8 1 32 f32 --fix $fix --scheme intra-tensor
        if [ $size$model = shortopt ]; then continue; fi
        try pair $model 8 1 32 f64 --fix $fix --scheme inter-tensor
    done
    try quad $model 8 4 8 f64 --fix p=1x1,g=1x2,os=1x2
    try quad $model 8 2 16 f64 --fix p=2x1,g=2x1,os=2x2
    for recompute in none selective full; do try quad $model 4 2 8 f64 --recompute $recompute; done
done
sort -k1,3 -k4,4g errors | awk '
    { worst[$1 " " $2 " " $3] = $4; count[$1 " " $2 " " $3]++ }
    END { for (key in worst) { split(key, k, " "); printf "%s %s: worst error of a %s %s in %d runs\n", k[1], k[2], k[3], worst[key], count[key] } }' | sort
echo "$runs plans of $steps steps, $failures failures"
[ $failures -eq 0 ]
