#!/bin/sh
# tests/exec-pipeline-plans.sh TOOLS PIPELINES CC [few|full]: plans of pipelines. Plans are those of the graph that the loss builds:
# the memory that redco-exec plans is within 3 % of the plan's, whatever is sharded and split; tensor parallelism by
# RedCoast's rules and by given ones has the losses of one rank (f64: 1e-10); the plan file is enough to check, simulate
# and validate it; what cannot be planned is one line. Nothing is timed.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
pipelines=$(cd "$2" && pwd) || exit 2
compiler=$3
size=${4:-few}
cd "$scratch" || exit 2
quad=$tests/data/exec/quad.json
head -n 100 "$tests/../executor/pipelines/data/digits-train.jsonl" >digits.jsonl
python3 "$tests/../executor/pipelines/data/make_dates.py" . 200 && mv dates-train.jsonl dates.jsonl || bad 'no dates'
# memory PIPELINE MICRO OPTION...: with --steps 0 a rank takes all memory that it will ever have, and reports it. In 16 bits
# processors hold an operator's tensors in 32 as well.
rows=0
memory() {
    pipeline=$1 micro=$2
    shift 2
    for precision in fp32 bf16; do
        rows=$((rows + 1))
        pipeline_plan memory "$pipelines/$pipeline.so" 64 "$micro" --calibration host "$@" --precision $precision
        run redco-exec memory.json --pipeline "$pipelines/$pipeline.so" --steps 0 --json
        cp out "memory.$rows.$pipeline.$precision.out"
    done
}
# 200 modules in one layer.
compile deep "$tests/data/pipelines/deep.c" ''
awk 'BEGIN { for (i = 0; i < 64; i++) printf "{\"n\": %d}\n", i }' >deep.jsonl
few='digits dates ddpg fedavg'
[ "$size" != full ] || few="$few byte_model distillation dp_sgd dpo lora maml ppo regression vae"
for pipeline in $few; do
    memory "$pipeline" 64 --gpus 1
    memory "$pipeline" 16 --gpus 2 --tp 1 --strategy zero3
    memory "$pipeline" 8 --gpus 8 --tp 2 --fix p=1x1,g=2x1,os=2x2
    [ "$size" = full ] || continue
    memory "$pipeline" 1 --gpus 1
    for strategy in ddp zero1 zero2; do memory "$pipeline" 16 --gpus 2 --tp 1 --strategy $strategy; done
    memory "$pipeline" 32 --gpus 2 --tp 2
    memory "$pipeline" 16 --gpus 4 --tp 2 --strategy zero3
    memory "$pipeline" 8 --gpus 8 --tp 1 --fix p=2x1,g=2x2,os=4x2
done
examples=$pipelines pipelines=$scratch
memory deep 16 --gpus 2 --tp 1 --strategy zero3
memory deep 8 --gpus 8 --tp 2 --fix p=1x1,g=2x1,os=2x2
pipelines=$examples
python3 - "$rows" memory.*.out <<'PY' 2>>err || bad 'memory is not the predicted one'
import json, sys
wrong, worst = [], 0
for name in sys.argv[2:]:
    run = json.load(open(name))
    planned, predicted = run["measured"]["peak_memory_bytes"], run["predicted"]["peak_memory_bytes"]
    held = run["measured"]["memory_bytes"]
    worst = max(worst, abs(predicted / planned - 1))
    if abs(predicted / planned - 1) > 0.03:
        wrong.append((name, planned, predicted, held))
    # DDPG's targets are half of its parameters, and have no moments: 8 bytes of each second number, 4 of each.
    if ".ddpg.fp32" in name and run["world"] == 1 and held["optimizer"] != held["parameters"]:
        wrong.append((name, held))
print(f"{len(sys.argv) - 2} plans: memory predicted within {100 * worst:.2f} %")
assert len(sys.argv) == 2 + int(sys.argv[1]) and not wrong, wrong
PY

deep=tp_zero3
[ "$size" != full ] || deep='ddp zero3 amsp tp tp_zero3'
pipelines=$scratch
# shellcheck disable=SC2086 # words
example_plans deep 16 2 $deep
same_losses deep 2 "$deep" --data deep.jsonl
[ "$size" != full ] || {
    pipeline_plan deep_eight deep.so 16 1 --gpus 8 --tp 1 --fix p=2x1,g=2x2,os=4x2
    same_losses deep 2 eight --data deep.jsonl
    run redco-exec deep_zero3.json --pipeline deep.so --data deep.jsonl --steps 4 --save-weights whole --quiet
    run redco-exec deep_zero3.json --pipeline deep.so --data deep.jsonl --steps 2 --checkpoint ck --quiet
    run redco-exec deep_zero3.json --pipeline deep.so --data deep.jsonl --steps 4 --checkpoint ck --resume --save-weights resumed --quiet
    cmp whole/model.safetensors resumed/model.safetensors || bad 'deep is not resumed to the same bits'
}
pipelines=$examples

# Losses, norms and weights of one rank.
same() { # NAME PIPELINE
    run redco-exec "$1.json" --pipeline "$pipelines/$2.so" --data "$2.jsonl" --steps 2 --dtype f64 --check --quiet
    grep -q 'the same' out || bad "$1 of $2: not as one rank"
}
# split_plan NAME PIPELINE MICRO OPTION...: tensor-parallel.
split_plan() {
    split_name=$1 split_pipeline=$2 split_micro=$3
    shift 3
    pipeline_plan "$split_name" "$pipelines/$split_pipeline.so" 16 "$split_micro" --tp 2 --calibration host "$@"
}
echo '{"format": "redco-rules", "version": 1, "rules": [{"match": "hidden/kernel", "dim": 0}, {"match": "out/kernel", "dim": null}]}' >rules.json
for pipeline in digits dates; do
    [ "$size.$pipeline" = few.dates ] || {
        split_plan tp $pipeline 8 --gpus 2
        same tp $pipeline
        split_plan tp_amsp $pipeline 2 --gpus 8 --fix p=1x1,g=2x1,os=2x2
        same tp_amsp $pipeline
    }
    [ "$size.$pipeline" = few.digits ] || {
        split_plan tp_zero3 $pipeline 4 --gpus 4 --strategy zero3
        same tp_zero3 $pipeline
    }
done
split_plan ruled digits 8 --gpus 2 --tp-rules rules.json
same ruled digits
python3 - <<'PY' >out 2>&1 || bad 'rules are not those of the file, or work is not that of the network'
import json
plan = json.load(open("ruled.json"))
assert [(r["match"], r["dim"]) for r in plan["tensor_parallel"]["rules"]][:2] == [("hidden/kernel", 0), ("out/kernel", None)], plan["tensor_parallel"]
degree = plan["model"]["config"]["degrees"][1]
assert degree["tp"] == 2 and degree["splits"] == [0, None, None, None], degree
# By hand: the input's half of every rank times its rows of the first matrix is summed forward, [8, 256]; nothing is
# gathered backward but the gradient of nothing: pixels have none.
sums = [o for o in degree["operators"] if o["kind"] == "collective"]
assert [(o["name"], o.get("backward", False), o["elements"]) for o in sums] == [("all-reduce", False, [0, 256])], sums
# Of one example: 64 x 256 and 256 x 10 forward; backward twice that without the gradient of the pixels.
flops = plan["predicted"]["model_flops_per_token"]
assert flops == 2 * (64 * 256 + 256 * 10) * 2 + 2 * 256 * 10, flops
PY

# The plan file alone: no library is needed, and the simulator's step is the plan's.
run redco-plan --check tp_zero3.json
grep -q OK out || bad 'check'
run redco-sim tp_zero3.json --json && cp out sim.out
run redco-exec tp_zero3.json --pipeline "$pipelines/dates.so" --data dates.jsonl --steps 2 --timeline trace.json --quiet
run redco-validate tp_zero3.json trace.json --json && cp out validate.out
# Two questions, one answer.
split_plan again dates 4 --gpus 4 --strategy zero3
python3 - <<'PY' >out 2>&1 || bad 'simulation, validation or a second plan'
import json
plan, again, simulated, held = (json.load(open(f)) for f in ("tp_zero3.json", "again.json", "sim.out", "validate.out"))
assert simulated["step_s"] == plan["predicted"]["step_s"], simulated["step_s"]
assert held["matched"]["missing"] == 0 and held["matched"]["extra"] == 0, held["matched"]
assert again["model"] == plan["model"] and again["predicted"] == plan["predicted"]
PY
# All ways to ask.
ask="redco-plan --pipeline $pipelines/dates.so --cluster $quad --global-batch 64 --precision fp32"
# shellcheck disable=SC2086 # words
{
    run $ask --gpus 8 --compare
    grep -q zero3 out || bad 'compare'
    run $ask --sweep gpus=2,4,8
    [ "$(grep -c '^ *[248]  ' out)" -eq 3 ] || bad 'sweep'
    run $ask --gpus 8 --explain --report report.html --export sbatch=run.sh
    grep -q 'why not' out && grep -q '</html>' report.html && grep -q SBATCH run.sh || bad 'explain, report or sbatch'
}

# shellcheck disable=SC2086
{
    refuse 2 '--export: megatron: redco-exec alone trains pipelines' $ask --gpus 8 --export megatron
    refuse 2 '--recompute: a pipeline is one layer' $ask --gpus 8 --recompute full
    refuse 2 '--tp-placement: a pipeline' $ask --gpus 8 --tp-placement milp
    refuse 2 '--tp: 3 is no power of two' $ask --gpus 3 --tp 3
    refuse 2 '--sequence-parallel: a pipeline' $ask --gpus 2 --tp 2 --sequence-parallel
    echo '{"format": "redco-rules", "version": 1, "rules": [{"match": "head/kernel", "dim": 3}]}' >wrong.json
    refuse 2 'wrong.json.*head' $ask --gpus 2 --tp 2 --tp-rules wrong.json
}
run redco-exec --new-pipeline first
compile first first/first.c ''
refuse 2 'first.so: tp 2: .* split none of its parameters' redco-plan --pipeline first.so --gpus 2 --tp 2
# A loss that unrolls its examples is another graph for each micro-batch.
cat >loop.c <<'C'
#include "executor/pipeline/user_pipeline.h"
static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_parameter(shape, "w", 2, (const uint64_t[]){4, 4}, (redco_initial){REDCO_INITIAL_NORMAL, 0.1});
    redco_user_pipeline_input(shape, "x", REDCO_F32, 1, (const uint64_t[]){4});
}
static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    (void)examples, (void)count, (void)data, (void)err;
    return REDCO_OK;
}
static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    redco_value sum = REDCO_NO_VALUE;
    const redco_value x = redco_scope_weight(scope, "x"), w = redco_scope_weight(scope, "w");
    const uint64_t batch = redco_value_type(g, x)->dim[0];
    (void)context;
    for (uint64_t i = 0; i < batch; i++) {
        const redco_value one = redco_slice(g, x, (const uint64_t[]){i, 0}, (const uint64_t[]){1, 4});
        const redco_value y = redco_matmul(g, one, w, false, false);
        const redco_value square = redco_sum_all(g, redco_mul(g, y, y));
        sum = i == 0 ? square : redco_add(g, sum, square);
    }
    return redco_cast(g, sum, redco_dtype_statistic(scope->compute));
}
const redco_user_pipeline redco_user_pipeline_table = {
    .abi = REDCO_USER_PIPELINE_ABI, .name = "unrolled", .describe = describe, .collate = collate, .loss = loss};
C
compile unrolled loop.c ''
refuse 2 'the loss of 8 examples builds another graph than that of 16: give --micro-batch' redco-plan --pipeline unrolled.so --gpus 2 --global-batch 8
pipeline_plan unrolled unrolled.so 8 4 --gpus 2
finish
