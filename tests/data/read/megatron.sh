#!/bin/bash
# A launch script in the ways that people write them.
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8 --job-name=mine
set -euo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=1
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/megatron_model.sh"
NUM_NODES=${NUM_NODES:-4}
GPUS_PER_NODE=8
TP=4   # inside of a node
PP=${PP:-2}
: "${MBS:=1}"
DP=$((NUM_NODES * GPUS_PER_NODE / (TP * PP)))
GBS=$(expr $DP \* 16)
if [[ "$TP" -gt 1 && -z "${NO_SP:-}" ]]; then
    PARALLEL="--sequence-parallel"
else
    PARALLEL=""
fi
if [ -f /etc/nowhere ]; then TP=1; fi
OPTIMIZER_ARGS=(
    --use-distributed-optimizer   # ZeRO-1
    --overlap-grad-reduce
    "--overlap-param-gather"
)
args() {
    echo --lr "$1"
}
torchrun --nnodes "$NUM_NODES" --nproc_per_node=$GPUS_PER_NODE --node_rank $SLURM_NODEID pretrain_gpt.py \
    ${MODEL_ARGS[@]} $PARALLEL "${OPTIMIZER_ARGS[@]}" \
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size $PP --num-layers-per-virtual-pipeline-stage 4 \
    --micro-batch-size ${MBS} --global-batch-size $GBS \
    --bf16 --recompute-granularity selective --recompute-modules core_attn mlp \
    --train-iters 100 --data-path 0.3 $DATA_A 0.7 $DATA_B \
    --my-own-option 3 \
    2>&1 | tee log.txt
