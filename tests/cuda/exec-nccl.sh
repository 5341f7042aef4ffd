#!/bin/sh
# tests/cuda/exec-nccl.sh TOOLS MOCKS MPIRUN quick|full: plans of a small model trained on several GPUs, each compared with the same
# training on one rank: strategies, a mesh whose shards are in another order than ranks, tensor parallelism, ranks of mpirun,
# a rank that is killed. With the mock libraries, unless there are four GPUs: then on those.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
mocks=$2 mpirun=$3 size=$4
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
export REDCO_CUDA_FOLDERS= # the mock libraries alone
unset OMPI_COMM_WORLD_RANK PMI_RANK REDCO_RANK SLURM_STEP_NUM_TASKS
if [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')" -lt 4 ]; then
    export LD_LIBRARY_PATH="$mocks" MOCK_CUDA_DEVICES=4
    echo 'with mock libraries'
fi
failures=0
bad() {
    echo "$1: $(tail -n 3 run.err 2>/dev/null)"
    failures=$((failures + 1))
}
plan() { # CLUSTER GPUS TP OPTION...
    cluster=$1 gpus=$2 tp=$3
    shift 3
    redco-plan --quiet --cluster "$tests/data/exec/$cluster.json" --model "$tests/data/models/oracle/llama.json" --gpus "$gpus" \
        --tp "$tp" --seq 12 --global-batch 8 --micro-batch 1 --precision fp32 "$@" -o plan.json >plan.out 2>&1 && return
    bad "no plan: $*: $(tail -n 1 plan.out)"
    return 1
}
check() { # as plan
    plan "$@" || return
    timeout 300 redco-exec plan.json --backend cuda --steps 3 --check --json >run.json 2>run.err ||
        bad "differs: $*: $(sed -n '/"check"/,$p' run.json | tr -d '\n')"
}
check quad 2 1 --strategy zero3
check pair 4 1 --fix p=1x1,g=2x1,os=2x2 --scheme intra-tensor
if [ "$size" = full ]; then
    check quad 2 1 --strategy ddp
    for strategy in ddp zero1 zero2 zero3 amsp; do check quad 4 1 --strategy $strategy; done
    for strategy in hsdp mics; do check pair 4 1 --strategy $strategy; done
    check quad 2 2
fi
check quad 4 2 --strategy zero3

plan quad 2 1 --strategy zero1 &&
    { "$tests/mpirun.sh" "$mpirun" 2 "$(command -v redco-exec)" plan.json --backend cuda --steps 2 --quiet --json >run.json 2>run.err ||
        bad 'mpirun'; }

# Nobody but the ranks themselves notices that one of them is gone.
if plan quad 4 1 --strategy ddp; then
    REDCO_ADDRESS=localhost:$((20000 + $$ % 10000))
    export REDCO_RANKS=4 REDCO_ADDRESS
    for rank in 0 1 2 3; do
        REDCO_RANK=$rank timeout 100 redco-exec plan.json --backend cuda --steps 1000000 --timeout 90 >out.$rank 2>err.$rank &
        eval "rank_$rank=\$!"
    done
    tries=0
    until grep -q '^step *3 ' out.0 || [ $tries -gt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    killed=$(date +%s)
    # shellcheck disable=SC2154 # rank_1 is set above; timeout passes a KILL on to nobody
    pkill -KILL -P "$rank_1" || bad 'there is no rank 1'
    for rank in 0 2 3; do
        eval "wait \$rank_$rank"
        code=$?
        [ $code -eq 3 ] || { cp err.$rank run.err && bad "rank $rank ends with $code, not 3"; }
    done
    echo "a rank was killed: the others ended $(($(date +%s) - killed)) s later: $(cat err.0)"
fi
echo "plans on several GPUs: $failures failures"
[ $failures -eq 0 ]
