#!/bin/sh
# tests/cuda/exec-cuda.sh TOOLS MOCKS MPIRUN [STUB]: redco-exec --backend cuda where there is no device, in all the ways
# that can be; a GPU for each rank; failures of the driver. STUB is the toolkit's libcuda.so to link with.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd) || exit 2
tools=$(cd "$1" && pwd) || exit 2
mocks=$2 mpirun=$3 stub=${4-}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
export REDCO_CUDA_FOLDERS= # the mock libraries alone
unset CUDA_VISIBLE_DEVICES LD_LIBRARY_PATH
failures=0
bad() {
    echo "$1"
    cat out err
    failures=$((failures + 1))
}
# fails CODE TEXT [SETTING]... [-- OPTION...]: one line that holds TEXT, and nothing on standard output.
fails() {
    want=$1 text=$2
    shift 2
    settings=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    [ $# -eq 0 ] || shift
    # shellcheck disable=SC2086 # settings are words
    env $settings "$tools/redco-exec" plan.json --backend cuda "$@" >out 2>err
    code=$?
    [ $code -eq "$want" ] || bad "exit $code instead of $want: $text"
    if [ "$(grep -c '^redco-exec: ' err)" -ne 1 ] || ! grep -qFe "$text" err; then bad "no line, or several: $text"; fi
    [ ! -s out ] || bad "something on standard output: $text"
}
plan() {
    "$tools/redco-plan" --quiet --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --seq 12 \
        --global-batch 8 --micro-batch 1 --precision fp32 -o plan.json "$@" >/dev/null || exit 2
}
use="LD_LIBRARY_PATH=$mocks"

plan --gpus 1
if /sbin/ldconfig -p | grep -q 'libcuda\.so\.1'; then
    echo 'not tried without a driver: this machine has one'
else
    fails 3 'rank 0: cuda: no CUDA device: libcuda.so.1: cannot be loaded'
fi
if [ -f "$stub" ]; then
    mkdir stubs && ln -s "$stub" stubs/libcuda.so.1
    fails 3 "no CUDA device: libcuda.so.1 is the toolkit's stub" "LD_LIBRARY_PATH=$scratch/stubs"
else
    echo 'not tried with a stub: the toolkit has none'
fi
fails 3 'no CUDA device: the driver sees none' "$use" MOCK_CUDA_DEVICES=0
fails 3 'no CUDA device: the driver sees none' "$use" CUDA_VISIBLE_DEVICES=-1
fails 3 'no CUDA device: the driver is for CUDA 12.4, redco was built for' "$use" MOCK_CUDA_VERSION=12040
fails 3 'no CUDA device: device 0 has compute capability 7.0' "$use" MOCK_CUDA_CAPABILITY=70
fails 3 'no CUDA device: cuInit: CUDA_ERROR_UNKNOWN (999: unknown error); does nvidia-smi work?' "$use" MOCK_CUDA_FAIL=cuInit:2:999
fails 3 'cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE (46: ' "$use" MOCK_CUDA_FAIL=cuDevicePrimaryCtxRetain:1:46
fails 3 'cuStreamCreateWithPriority: CUDA_ERROR_OUT_OF_MEMORY (2: ' "$use" MOCK_CUDA_FAIL=cuStreamCreateWithPriority:1:2
mkdir broken && cp -P "$mocks"/libcuda.so.1 broken/ && : >broken/libcublasLt.so.13
fails 3 'no CUDA device: libcublasLt.so.13: cannot be loaded: ' "LD_LIBRARY_PATH=$scratch/broken"
fails 2 '--emulate-compute: needs --backend host' "$use" -- --emulate-compute

plan --gpus 2
fails 3 'rank 1: cuda: has the GPU of rank 0, GPU-5d5d5d5d-5d5d-5d5d-5d5d-5d5d5d5d5d00' "$use"
fails 3 'rank 1: cuda: has the GPU of rank 0, GPU-5d5d5d5d-5d5d-5d5d-5d5d-5d5d5d5d5d01' "$use" MOCK_CUDA_DEVICES=2 CUDA_VISIBLE_DEVICES=1
# Each rank is shown the same one of two: one of them says so.
env "$use" MOCK_CUDA_DEVICES=2 CUDA_VISIBLE_DEVICES=1 "$tests/mpirun.sh" "$mpirun" 2 "$tools/redco-exec" plan.json --backend cuda >out 2>err
code=$?
if [ $code -ne 3 ] || [ "$(grep -c '^redco-exec: ' err)" -ne 1 ] || ! grep -q 'rank 1: cuda: has the GPU of rank 0' err; then
    bad "mpirun, one GPU for two: exit $code"
fi
if [ $failures -eq 0 ]; then echo 'every way has its line'; fi
[ $failures -eq 0 ]
