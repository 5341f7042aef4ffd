#!/bin/sh
# tests/cuda/exec-libraries.sh TOOLS MOCKS: which cuDNN is taken of several (copies of the mock library that say to be of
# other versions), and that attention by redco's own kernels is told: one warning, and in the run's JSON and the profile.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd) || exit 2
tools=$(cd "$1" && pwd) || exit 2
mocks=$(cd "$2" && pwd) || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
unset CUDA_VISIBLE_DEVICES CUDA_HOME CUDA_PATH VIRTUAL_ENV CONDA_PREFIX MOCK_CUDNN_VERSION
failures=0
bad() {
    echo "$1"
    cat out err
    failures=$((failures + 1))
}
# copy FOLDER VERSION [CUDA]: a cuDNN of that version, and of that CUDA
copy() {
    mkdir -p "$1" && cp "$mocks/libcudnn.so.9" "$1/" && echo "${2} ${3-}" >"$1/libcudnn.version"
}
site=env/lib/python3.12/site-packages/nvidia
copy loader 90800 && ln -s "$mocks"/libcuda.so.1 "$mocks"/libcublasLt.so.13 "$mocks"/libnccl.so.2 loader/
copy toolkit 91300
copy $site/cudnn/lib 91900
copy other/cudnn/lib 92500 12090 # of another CUDA
mkdir -p broken && : >broken/libcudnn.so.9
mkdir -p env/bin && printf '#!/bin/sh\n' >env/bin/python3 && chmod +x env/bin/python3

"$tools/redco-plan" --quiet --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --seq 12 \
    --global-batch 2 --micro-batch 1 --precision bf16 --gpus 1 -o plan.json >/dev/null || exit 2
# run FOLDERS OPTION...
run() {
    folders=$1
    shift
    LD_LIBRARY_PATH=$scratch/loader REDCO_CUDA_FOLDERS=$folders "$tools/redco-exec" plan.json --backend cuda --steps 2 --json "$@" >out 2>err
    code=$?
    [ $code -eq 0 ] || bad "exit $code"
}
quiet() { [ ! -s err ] || bad "a warning: $1"; }
attention() { grep -q "\"attention\": \"$1" out || bad "not by $1"; }
warned() { # TEXT
    [ "$(wc -l <err)" -eq 1 ] || bad "no warning, or several: $1"
    grep -q "^redco-exec: warning: attention runs on redco's own kernels: .*$1" err || bad "not: $1"
}
run "$scratch/toolkit:$scratch/$site/cudnn/lib:$scratch/other/cudnn/lib:$scratch/broken"
attention "cuDNN 9.19.0 ($scratch/$site/cudnn/lib/libcudnn.so.9)\"" && quiet 'the newest is in the wheels'
run "$scratch/toolkit"
attention "cuDNN 9.13.0 ($scratch/toolkit/libcudnn.so.9), own kernels: " # backward of 12 keys
warned "cuDNN 9.13.0 ($scratch/toolkit/libcudnn.so.9) does not take backward of 12 queries, 12 keys, .*: 9.16.0 or newer is wanted"
run ''
attention "own kernels: cuDNN 9.8.0 is too old ($scratch/loader/libcudnn.so.9): 9.10.2 or newer is wanted\""
warned "cuDNN 9.8.0 is too old ($scratch/loader/libcudnn.so.9): 9.10.2 or newer is wanted; "
run '' --dtype f32 # which no cuDNN has
attention 'own kernels: of 32 or 64 bits' && quiet 'f32'
rm loader/libcudnn.so.9
run "$scratch/broken"
warned 'libcudnn.so.9' # the machine's own may be found then, which has no GPU

copy loader 90800

# All tools look in the same places; the python3 on the PATH leads to its wheels.
env PATH="$scratch/env/bin:$PATH" LD_LIBRARY_PATH="$scratch/loader" HOME=/nowhere "$tools/redco-profile" --cuda-libraries >out 2>err
grep -q "^libcudnn.so.9	[0-9.]*	.*	used" out || bad 'no cuDNN is found'
grep -q "^libcudnn.so.9	9.19.0	$scratch/$site/cudnn/lib	" out || bad 'wheels of the python3 on the PATH are not found'
grep -q "^libcublasLt.so.13	[0-9.]*	.*	used, the loader's" out || bad "cuBLASLt is not the loader's"
env LD_LIBRARY_PATH="$scratch/loader" REDCO_CUDA_FOLDERS="$scratch/toolkit:$scratch/$site/cudnn/lib" \
    "$tools/redco-profile" --backend cuda --quick --quiet -o profile.json >out 2>err || bad 'no profile'
grep -q "\"attention\": \"cuDNN 9.19.0 ($scratch/$site/cudnn/lib/libcudnn.so.9)" profile.json || bad 'the profile does not name it'
env LD_LIBRARY_PATH="$scratch/loader" REDCO_CUDA_FOLDERS='' "$tools/redco-profile" --backend cuda --quick -o profile.json >out 2>err ||
    bad 'no profile'
grep -q '^redco-profile: warning: attention was measured with own kernels: ' err || bad 'nothing is said of a slow profile'
[ $failures -eq 0 ] && echo 'the newest cuDNN is taken, and what is slow is told'
