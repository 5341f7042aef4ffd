#!/bin/sh
# tests/exec-predict.sh TOOLS [few|full]: --evaluate and --predict. Losses and greedy tokens of a T5, a BART and a Qwen2
# are those of transformers (data/models/oracle/predictions, made by save_predictions.py), on one rank and sharded ones,
# whatever is batched together. Of every family a token behind a prompt is the token behind that prompt and the tokens
# before it, which no kept keys are part of. What is drawn does not depend on ranks. Bad files are one line.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
size=${2:-few}
cd "$scratch" || exit 2
plan() { # NAME MODEL OPTION...
    name=$1 file=$2
    shift 2
    redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$file" --seq 12 \
        --global-batch 4 --micro-batch 1 --precision fp32 "$@" -o "$name.json" >/dev/null 2>err
}
run() { # PLAN OPTION...
    plan=$1
    shift
    runs=$((runs + 1))
    redco-exec "$plan.json" --dtype f64 "$@" >out 2>err || bad "$plan $*: exit $?"
}
cat >compare.py <<'PY'
import json, sys
lines = lambda path: [json.loads(line) for line in open(path)]
kind = sys.argv[1]
if kind == "made":  # transformers' tokens stand in the example
    bad = [l for l in lines("out") if l["prediction"]["tokens"] != l["example"]["made"] or
           l["prediction"]["ended"] != l["example"]["ended"]]
    assert len(lines("out")) == len(lines(sys.argv[2])) and not bad, bad
    assert [l["example"] for l in lines("out")] == lines(sys.argv[2]), "order"
elif kind == "loss":
    want, targets = open(sys.argv[2]).read().split()
    got = json.load(open("out"))["evaluation"]
    assert abs(got["loss"] / float(want) - 1) < 1e-7 and got["targets"] == int(targets), (got, want)
elif kind == "extend":  # prompts and what was generated, of every length
    for l in lines(sys.argv[2]):
        made = l["prediction"]["tokens"]
        for k in range(len(made)):
            print(json.dumps({"tokens": l["example"]["tokens"] + made[:k], "made": made[k:k + 1], "ended": False}))
PY
data=$tests/data/models/oracle
for model in t5 bart qwen2 phi3; do
    folder=$data/predictions/$model
    [ $model = qwen2 ] && folder=$data/saved
    plan one "$folder/config.json" --gpus 1 || exit 2
    plan tp "$folder/config.json" --gpus 2 --tp 2 --strategy ddp || plan tp "$folder/config.json" --gpus 2 --strategy ddp || exit 2
    plan zero3 "$folder/config.json" --gpus 4 --tp 2 --strategy zero3 || plan zero3 "$folder/config.json" --gpus 4 --strategy zero3 || exit 2
    for options in 'one --batch 1' 'one --batch 4' 'tp --batch 2' 'zero3 --batch 1' 'zero3 --batch 3'; do
        [ "$size" = few ] && [ "${options#* }" = '--batch 1' ] && continue
        # shellcheck disable=SC2086 # words
        run $options --weights "$folder" --predict "$data/predictions/$model.jsonl" --max-new-tokens 8
        python3 compare.py made "$data/predictions/$model.jsonl" 2>err || bad "$model $options: other tokens"
        # shellcheck disable=SC2086
        run $options --weights "$folder" --evaluate "$data/predictions/$model.examples.jsonl" --json
        python3 compare.py loss "$data/predictions/$model.loss" 2>err || bad "$model $options: another loss"
    done
done

cat >prompts.jsonl <<'EOF2'
{"tokens": [5, 9, 33, 2, 17], "name": "five"}
{"tokens": [7]}
{"tokens": [1, 2, 3, 4, 5, 6, 7]}
{"tokens": [40, 0]}
EOF2
families='llama gpt2 bloom'
[ "$size" = few ] || families=$(cd "$data" && basename -s .json -- *.json | grep -v -x -e opt-post-norm -e t5 -e mt5 -e bart)
for model in $families; do
    plan part "$data/$model.json" --gpus 4 --tp 2 --strategy zero3 || plan part "$data/$model.json" --gpus 4 --strategy zero3 || exit 2
    run part --predict prompts.jsonl --max-new-tokens 5 --batch 2
    cp out made
    python3 compare.py extend made >longer.jsonl
    run part --predict longer.jsonl --max-new-tokens 1 --batch 4
    python3 compare.py made longer.jsonl 2>err || bad "$model: kept keys give other tokens"
done

# Drawn tokens: the same on all plans, others with another seed.
plan one "$data/llama.json" --gpus 1
plan part "$data/llama.json" --gpus 4 --tp 2 --strategy zero3
draw='--predict prompts.jsonl --max-new-tokens 6 --temperature 1.5 --top-k 20 --top-p 0.9'
# shellcheck disable=SC2086
{
    run one $draw && mv out drawn
    run part $draw --batch 3 && cmp out drawn || bad 'ranks draw other tokens'
    redco-exec one.json --quiet --steps 0 --save-weights w >out 2>err
    run one --weights w --seed 2 $draw && ! cmp -s out drawn || bad 'another seed draws the same'
    run one --weights w $draw --predictions to.jsonl && cmp to.jsonl drawn || bad 'not in the file'
}

# Losses over a file of ids: 26 ids are two windows of 12 tokens and one of 1.
python3 -c 'import sys, struct; sys.stdout.buffer.write(struct.pack("<26H", *[7 * i % 61 for i in range(26)]))' >ids.bin
run one --weights w --evaluate ids.bin --json
python3 -c 'import json; e = json.load(open("out"))["evaluation"]; assert (e["examples"], e["targets"]) == (3, 25), e' || bad windows
python3 - >ids.jsonl <<'PY'
import json
ids = [7 * i % 61 for i in range(26)]
for a, b in ((0, 12), (12, 24), (24, 25)):
    print(json.dumps({"tokens": ids[a:b], "targets": ids[a + 1:b + 1]}))
PY
cp out windows
run part --weights w --evaluate ids.jsonl --batch 2 --json
python3 -c 'import json
a, b = (json.load(open(f))["evaluation"]["loss"] for f in ("out", "windows"))
assert abs(a / b - 1) < 1e-12, (a, b)' || bad 'another loss of the same examples'

refuse() { # TEXT OPTION...
    text=$1
    shift
    refused=$((refused + 1))
    redco-exec one.json "$@" >out 2>err
    [ $? -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q -e "$text" err || bad "$*: not refused with \"$text\""
}
line() { # TEXT LINE: of the file that is evaluated
    printf '{"tokens": [1, 2]}\n%s\n' "$2" >bad.jsonl
    refuse "bad.jsonl:2: $1" --evaluate bad.jsonl
}
line 'column 12: ' '{"tokens": }'
line 'is no object' '[1, 2]'
line 'has neither of "tokens" and "text"' '{"ids": [1]}'
line '"tokens" is empty' '{"tokens": []}'
line '"tokens" item 2 is 61; ids are whole numbers from 0 to 60' '{"tokens": [1, 61]}'
line '"tokens" item 1 is "a"' '{"tokens": ["a", 1]}'
line 'has 2 targets for 3 tokens' '{"tokens": [1, 2, 3], "targets": [1, 2]}'
line 'has 13 tokens; sequences have 12' '{"tokens": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]}'
line 'has one token and no targets' '{"tokens": [1]}'
line '"text" is read as bytes, which a vocabulary of 61' '{"text": "a"}'
# Bytes are no tokens of a tokenizer's vocabulary; beyond 256 there are some specials.
for words in 256 384 385 128256; do
    printf '{"model_type": "gpt2", "vocab_size": %s, "n_embd": 4, "n_layer": 1, "n_head": 1, "n_positions": 16}\n' $words >words.json
    plan words words.json --gpus 1
    printf '{"text": "a word"}\n' >text.jsonl
    if [ $words -le 384 ]; then
        run words --evaluate text.jsonl
        continue
    fi
    for option in '--data text.jsonl --steps 1' '--evaluate text.jsonl' '--predict text.jsonl'; do
        # shellcheck disable=SC2086
        refused=$((refused + 1)) && redco-exec words.json $option >out 2>err
        [ $? -eq 2 ] && grep -q "text.jsonl:1: \"text\" would be read as bytes, but the vocabulary of $words has" err ||
            bad "$words words: $option"
    done
    run words --evaluate text.jsonl --bytes
done
# An end token that stands in generation_config.json alone.
run one --weights w --predict prompts.jsonl --max-new-tokens 6
end=$(python3 -c 'import json; print(json.loads(open("out").readline())["prediction"]["tokens"][2])')
echo "{\"eos_token_id\": [$end]}" >w/generation_config.json
run one --weights w --predict prompts.jsonl --max-new-tokens 6
python3 -c 'import json; p = json.loads(open("out").readline())["prediction"]; assert p["ended"] and len(p["tokens"]) < 3, p' ||
    bad 'generation_config.json does not end it'
: >empty.jsonl
refuse 'empty.jsonl: has no example' --evaluate empty.jsonl
refuse 'ids.bin: has no prompts' --predict ids.bin
refuse 'none.jsonl: cannot open' --predict none.jsonl
printf '{"tokens": [1, 2], "targets": [-100, -100]}\n' >nothing.jsonl
refuse 'all targets are below 0' --evaluate nothing.jsonl
refuse '--predictions: needs --predict FILE' --predictions x
refuse 'need --predict FILE' --top-k 3
refuse 'goes with --predict only if --predictions' --json --predict prompts.jsonl
refuse '--top-p' --predict prompts.jsonl --top-p 0

finish
