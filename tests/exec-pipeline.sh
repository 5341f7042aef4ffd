#!/bin/sh
# tests/exec-pipeline.sh TOOLS PIPELINES CC [few|full]: pipelines of users. A new one is there, planned and trained in three
# commands. The digits of executor/pipelines are told apart to 97 % on one rank and on four, with the losses of one rank
# on every plan (f64: 1e-10), and resumed in the middle of an epoch to the same bits. exec-mistakes.sh has what goes wrong.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
pipelines=$(cd "$2" && pwd) || exit 2
compiler=$3
size=${4:-few}
cd "$scratch" || exit 2
# A newcomer's three commands.
redco-exec --new-pipeline first >out 2>err || bad 'new pipeline'
if command -v cmake >/dev/null; then
    cmake -S first -B first/build -DCMAKE_C_COMPILER="$compiler" >out 2>err &&
        cmake --build first/build >out 2>err && ctest --test-dir first/build >out 2>err || bad 'the new pipeline does not learn'
fi

digits=$pipelines/digits.so data=$tests/../executor/pipelines/data
pipeline_plan one "$digits" 64 16 --gpus 1
pipeline_plan ddp "$digits" 64 16 --gpus 4 --strategy ddp
pipeline_plan zero3 "$digits" 64 16 --gpus 4 --strategy zero3
pipeline_plan amsp "$digits" 64 16 --gpus 8 --fix p=2x1,g=2x2,os=4x2 --micro-batch 8
for name in ddp zero3 amsp; do
    run redco-exec $name.json --pipeline "$digits" --data "$data/digits-train.jsonl" --steps 20 --dtype f64 --check --quiet
    grep -q 'the same' out || bad "$name: not as one rank"
done
for name in one zero3; do
    run redco-exec $name.json --pipeline "$digits" --data "$data/digits-train.jsonl" --steps 300 --learning-rate 0.005 \
        --schedule cosine --warmup 20 --evaluate "$data/digits-test.jsonl" --json
    cp out $name.out
done
python3 - <<'PY' || bad 'digits are not told apart, or not alike'
import json
a, b = (json.load(open(f))["evaluation"] for f in ("one.out", "zero3.out"))
assert a["metric"] >= 0.97 and b["metric"] >= 0.97 and a["examples"] == 359, (a, b)
assert abs(a["loss"] / b["loss"] - 1) < 1e-3, (a, b)
PY
# Predictions in the order of the file; labels are not needed. Batches of 100 leave a shorter one.
sed 's/, "digit": [0-9]*//' "$data/digits-test.jsonl" >unlabelled.jsonl
redco-exec ddp.json --pipeline "$digits" --data "$data/digits-train.jsonl" --steps 100 --predict unlabelled.jsonl --batch 100 \
    >out 2>err || bad "predict: exit $?"
python3 - "$data/digits-test.jsonl" <<'PY' || bad 'predictions are out of order'
import json, sys
got, want = ([json.loads(line) for line in open(f)] for f in ("out", sys.argv[1]))
assert [g["example"]["pixels"] for g in got] == [w["pixels"] for w in want]
assert sum(g["prediction"] == w["digit"] for g, w in zip(got, want)) > 0.8 * len(want)
PY
# An epoch is 22 steps and a half.
train="--pipeline $digits --data $data/digits-train.jsonl --quiet"
# shellcheck disable=SC2086 # words
redco-exec zero3.json $train --steps 30 --save-weights whole >out 2>err &&
    redco-exec zero3.json $train --steps 13 --checkpoint ck >out 2>err &&
    redco-exec zero3.json $train --steps 30 --checkpoint ck --resume --save-weights resumed >out 2>err &&
    cmp whole/model.safetensors resumed/model.safetensors || bad 'resumed in the middle of an epoch'
# shellcheck disable=SC2086
redco-exec ddp.json $train --steps 0 --weights whole --save-weights again >out 2>err &&
    cmp whole/model.safetensors again/model.safetensors || bad 'weights on another plan'

# Settings of its own: those of all parameters are the command line's, those of some change these alone and are the
# same on every plan and behind a resumption.
compile_digits() { # NAME CALLS: of describe()
    compile "$1" "$tests/../executor/pipelines/digits.c" "s|    redco_user_pipeline_input(shape, \"digit\"|    $2\n&|"
}
compile_digits own 'redco_user_pipeline_betas(shape, "", 0.5, 0.8); redco_user_pipeline_epsilon(shape, "", 1e-3); redco_user_pipeline_decay(shape, "", 0.3);'
compile_digits part 'redco_user_pipeline_betas(shape, "out.", 0.0, 0.8); redco_user_pipeline_epsilon(shape, "out.", 1e-3); redco_user_pipeline_decay(shape, "out.weight", 0.3);'
of_digits() { # PLAN NAME OPTION...
    on=$1 with=$2
    shift 2
    run redco-exec "$on.json" --pipeline "$with" --data "$data/digits-train.jsonl" --quiet "$@"
}
of_digits zero3 own.so --steps 3 --save-weights own
of_digits zero3 "$digits" --steps 3 --beta1 0.5 --beta2 0.8 --epsilon 1e-3 --weight-decay 0.3 --save-weights given
cmp own/model.safetensors given/model.safetensors || bad 'settings of all parameters are not those of the command line'
for name in zero3 amsp; do
    of_digits $name part.so --steps 5 --dtype f64 --check
    grep -q 'the same' out || bad "settings of some: $name is not as one rank"
done
of_digits zero3 part.so --steps 4 --save-weights part
of_digits zero3 part.so --steps 2 --checkpoint part.ck
of_digits zero3 part.so --steps 4 --checkpoint part.ck --resume --save-weights part.resumed
cmp part/model.safetensors part.resumed/model.safetensors || bad 'settings of some are not resumed'
[ ! -s err ] || bad 'settings that are the same are told'
# Others than the checkpoint was trained with are told once, those of its own and those of the command line.
warns() { # TEXT LIBRARY OPTION...
    told=$1 library=$2
    shift 2
    rm -rf again.ck && cp -r part.ck again.ck
    run redco-exec zero3.json --pipeline "$library" --data "$data/digits-train.jsonl" --checkpoint again.ck --resume --steps 5 "$@"
    [ "$(wc -l <err)" -eq 1 ] && grep -q "warning: goes on from again.ck/step-0000000004 with other settings than it was trained with: $told\$" err ||
        bad "other settings are not told: $told"
}
compile_digits other 'redco_user_pipeline_betas(shape, "out.", 0.0, 0.8); redco_user_pipeline_epsilon(shape, "out.bias", 1e-3); redco_user_pipeline_rate(shape, "hidden.weight", 0.5);'
warns 'rate of hidden.weight 0.5 (was not given), epsilon of out.weight not given (was 0.001), weight decay of out.weight not given (was 0.3)' other.so
warns '--beta2 0.9 (was 0.95), --schedule cosine (was constant)' part.so \
    --schedule cosine --beta2 0.9
rm -rf again.ck && cp -r part.ck again.ck
run redco-exec zero3.json --pipeline other.so --data "$data/digits-train.jsonl" --checkpoint again.ck --resume --steps 5 --quiet --log again.log
[ ! -s err ] && grep -q 'with other settings than it was trained with: rate of hidden.weight' again.log/run.log || bad 'no word in the log'
of_digits zero3 part.so --steps 3 --optimizer sgd --weight-decay 0 --learning-rate 0.1 --dtype f64 --check
grep -q 'the same' out || bad "weight decay of some under SGD: not as one rank"

# Settings of a pipeline's optimizer are not those of another one that the command line names.
compile settled "$tests/../executor/pipelines/digits.c" 's/\.predict = logits,/&\n.options = "--beta2 0.9 --learning-rate 0.1 --epsilon=1e-3",/'
of_digits one settled.so --steps 3 --optimizer sgd --save-weights settled
of_digits one "$digits" --steps 3 --optimizer sgd --learning-rate 0.1 --save-weights plain
cmp settled/model.safetensors plain/model.safetensors || bad "options of another optimizer"

# A layer without a bias has the losses of one whose bias is 0, and first weights of 1 / sqrt(in) if nothing is said:
# 16,384 normal numbers, whose deviation is estimated to 0.55 % (one sigma).
compile flat "$tests/../executor/pipelines/digits.c" 's/redco_user_pipeline_linear(shape, "hidden", PIXELS, HIDDEN, 0.18)/redco_user_pipeline_parameter(shape, "hidden.weight", 2, (const uint64_t[]){PIXELS, HIDDEN}, (redco_initial){REDCO_INITIAL_NORMAL, 0.18})/'
pipeline_plan flat flat.so 64 16 --gpus 1
of_digits flat flat.so --steps 1 --json && cp out flat.out
of_digits one "$digits" --steps 1 --json && cp out digits.out
python3 -c 'import json; a, b = (json.load(open(f))["steps"][0]["loss"] for f in ("flat.out", "digits.out")); assert a == b and a > 2, (a, b)' ||
    bad 'a layer without a bias is another'
compile unsaid "$tests/../executor/pipelines/digits.c" 's/HIDDEN, 0.18/HIDDEN, 0/'
of_digits one unsaid.so --steps 0 --save-weights unsaid
python3 - 2>>err <<'PY' || bad 'first weights of a layer are not of 1 / sqrt(in)'
import array, json, struct
raw = open("unsaid/model.safetensors", "rb").read()
length = struct.unpack("<Q", raw[:8])[0]
at = json.loads(raw[8:8 + length])["hidden.weight"]["data_offsets"]
w = array.array("f", raw[8 + length + at[0]:8 + length + at[1]])
deviation = (sum(x * x for x in w) / len(w)) ** 0.5
assert len(w) == 64 * 256 and abs(deviation * 8 - 1) < 0.03, (len(w), deviation)
PY

# Dates: some steps against one rank; with "full" until they are read, on one rank and on four.
dates=$pipelines/dates.so
python3 "$data/make_dates.py" . 4000 || bad 'no dates'
pipeline_plan dates_one "$dates" 64 16 --gpus 1
pipeline_plan dates_zero3 "$dates" 64 16 --gpus 4 --strategy zero3
pipeline_plan dates_amsp "$dates" 64 8 --gpus 8 --fix p=2x1,g=2x2,os=4x2
for name in dates_zero3 dates_amsp; do
    run redco-exec $name.json --pipeline "$dates" --data dates-train.jsonl --steps 2 --dtype f64 --check --quiet
    grep -q 'the same' out || bad "$name: not as one rank"
done
for name in dates_one dates_zero3; do
    [ "$size" = full ] || continue
    run redco-exec $name.json --pipeline "$dates" --data dates-train.jsonl --steps 600 --learning-rate 0.002 --schedule cosine \
        --warmup 50 --evaluate dates-test.jsonl --json
    python3 -c 'import json; e = json.load(open("out"))["evaluation"]; assert e["metric"] >= 0.99, e' || bad "$name: not read"
done

finish
