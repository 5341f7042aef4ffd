#!/bin/sh
# tests/cuda/exec-cuda-train.sh TOOLS MOCKS RANKS: redco-exec --backend cuda with mock libraries trains as one rank on the host
# does, in f32 and bf16, recomputing, and from a checkpoint on the other backend; a failure of the driver in the middle ends
# it with one line, one of a timeline leaves its results. With RANKS above 1 also on so many GPUs.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd) || exit 2
tools=$(cd "$1" && pwd) || exit 2
mocks=$2 ranks=$3
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
export REDCO_CUDA_FOLDERS= # the mock libraries alone
unset CUDA_VISIBLE_DEVICES
failures=0
bad() {
    echo "$1"
    cat out err
    failures=$((failures + 1))
}
plan() {
    "$tools/redco-plan" --quiet --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --seq 12 \
        --global-batch 4 --micro-batch 1 --precision fp32 -o plan.json "$@" >/dev/null || exit 2
}
cuda() { # SETTING... -- OPTION...
    settings="LD_LIBRARY_PATH=$mocks MOCK_CUDA_DEVICES=4"
    while [ "$1" != -- ]; do settings="$settings $1" && shift; done
    shift
    # shellcheck disable=SC2086 # settings are words
    env $settings "$tools/redco-exec" plan.json --backend cuda "$@" >out 2>err
    code=$?
}
same() { # WHAT
    if [ $code -ne 0 ] || ! grep -q '^check against one rank: the same' out; then bad "$1: exit $code"; fi
    grep -q ', backend cuda: ' out || bad "$1: the backend is not named"
}

plan --gpus 1 --recompute full
cuda -- --steps 3 --check
same 'f32, layers recomputed'
cuda -- --steps 2 --check --dtype bf16
same bf16
cuda -- --steps 2 --json
if [ $code -ne 0 ] || ! grep -q '"backend": "cuda"' out; then bad "JSON: exit $code"; fi

cuda -- --steps 2 --checkpoint saved --quiet
[ $code -eq 0 ] || bad "checkpoint: exit $code"
"$tools/redco-exec" plan.json --checkpoint saved --resume --steps 3 --check >out 2>err
code=$?
if [ $code -ne 0 ] || ! grep -q '^check against one rank: the same' out; then bad "resumed on the host: exit $code"; fi

one_line() { # TEXT
    if [ $code -ne 3 ] || [ "$(grep -c '^redco-exec: ' err)" -ne 1 ] || ! grep -q "$1" err; then bad "$1: exit $code"; fi
}
cuda MOCK_CUDA_FAIL=cuLaunchKernel:200:719 -- --steps 3
one_line CUDA_ERROR_LAUNCH_FAILED
cuda MOCK_CUDA_MEMORY=1000000 -- --steps 3
one_line 'no room for'

# A step is captured in the second one, and launched as graphs from then on: a tenth of the calls, the same losses. What
# cannot be captured is launched one by one, with one warning; a graph that cannot be launched is a failure.
value() { sed -n "s/^ *\"$1\": \([0-9.e-]*\).*/\1/p" "$2"; }
plan --gpus 1 --recompute full
cuda -- --steps 4 --json
cp out graphs
cuda -- --steps 4 --json --cuda-graphs off
if [ "$(value loss graphs)" != "$(value loss out)" ]; then bad 'graphs: other losses'; fi
if [ "$(value graphs out)" != 0 ] || [ "$(value graphs graphs)" -lt 5 ] || [ "$(value launches out)" -lt $((10 * $(value launches graphs))) ]; then
    bad "graphs: $(value launches graphs) calls, $(value launches out) without"
fi
echo "$(value launches graphs) calls a step with graphs, $(value launches out) without"
# A run that the plan does not predict is warned of, once.
plan --gpus 1 --recompute full --engine redco-exec
cuda -- --steps 1 --cuda-graphs off
[ "$(grep -c "^redco-exec: warning: the plan's prediction is of operators launched as CUDA graphs; " err)" = 1 ] || bad 'graphs: no warning'
plan --gpus 1 --recompute full --engine redco-exec,cuda_graphs=0
cuda -- --steps 1
[ "$(grep -c "^redco-exec: warning: the plan's prediction is of operators launched one by one; " err)" = 1 ] || bad 'graphs: no warning of them'
cuda -- --steps 1 --cuda-graphs off
if [ $code -ne 0 ] || [ -s err ]; then bad 'graphs: a plan without them is no run without them'; fi
# Watts by a law that does not depend on how fast the steps are: 400 W of whatever runs.
plan --gpus 1 --recompute full
cuda MOCK_NVML_LAW=:400@1900 -- --steps 4 --json
awk -F'[:,]' '/"measured"/ { on = 1 } /"predicted"/ { on = 0 } on && /"step_s"/ { s = $2 } on && /"watts_per_gpu"/ { w = $2 } on && /"energy_j"/ { e = $2 } on && /"energy_j_per_token"/ { t = $2 }
    END { exit !(w > 396 && w < 404 && e > 0.999 * w * s && e < 1.001 * w * s && t > 0.999 * e / 48 && t < 1.001 * e / 48) }' out || bad 'watts of steps'
cuda MOCK_NVML_LACKS=energy -- --steps 4 --json
[ "$(grep -c '"watts_per_gpu": null' out)" -ge 1 ] || bad 'watts of a GPU that does not count'
cuda -- --steps 4 --json --cuda-graphs off
for call in cuStreamBeginCapture_v2:1:999 cuEventRecordWithFlags:3:900 cuStreamEndCapture:2:901 cuGraphInstantiateWithFlags:1:2; do
    cuda MOCK_CUDA_FAIL=$call -- --steps 4 --json --timeline trace.json
    if [ $code -ne 0 ] || [ "$(value loss graphs)" != "$(value loss out)" ]; then bad "$call: exit $code"; fi
    if [ "$(grep -c '^redco-exec: ' err)" -ne 1 ] || ! grep -q "^redco-exec: warning: some operators are launched one by one, .*: cu" err; then bad "$call: no warning"; fi
done
# Marks inside of graphs are for steps that are timed: 3 of 5, whose graphs are made together with the others'.
for options in '' '--timeline trace.json'; do
    rm -f counts
    # shellcheck disable=SC2086 # options are words
    cuda MOCK_CUDA_COUNT=counts -- --steps 5 --json $options
    marks=$(sed -n 's/^cuEventRecordWithFlags //p' counts)
    graphs=$(sed -n 's/^cuGraphInstantiateWithFlags //p' counts)
    if [ -z "$options" ]; then
        if [ -n "$marks" ] || [ "$graphs" != "$(value graphs out)" ]; then bad "$graphs graphs and $marks marks of steps that nobody times"; fi
    elif [ "${marks:-0}" -lt 50 ] || [ "$graphs" != $((2 * $(value graphs out))) ]; then
        bad "$graphs graphs and $marks marks of timed steps"
    fi
done
cuda MOCK_CUDA_FAIL=cuGraphLaunch:3:719 -- --steps 3
one_line 'cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED'

# What is wrong with a picture is no reason to lose the run's results: a clock that is 0.2 ms off, a full disk.
whole() { # EXIT TEXT
    if [ $code -ne "$1" ] || [ "$(grep -c '^redco-exec: ' err)" -ne 1 ] || ! grep -qe "$2" err; then bad "exit $code instead of $1: $2"; fi
    if [ "$(grep -c '"loss": [0-9]' out)" -ne 3 ] || ! grep -q '"step_s": [0-9]' out; then bad "results are lost: $2"; fi
}
cuda MOCK_CUDA_CLOCK_ERROR=200000 -- --steps 3 --json --timeline trace.json
whole 0 '^redco-exec: warning: trace.json: .* by [0-9.e-]* s, and the clock resolves'
cuda -- --steps 3 --json --timeline /dev/full
whole 3 ': /dev/full: cannot write'

if [ "$ranks" -gt 1 ]; then
    plan --gpus 2 --strategy zero3
    cuda -- --steps 3 --json --timeline /dev/full --timeline-rank 1
    whole 3 'rank 1, step 3: /dev/full: cannot write'
    plan --gpus "$ranks" --strategy zero3
    cuda -- --steps 2 --check
    same "$ranks ranks"
    plan --gpus 4 --tp 2 --strategy zero2
    cuda -- --steps 2 --check
    same '4 ranks, tensor parallelism'
fi
[ $failures -eq 0 ] && echo 'trained as on the host'
