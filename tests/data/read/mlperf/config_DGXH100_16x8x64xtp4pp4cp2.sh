source $(dirname ${BASH_SOURCE[0]})/config_common.sh

export MINIBS=64
export TENSOR_MODEL_PARALLEL=4
export PIPELINE_MODEL_PARALLEL=4
export INTERLEAVED_PIPELINE=8
export CONTEXT_PARALLEL=2
export TP_COMM_OVERLAP=True
export DGXNNODES=16
export DGXSYSTEM=$(basename $(readlink -f ${BASH_SOURCE[0]}) | sed 's/^config_//' )
export WALLTIME=$((5 + ${NEXP:-1} * 10))
export MODEL_SIZE="405b"
export ASYM_PP_EMBED=True
export ASYM_PP_LOSS=True
