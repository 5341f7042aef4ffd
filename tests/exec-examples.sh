#!/bin/sh
# tests/exec-examples.sh TOOLS PIPELINES [few|full]: the examples of executor/pipelines about text, numbers and other models.
# Each has the losses and weights of one rank under ZeRO-3 of four ranks and an AMSP plan of 2x2 (f64); with "full" each
# reaches the figure that its README states, on one rank and on four.
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

# plans NAME GLOBAL MICRO: one rank, ZeRO-3 of four, AMSP's meshes on two nodes of two.
plans() {
    pipeline_plan "$1_one" "$pipelines/$1.so" "$2" "$3" --gpus 1
    pipeline_plan "$1_zero3" "$pipelines/$1.so" "$2" "$3" --gpus 4 --strategy zero3
    pipeline_plan "$1_amsp" "$pipelines/$1.so" "$2" "$3" --gpus 4 --cluster "$tests/data/exec/pair.json" \
        --fix p=2x1,g=2x2,os=2x2
}
# same NAME OPTION...: two steps on each plan are those of one rank.
same() {
    name=$1
    shift
    for under in zero3 amsp; do
        run redco-exec "${name}_$under.json" --pipeline "$pipelines/$name.so" --steps 2 --dtype f64 --check --quiet "$@"
        grep -q 'the same' out || bad "$name $under: not as one rank"
    done
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
whole='one zero3'

plans regression 64 16
same regression --data friedman-train.jsonl
for under in $whole; do # the noise has variance 1, y one of 25
    learns 'metric < 1.2' regression $under --data friedman-train.jsonl --evaluate friedman-test.jsonl --steps 1500 \
        --learning-rate 0.01 --schedule cosine --warmup 50 --weight-decay 0.01
done

plans language_model 16 4
same language_model --data "$data/alice-train.jsonl"
if [ "$size" = full ]; then
    printf '{"text": "Alice was "}\n' >prompt.jsonl
    for under in $whole; do
        rm -rf lm
        learns 'loss < 2.1' language_model $under --data "$data/alice-train.jsonl" --evaluate "$data/alice-test.jsonl" \
            --steps 400 --learning-rate 0.004 --schedule cosine --warmup 20 --save-weights lm \
            --predict prompt.jsonl --predictions sample.$under --max-new-tokens 60
        cat sample.$under
    done
else
    run redco-exec language_model_one.json --pipeline "$pipelines/language_model.so" --steps 0 --save-weights lm
fi
# A pipeline's model continues prompts with its caches, the same on all plans, as the family does that it is of.
printf '{"text": "Alice"}\n{"text": "The Queen of"}\n{"tokens": [65]}\n' >prompts.jsonl
cat >gpt2.json <<'JSON'
{"model_type": "gpt2", "vocab_size": 256, "n_embd": 96, "n_layer": 2, "n_head": 6, "n_positions": 512}
JSON
model_plan gpt2 gpt2.json --seq 16 --global-batch 4 --gpus 2 --tp 2 || bad 'plan gpt2'
options='--weights lm --dtype f64 --predict prompts.jsonl --max-new-tokens 12 --predictions'
# shellcheck disable=SC2086 # words
{
    run redco-exec gpt2.json $options family
    for under in one zero3 amsp; do
        run redco-exec language_model_$under.json --pipeline "$pipelines/language_model.so" $options made --batch 2
        cmp made family >>err || bad "language_model $under: other tokens than the family"
    done
}
finish
