#!/bin/sh
# tests/cuda/exec-share-gpu.sh TOOLS MOCKS PARITY: redco-exec --share-gpu: what it needs, what it sets whatever the environment
# said before, what it warns of; and plans of two ranks on the one device that mock libraries play.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
mocks=$2 parity=$3
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
export REDCO_CUDA_FOLDERS='' LD_LIBRARY_PATH="$mocks" MOCK_CUDA_DEVICES=1
unset CUDA_VISIBLE_DEVICES OMPI_COMM_WORLD_RANK PMI_RANK REDCO_RANK SLURM_STEP_NUM_TASKS NCCL_MULTI_RANK_GPU_ENABLE
failures=0
# expect CODE TEXT COMMAND...: exit code, and a line on standard error; no line at all where TEXT is empty.
expect() {
    want=$1 text=$2
    shift 2
    timeout 100 "$@" >out 2>err
    code=$?
    [ $code -eq "$want" ] && if [ -n "$text" ]; then grep -q -e "$text" err && [ "$(wc -l <err)" -eq 1 ]; else [ ! -s err ]; fi && return
    echo "$*: exit $code, not $want with \"$text\": $(cat err)"
    failures=$((failures + 1))
}
redco-plan --quiet --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --gpus 2 --tp 1 --seq 12 \
    --global-batch 8 --micro-batch 1 --precision fp32 --strategy zero3 -o plan.json >/dev/null || exit 2
run="redco-exec plan.json --backend cuda --steps 4 --check"
# shellcheck disable=SC2086 # words
{
    expect 2 '^redco-exec: --share-gpu: needs --backend cuda$' redco-exec plan.json --share-gpu
    expect 2 '^redco-exec: --share-gpu: says nothing of one rank' redco-exec plan.json --backend cuda --replay-rank 0 --share-gpu
    expect 3 'NCCL 2.28.9 is too old (.*): 2.30 or newer is wanted where ranks share a GPU$' env MOCK_NCCL_VERSION=22809 MOCK_CUDA_MPS=1 $run --share-gpu
    export MOCK_NCCL_VERSION=23007
    expect 3 'rank 1: cuda: has the GPU of rank 0' $run
    expect 0 '^redco-exec: warning: --share-gpu: without MPS ranks take turns on the GPU' $run --share-gpu
    export MOCK_CUDA_MPS=1 NCCL_MAX_CTAS=8 NCCL_NVLS_ENABLE=1
    expect 0 '' $run --share-gpu
    grep -q 'the same' out || { cat out && failures=$((failures + 1)); }
    # Ranks of a launcher compare whether they share: here rank 1 does not.
    export REDCO_RANKS=2 REDCO_ADDRESS=localhost:$((20000 + $$ % 10000))
    REDCO_RANK=1 timeout 60 $run >/dev/null 2>&1 &
    expect 2 'share-gpu' env REDCO_RANK=0 $run --share-gpu
    wait
    unset REDCO_RANKS REDCO_ADDRESS
}
expect 0 ' 1 trainings, 0 failures' "$parity" --backend cuda --share-gpu --model gpt2 --ranks 2 --dtype f32 --every --only dp2x1/p=1x1,g=2x1,os=2x1/inter-tensor/acc1
echo "ranks on one GPU: $failures failures"
[ $failures -eq 0 ]
