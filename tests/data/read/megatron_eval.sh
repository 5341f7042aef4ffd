#!/bin/bash
# a command that is put together in a variable
for ARGUMENT in "$@"; do
    export "$ARGUMENT"
done
GPUS=8
TP="${TP:-4}"
MBS="${MBS:-2}"
SEQ_PARALLEL="${SEQ_PARALLEL:-1}"
LOG=`date +%s`.log
GPT_ARGS="
    --tensor-model-parallel-size ${TP} \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 \
    --seq-length 4096 --max-position-embeddings 4096 \
    --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
    --attention-dropout 0.0 --hidden-dropout 0.0 \
    --untie-embeddings-and-output-weights --vocab-size 32000 \
    --micro-batch-size $MBS --global-batch-size 32 --bf16 \
"
EXTRA_ARGS="--use-distributed-optimizer"
if [ "$SEQ_PARALLEL" -eq 1 ]; then
EXTRA_ARGS="$EXTRA_ARGS --sequence-parallel"
fi
if [ -f ./megatron_model.sh ]; then
EXTRA_ARGS="$EXTRA_ARGS --overlap-grad-reduce"
fi
run_cmd="
    torchrun --nproc_per_node $GPUS pretrain_gpt.py \
        $GPT_ARGS \
        $EXTRA_ARGS \
"
run_cmd="$run_cmd |& tee $LOG"
eval $run_cmd
