#!/bin/sh
# tests/exec-fine-tuning.sh TOOLS [few|full]: LLaMA, GPT-2, Qwen2 and T5 that transformers saved, in f32, against what
# transformers made of them (data/models/oracle/fine_tuning, by save_fine_tuning.py): the losses of 20 fine-tuning steps to
# 1e-4, perplexity before them, 64 greedy tokens before and after, on one rank and under tensor-parallel, ZeRO-3 and AMSP
# plans. Prompts of many lengths need at most eight padded lengths and a graph each.
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
size=${2:-few}
cd "$scratch" || exit 2
data=$tests/data/models/oracle/fine_tuning

cat >compare.py <<'PY'
import json, math, sys
kind, model = sys.argv[1:3]
want = json.load(open(model + ".expected.json"))
made = [json.loads(line) for line in open("made.jsonl")]
prompts = [json.loads(line) for line in open(model + ".jsonl")]
tokens = {"first": "made", "tuned": "tuned"}[kind]
assert len(made) == len(prompts)
for line, prompt in zip(made, prompts):
    assert line["example"] == prompt and line["prediction"]["tokens"] == prompt[tokens], (kind, line)
run = json.load(open("out"))
assert run["prediction"]["graphs"] <= 8, run["prediction"]  # seven lengths, and the tokens behind
if kind == "tuned":
    losses = [step["loss"] for step in run["steps"]]
    worst = max(abs(a / b - 1) for a, b in zip(losses, want["losses"]))
    assert len(losses) == 20 and worst < 1e-4, (worst, losses)
    print(f"{model.rsplit('/', 1)[-1]}: losses of 20 steps differ by {worst:.1e} at most", file=sys.stderr)
else:
    assert abs(run["evaluation"]["perplexity"] / want["perplexity"] - 1) < 1e-4, (run["evaluation"], want["perplexity"])
PY
# use KIND MODEL PLAN OPTION...
use() {
    kind=$1 of=$2 under=$3
    shift 3
    run redco-exec "$under.json" --weights "$data/$of" --predict "$data/$of.jsonl" --predictions made.jsonl \
        --max-new-tokens 64 --json "$@"
    python3 compare.py "$kind" "$data/$of" 2>said || { cat said >>err && bad "$of $under $kind: not as transformers"; }
    cat said
}
for model in llama gpt2 qwen2 t5; do
    config=$data/$model/config.json
    batch='--seq 16 --global-batch 4'
    # shellcheck disable=SC2086 # words
    {
        model_plan one "$config" $batch --gpus 1 --micro-batch 2 || bad "plan $model"
        model_plan tp "$config" $batch --gpus 2 --tp 2 --strategy ddp --micro-batch 2 || bad "plan $model"
        model_plan zero3 "$config" $batch --gpus 4 --tp 2 --strategy zero3 --micro-batch 2 || bad "plan $model"
        model_plan amsp "$config" $batch --cluster "$tests/data/exec/pair.json" --gpus 4 --tp 1 --fix p=2x1,g=2x2,os=2x2 --micro-batch 1 || bad "plan $model"
    }
    plans='one zero3'
    [ "$size" = few ] || plans='one tp zero3 amsp'
    for plan in $plans; do
        use tuned "$model" "$plan" --data "$data/ids.bin" --steps 20 --learning-rate 0.003 --warmup 5 --batch 2
        [ "$size" = few ] && [ "$plan" = one ] && continue
        use first "$model" "$plan" --evaluate "$data/$model.examples.jsonl" --batch 3
    done
done

# Prompts of 1 to 40 tokens: as many graphs as padded lengths, and the one of the next token; each is continued as it is alone.
model_plan one "$data/llama/config.json" --seq 16 --global-batch 4 --gpus 1 --micro-batch 2
python3 -c '
import json
for n in range(40): print(json.dumps({"tokens": [(7 * n + i * i) % 61 for i in range(n + 1)]}))' >lengths.jsonl
for batch in 1 4; do
    run redco-exec one.json --weights "$data/llama" --predict lengths.jsonl --predictions made.$batch --max-new-tokens 4 \
        --batch $batch --json --dtype f64
    python3 -c 'import json; graphs = json.load(open("out"))["prediction"]["graphs"]; assert 3 <= graphs <= 8, graphs' \
        2>>err || bad 'graphs'
done
cmp made.1 made.4 || bad 'other tokens in other batches'
finish
