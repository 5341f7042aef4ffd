#!/bin/sh
# tests/exec-examples.sh TOOLS PIPELINES [few|full]: the examples of executor/pipelines about text, numbers and other models.
# Each has the losses and weights of one rank under tp 2 with ZeRO-3 of two; with "full" under tp 2, ZeRO-3 of four and an
# AMSP plan of 2x2, too (f64), and each reaches the figure that its README states.
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
pipelines=$(cd "$2" && pwd) || exit 2
size=${3:-few}
cd "$scratch" || exit 2
data=$tests/../executor/pipelines/data
python3 "$data/make_friedman.py" . && python3 "$data/make_preferences.py" . || exit 2
head -n 200 "$data/digits-train.jsonl" >few-digits.jsonl
sed 's/}$/, "alone": true}/' few-digits.jsonl >alone.jsonl

sharded='tp_zero3'
[ "$size" = few ] || sharded='zero3 amsp tp tp_zero3'
# plans NAME GLOBAL MICRO: those of this test.
plans() {
    # shellcheck disable=SC2086 # words
    example_plans "$@" one $sharded
}
# learns FIGURE NAME PLAN OPTION...: what an evaluation says, as an expression of loss and metric.
learns() {
    figure=$1 name=$2 under=$3
    shift 3
    run redco-exec "${name}_$under.json" --pipeline "$pipelines/$name.so" --json "$@"
    python3 - "$figure" "$name $under" 2>said <<'PY' || { cat said >>err && bad "$name $under: $figure does not hold"; }
import json, sys
e = json.load(open("out"))["evaluation"]
assert eval(sys.argv[1], {"loss": e["loss"], "metric": e["metric"]}), e
print(f"{sys.argv[2]}: loss {e['loss']:.4f}, metric {e['metric']}, wanted {sys.argv[1]}")
PY
}

plans regression 64 16
same_losses regression 2 "$sharded" --data friedman-train.jsonl
# the noise has variance 1, y one of 25
learns 'metric < 1.2' regression one --data friedman-train.jsonl --evaluate friedman-test.jsonl --steps 1500 \
    --learning-rate 0.01 --schedule cosine --warmup 50 --weight-decay 0.01

plans vae 64 16
same_losses vae 2 "$sharded" --data "$data/digits-train.jsonl"
# the mean image, without a code: 26.8 and 0.071
learns 'loss < 23 and metric < 0.028' vae one --data "$data/digits-train.jsonl" \
    --evaluate "$data/digits-test.jsonl" --steps 1000 --learning-rate 0.005 --schedule cosine --warmup 50

plans byte_model 8 2
same_losses byte_model 2 "$sharded" --data "$data/alice-train.jsonl"
if [ "$size" = full ]; then
    printf '{"text": "Alice was "}\n' >prompt.jsonl
    rm -rf lm
    learns 'loss < 1.9' byte_model one --data "$data/alice-train.jsonl" --evaluate "$data/alice-test.jsonl" \
        --steps 1500 --learning-rate 0.005 --schedule cosine --warmup 50 --save-weights lm \
        --predict prompt.jsonl --predictions sample.one --max-new-tokens 60
    cat sample.one
else
    run redco-exec byte_model_one.json --pipeline "$pipelines/byte_model.so" --steps 0 --save-weights lm
fi
# A pipeline's model continues prompts with its caches, the same on all plans, as the family does that it is of.
printf '{"text": "Alice"}\n{"text": "The Queen of"}\n{"tokens": [65]}\n' >prompts.jsonl
cat >gpt2.json <<'JSON'
{"model_type": "gpt2", "vocab_size": 256, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}
JSON
model_plan gpt2 gpt2.json --seq 16 --global-batch 4 --gpus 2 --tp 2 || bad 'plan gpt2'
options='--weights lm --dtype f64 --predict prompts.jsonl --max-new-tokens 12 --predictions'
# shellcheck disable=SC2086 # words
{
    run redco-exec gpt2.json $options family
    for under in one $sharded; do
        run redco-exec byte_model_$under.json --pipeline "$pipelines/byte_model.so" $options made --batch 2
        cmp made family >>err || bad "byte_model $under: other tokens than the family"
    done
}

# A student of 32 units and a frozen teacher of 256, on 200 images.
plans distillation 40 10
example_plans digits 64 16 one
run redco-exec digits_one.json --pipeline "$pipelines/digits.so" --data "$data/digits-train.jsonl" --steps 800 --quiet \
    --save-weights teacher
same_losses distillation 2 "$sharded" --data few-digits.jsonl --weights-of teacher.=teacher
train="--steps 600 --learning-rate 0.002 --weights-of teacher.=teacher --evaluate $data/digits-test.jsonl"
# shellcheck disable=SC2086 # words
{
    learns 'metric > 0.91' distillation one --data few-digits.jsonl $train --save-weights student.one
    learns 'metric < 0.87' distillation one --data alone.jsonl $train
}
python3 - one 2>>err <<'PY' || bad 'the teacher was changed'
import json, struct, sys
def tensors(path):
    raw = open(path, "rb").read()
    length = struct.unpack("<Q", raw[:8])[0]
    for name, t in json.loads(raw[8:8 + length]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            yield name, raw[8 + length + a:8 + length + b]
teacher = dict(tensors("teacher/model.safetensors"))
for under in sys.argv[1:]:
    student = dict(tensors(f"student.{under}/model.safetensors"))
    assert len(student) == 8 and all(student["teacher." + name] == data for name, data in teacher.items()), under
PY

# The policy comes to prefer capitals over the text as it stands, more than its frozen copy does.
plans dpo 8 2
copies='--weights-of policy.=lm --weights-of reference.=lm'
# shellcheck disable=SC2086 # words
same_losses dpo 2 "$sharded" --data preferences-train.jsonl $copies
[ "$size" = few ] || {
    # shellcheck disable=SC2086
    learns 'metric > 0.95' dpo one --data preferences-train.jsonl --evaluate preferences-test.jsonl $copies \
        --steps 60 --learning-rate 0.0002 --warmup 10 --predict prompt.jsonl --predictions sample.one \
        --max-new-tokens 60
    cat sample.one
}

# What --weights-of can be told wrong is one line before the first step.
part="redco-exec distillation_one.json --pipeline $pipelines/distillation.so --data few-digits.jsonl --steps 1"
cp -r teacher short && truncate -s -2 short/model.safetensors
mkdir gone && echo '{"weight_map": {"hidden.weight": "a.safetensors"}}' >gone/model.safetensors.index.json
# shellcheck disable=SC2086
{
    refuse 2 '"teacher" is not PREFIX=DIR' $part --weights-of teacher
    refuse 2 'does not go with --weights' $part --weights teacher --weights-of teacher.=teacher
    refuse 2 'is for the prefix "coach."; distillation has no parameter with such a name' $part --weights-of coach.=teacher
    refuse 2 'is the second file that is given for teacher.hidden.weight' $part --weights-of teacher.=teacher \
        --weights-of teacher.=teacher
    refuse 2 'hidden.weight has shape \[64, 256\]; distillation says \[64, 32\]' $part --weights-of student.=teacher
    refuse 2 'has no tensor hidden.weight, which distillation asks for as teacher.hidden.weight' $part \
        --weights-of teacher.=lm
    refuse 2 'short/model.safetensors: .*end\|cut off' $part --weights-of teacher.=short
    refuse 2 'nowhere: cannot open' $part --weights-of teacher.=nowhere
    refuse 2 'a.safetensors' $part --weights-of teacher.=gone
}
finish
