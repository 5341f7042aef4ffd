#!/bin/sh
# tests/exec-pipeline-plans.sh TOOLS PIPELINES CC [few|full]: plans of pipelines. Plans are those of the graph that the loss builds:
# the memory that redco-exec plans is within 3 % of the plan's, whatever is sharded and split; tensor parallelism by
# RedCoast's rules and by given ones has the losses of one rank (f64: 1e-10); the plan file is enough to check, simulate
# and validate it; what cannot be planned is one line. Nothing is timed.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
pipelines=$(cd "$2" && pwd) || exit 2
compiler=$3
size=${4:-few}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
quad=$tests/data/exec/quad.json
failures=0 rows=0 runs=0 refused=0
bad() {
    echo "$*"
    cat out err
    failures=$((failures + 1))
}
plan() { # NAME LIBRARY OPTION...
    name=$1 library=$2
    shift 2
    redco-plan --quiet --pipeline "$library" --cluster "$quad" --calibration host --precision fp32 "$@" -o "$name.json" >out 2>err ||
        bad "plan $name: $*"
}
cp "$tests/../executor/pipelines/data/digits-train.jsonl" digits.jsonl
python3 "$tests/../executor/pipelines/data/make_dates.py" . 200 && mv dates-train.jsonl dates.jsonl || bad 'no dates'
# With --steps 0 a rank takes all memory that it will ever have, and reports it.
memory() { # PIPELINE OPTION...
    pipeline=$1
    shift
    rows=$((rows + 1))
    plan memory "$pipelines/$pipeline.so" "$@"
    redco-exec memory.json --pipeline "$pipelines/$pipeline.so" --steps 0 --json >run.out 2>err || bad "does not run: $pipeline $*"
    python3 - "$pipeline $*" <<'PY' >out 2>&1 || bad 'memory'
import json, sys
run, plan = json.load(open("run.out")), json.load(open("memory.json"))
planned, predicted = run["measured"]["peak_memory_bytes"], run["predicted"]["peak_memory_bytes"]
assert abs(predicted / planned - 1) <= 0.03, (sys.argv[1], planned, predicted, run["measured"]["memory_bytes"], plan["predicted"]["memory_bytes"])
PY
}
few='digits dates ddpg fedavg'
[ "$size" != full ] || few="$few byte_model distillation dp_sgd dpo lora maml ppo regression"
for pipeline in $few; do
    memory "$pipeline" --gpus 1 --global-batch 64 --micro-batch 64
    memory "$pipeline" --gpus 2 --global-batch 64 --micro-batch 16 --tp 1 --strategy zero3
    memory "$pipeline" --gpus 8 --global-batch 64 --micro-batch 8 --tp 2 --fix p=1x1,g=2x1,os=2x2
    [ "$size" = full ] || continue
    memory "$pipeline" --gpus 1 --global-batch 64 --micro-batch 1
    for strategy in ddp zero1 zero2; do memory "$pipeline" --gpus 2 --global-batch 64 --micro-batch 16 --tp 1 --strategy $strategy; done
    memory "$pipeline" --gpus 2 --global-batch 64 --micro-batch 32 --tp 2
    memory "$pipeline" --gpus 4 --global-batch 64 --micro-batch 16 --tp 2 --strategy zero3
    memory "$pipeline" --gpus 8 --global-batch 64 --micro-batch 8 --tp 1 --fix p=2x1,g=2x2,os=4x2
done

# Losses, norms and weights of one rank.
same() { # NAME PIPELINE
    runs=$((runs + 1))
    redco-exec "$1.json" --pipeline "$pipelines/$2.so" --data "$2.jsonl" --steps 3 --dtype f64 --check --quiet >out 2>err && grep -q 'the same' out ||
        bad "$1 of $2: not as one rank"
}
echo '{"format": "redco-rules", "version": 1, "rules": [{"match": "hidden/kernel", "dim": 0}, {"match": "out/kernel", "dim": null}]}' >rules.json
for pipeline in digits dates; do
    plan tp "$pipelines/$pipeline.so" --gpus 2 --tp 2 --global-batch 16 --micro-batch 8
    same tp $pipeline
    plan tp_amsp "$pipelines/$pipeline.so" --gpus 8 --tp 2 --global-batch 16 --micro-batch 2 --fix p=1x1,g=2x1,os=2x2
    same tp_amsp $pipeline
    plan tp_zero3 "$pipelines/$pipeline.so" --gpus 4 --tp 2 --global-batch 16 --micro-batch 4 --strategy zero3
    same tp_zero3 $pipeline
done
plan ruled "$pipelines/digits.so" --gpus 2 --tp 2 --global-batch 16 --micro-batch 8 --tp-rules rules.json
same ruled digits
python3 - <<'PY' >out 2>&1 || bad 'rules are not those of the file'
import json
plan = json.load(open("ruled.json"))
assert [(r["match"], r["dim"]) for r in plan["tensor_parallel"]["rules"]][:2] == [("hidden/kernel", 0), ("out/kernel", None)], plan["tensor_parallel"]
degree = plan["model"]["config"]["degrees"][1]
assert degree["tp"] == 2 and degree["splits"] == [0, None, None, None], degree
# By hand: the input's half of every rank times its rows of the first matrix is summed forward, [8, 256]; nothing is
# gathered backward but the gradient of nothing: pixels have none.
sums = [o for o in degree["operators"] if o["kind"] == "collective"]
assert [(o["name"], o.get("backward", False), o["elements"]) for o in sums] == [("all-reduce", False, [0, 256])], sums
PY
# By hand, of one example: 64 x 256 and 256 x 10 forward; backward twice that without the gradient of the pixels.
python3 - <<'PY' >out 2>&1 || bad 'work is not that of the network'
import json
one = json.load(open("tp.json"))["model"]["config"]
flops = json.load(open("memory.json"))["predicted"]["model_flops_per_token"]
ruled = json.load(open("ruled.json"))["predicted"]["model_flops_per_token"]
assert ruled == 2 * (64 * 256 + 256 * 10) * 2 + 2 * 256 * 10, ruled
PY

# The plan file alone: no library is needed, and the simulator's step is the plan's.
redco-plan --check tp_zero3.json >out 2>err && grep -q OK out || bad 'check'
redco-sim tp_zero3.json --json >sim.out 2>err || bad 'simulation'
redco-exec tp_zero3.json --pipeline "$pipelines/dates.so" --data dates.jsonl --steps 2 --timeline trace.json --quiet >out 2>err &&
    redco-validate tp_zero3.json trace.json --json >validate.out 2>err || bad 'trace'
python3 - <<'PY' >out 2>&1 || bad 'simulation or validation'
import json
plan, simulated, held = (json.load(open(f)) for f in ("tp_zero3.json", "sim.out", "validate.out"))
assert simulated["step_s"] == plan["predicted"]["step_s"], simulated["step_s"]
assert held["matched"]["missing"] == 0 and held["matched"]["extra"] == 0, held["matched"]
PY
# Two questions, one answer; and all ways to ask.
plan again "$pipelines/dates.so" --gpus 4 --tp 2 --global-batch 16 --micro-batch 4 --strategy zero3
python3 - <<'PY' >out 2>&1 || bad 'not the same plan twice'
import json
a, b = (json.load(open(f)) for f in ("tp_zero3.json", "again.json"))
assert a["model"] == b["model"] and a["predicted"] == b["predicted"]
PY
ask="redco-plan --pipeline $pipelines/dates.so --cluster $quad --global-batch 64 --precision fp32"
# shellcheck disable=SC2086 # words
{
    $ask --gpus 8 --compare >out 2>err && grep -q zero3 out || bad 'compare'
    $ask --sweep gpus=2,4,8 >out 2>err && [ "$(grep -c '^ *[248]  ' out)" -eq 3 ] || bad 'sweep'
    $ask --gpus 8 --explain >out 2>err && grep -q 'why not' out || bad 'explain'
    $ask --gpus 8 --report report.html --quiet >out 2>err && grep -q '</html>' report.html || bad 'report'
    $ask --gpus 8 --export sbatch=run.sh --quiet >out 2>err && grep -q SBATCH run.sh || bad 'sbatch'
}

refuse() { # TEXT COMMAND...: exit 2 and one line
    text=$1
    shift
    refused=$((refused + 1))
    "$@" >out 2>err
    got=$?
    [ $got -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q -e "$text" err || bad "$*: exit $got, not 2 with \"$text\""
}
# shellcheck disable=SC2086
{
    refuse '--export: megatron: redco-exec alone trains pipelines' $ask --gpus 8 --export megatron
    refuse '--recompute: a pipeline is one layer' $ask --gpus 8 --recompute full
    refuse '--tp-placement: a pipeline' $ask --gpus 8 --tp-placement milp
    refuse '--tp: 3 is no power of two' $ask --gpus 3 --tp 3
    refuse '--sequence-parallel: a pipeline' $ask --gpus 2 --tp 2 --sequence-parallel
    echo '{"format": "redco-rules", "version": 1, "rules": [{"match": "head/kernel", "dim": 3}]}' >wrong.json
    refuse 'wrong.json.*head' $ask --gpus 2 --tp 2 --tp-rules wrong.json
}
redco-exec --new-pipeline first >out 2>err &&
    "$compiler" -std=c11 -shared -fPIC -I"$tests/.." first/first.c -o first.so >out 2>err || bad 'new pipeline'
refuse 'first.so: tp 2: .* split none of its parameters' redco-plan --pipeline first.so --gpus 2 --tp 2
# A loss that unrolls its examples is another graph for each micro-batch.
cat >unrolled.c <<'C'
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
"$compiler" -std=c11 -shared -fPIC -I"$tests/.." unrolled.c -o unrolled.so >out 2>err || bad 'unrolled does not compile'
refuse 'the loss of 8 examples builds another graph than that of 16: give --micro-batch' redco-plan --pipeline unrolled.so --gpus 2 --global-batch 8
plan unrolled unrolled.so --gpus 2 --global-batch 8 --micro-batch 4
echo "$rows plans weighed, $runs held against one rank, $refused refused, $failures failures"
exit $((failures > 0))
