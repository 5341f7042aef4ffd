source $(dirname ${BASH_SOURCE[0]})/not_there.sh
export LORA_A2A=1
export FP8=True
export MINIBS=1
export MBS=1
export TP=4
export PP=1
export CP=1
export SP=1
export DGXNNODES=1
export DGXNGPU=8
