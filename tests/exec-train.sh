#!/bin/sh
# tests/exec-train.sh TOOLS CC: training options of redco-exec. Adafactor has the losses of an oracle in Python on every
# plan, and goes on from a checkpoint on another plan.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
compiler=$2
cd "$scratch" || exit 2
compile plain "$tests/training/plain.c" ''
pipeline_plan one ./plain.so 16 4 --gpus 1
pipeline_plan zero3 ./plain.so 16 2 --gpus 4 --strategy zero3
pipeline_plan ddp ./plain.so 16 4 --gpus 2 --strategy ddp
pipeline_plan amsp ./plain.so 16 2 --gpus 8 --fix p=2x1,g=2x2,os=4x2
python3 - <<'PY'
import json
for i in range(16):
    x = [((7 * i + 3 * k * k + i * k) % 17 - 8) / 8 for k in range(6)]
    print(json.dumps({"x": x, "y": [x[k] - x[k + 1] + 0.5 for k in range(4)]}), file=open("data.jsonl", "a"))
PY
data="--pipeline ./plain.so --data data.jsonl"

# Adafactor on all plans, with each of its settings.
# shellcheck disable=SC2086 # words
{
    run redco-exec one.json $data --steps 0 --save-weights first
    ada="$data --weights first --optimizer adafactor --dtype f64 --steps 8 --json --learning-rate 0.05"
    for name in one ddp zero3 amsp; do
        run redco-exec $name.json $ada --weight-decay 0
        python3 "$tests/training/adafactor.py" first/model.safetensors data.jsonl out >told 2>&1 || { cat told && bad "$name"; }
    done
    run redco-exec amsp.json $ada --weight-decay 0.1 --decay matrices --beta1 0.9 --decay-power 0.5 --update-clip 0.7 --scale-epsilon 0 \
        --clip-norm 0.3
    python3 "$tests/training/adafactor.py" first/model.safetensors data.jsonl out decay=0.1 matrices=1 beta1=0.9 power=0.5 \
        clip=0.7 eps2=0 norm=0.3 >told 2>&1 || { cat told && bad settings; }
    run redco-exec zero3.json $ada --weight-decay 0.1 --relative-rate --clip-norm 0
    python3 "$tests/training/adafactor.py" first/model.safetensors data.jsonl out decay=0.1 relative=1 norm=0 >told 2>&1 ||
        { cat told && bad relative; }
    python3 -c 'import json; assert [s["learning_rate"] for s in json.load(open("out"))["steps"]] == [min(0.01, (k + 1) ** -0.5) for k in range(8)]' ||
        bad 'the rate that is told is not the relative one'
    run redco-exec zero3.json $data --weights first --optimizer adafactor --dtype f64 --steps 5 --checkpoint ck --quiet
    run redco-exec amsp.json $data --optimizer adafactor --dtype f64 --steps 8 --checkpoint ck --resume --json --weight-decay 0.1
    cp out resumed.json
    run redco-exec one.json $data --weights first --optimizer adafactor --dtype f64 --steps 8 --json
    python3 - <<'PY' || bad 'resumed losses are others'
import json
a, b = (json.load(open(f))["steps"] for f in ("resumed.json", "out"))
assert len(a) == 3 and all(abs(x["loss"] / y["loss"] - 1) < 1e-10 for x, y in zip(a, b[5:])), (a, b)
PY
    # Tensor parallelism: heads, fused projections (gpt2) and tables are cut inside of rows or of columns.
    for model in llama gpt2; do
        config=$tests/data/models/oracle/$model.json
        model_plan $model.one "$config" --seq 12 --global-batch 8 --gpus 1 --micro-batch 4 || bad "plan $model"
        model_plan $model.tp "$config" --seq 12 --global-batch 8 --gpus 4 --tp 2 --micro-batch 2 --strategy zero3 || bad "plan $model.tp"
        for name in one tp; do
            run redco-exec $model.$name.json --optimizer adafactor --dtype f64 --steps 4 --json
            cp out $name.out
        done
        python3 - <<'PY' || bad "$model: tensor-parallel losses are others"
import json
a, b = (json.load(open(f))["steps"] for f in ("one.out", "tp.out"))
assert len(a) == 4 and all(abs(x["loss"] / y["loss"] - 1) < 1e-10 for x, y in zip(a, b)), (a, b)
PY
    done
    refuse 2 'are not SGD' redco-exec one.json $data --optimizer sgd --beta1 0.5
    refuse 2 '--beta2: is AdamW' redco-exec one.json $data --optimizer adafactor --beta2 0.5
    refuse 2 "are Adafactor's" redco-exec one.json $data --update-clip 2
    refuse 2 'adafactor needs --backend host' redco-exec one.json $data --optimizer adafactor --backend cuda
    refuse 2 'is of a run whose\|has no tensor\|tensors' redco-exec one.json $data --checkpoint ck --resume --steps 9 --dtype f64
}
finish
