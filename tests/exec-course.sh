#!/bin/sh
# tests/exec-course.sh TOOLS PIPELINES CC [few|full]: the course of a run. Epochs and evaluations come where they should, and change
# nothing; losses of ignored and padded targets are those by hand, on any ranks; the best checkpoint stays; a run that
# was broken off inside of an epoch goes on to the same bits; arrays are the same data as JSON lines; logs say what the run
# says, and TensorBoard reads them; a terminal has a line of progress, a pipe has none.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015,SC2086,SC2012
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
pipelines=$(cd "$2" && pwd) || exit 2
compiler=$3 size=${4:-full}
cd "$scratch" || exit 2
said() { # EXPRESSION: of the document in out
    python3 -c "import json; d = json.load(open('out')); assert $1, $2" || bad "$1"
}

# Epochs of 90 examples in batches of 16: the last batch of an epoch reaches into the next one.
digits=$pipelines/digits.so data=$tests/../executor/pipelines/data
head -n 90 "$data/digits-train.jsonl" >train.jsonl
head -n 37 "$data/digits-test.jsonl" >test.jsonl
pipeline_plan one "$digits" 16 4 --gpus 1
pipeline_plan zero3 "$digits" 16 4 --gpus 4 --strategy zero3
train="--pipeline $digits --data train.jsonl --dtype f64"
run redco-exec zero3.json $train --epochs 3 --evaluate test.jsonl --checkpoint ck --keep 1 --keep-best metric --log log --json --learning-rate 0.03
cp out epochs.json
said 'len(d["steps"]) == 17 and [e["step"] for e in d["evaluations"]] == [6, 12, 17]' 'd["evaluations"]'
said 'd["epoch_examples"] == 90 and abs(d["evaluations"][0]["epoch"] - 96 / 90) < 1e-15' 'd'
python3 - <<'PY' || bad 'best checkpoint'
import json, os
d = json.load(open("epochs.json"))
best = max(d["evaluations"], key=lambda e: (e["metric"], -e["step"]))
kept = sorted(os.listdir("ck"))
assert d["checkpoint"]["best"] == {"by": "metric", "step": best["step"], "value": best["metric"]}, d["checkpoint"]
assert kept == sorted({"step-%010d" % best["step"], "step-%010d" % 17}), kept
PY
# Evaluations between steps change no bit, and batches, ranks and what is left over no loss.
for name in one zero3; do
    run redco-exec $name.json $train --steps 17 --learning-rate 0.03 --save-weights $name.w --quiet
done
run redco-exec zero3.json $train --steps 17 --evaluate test.jsonl --evaluate-every 4 --learning-rate 0.03 --save-weights evaluated.w --json
said '[e["step"] for e in d["evaluations"]] == [4, 8, 12, 16, 17]' 'd["evaluations"]'
cmp zero3.w/model.safetensors evaluated.w/model.safetensors || bad 'an evaluation changes what is learned'
batches='1 5 37 64'
[ "$size" = full ] || batches=5
for batch in $batches; do
    run redco-exec one.json --pipeline "$digits" --dtype f64 --steps 0 --weights zero3.w --evaluate test.jsonl --batch $batch --json
    cp out batch$batch.json
done
run redco-exec zero3.json --pipeline "$digits" --dtype f64 --steps 0 --weights zero3.w --evaluate test.jsonl --json
python3 - <<'PY' || bad 'evaluations of other batches are others'
import json
import glob
e = [json.load(open(f))["evaluation"] for f in ["out"] + glob.glob("batch*.json")]
assert all(abs(x["loss"] / e[0]["loss"] - 1) < 1e-13 and x["metric"] == e[0]["metric"] and x["examples"] == 37 for x in e), e
PY

# Broken off inside of an epoch, under a schedule, with evaluations: the same bits as without.
course="$train --epochs 3 --schedule cosine --warmup 3 --evaluate test.jsonl --evaluate-every 5 --keep-best loss --checkpoint-every 4 --keep 9"
run redco-exec zero3.json $course --checkpoint whole --log whole.log --save-weights whole.w --quiet
cp -r whole broken && cp -r whole.log broken.log
rm -rf broken/step-0000000012 broken/step-0000000015 broken/step-0000000016 broken/step-0000000017 broken/step-0000000010
printf '{"step": 18, "lo' >>broken.log/metrics.jsonl
run redco-exec zero3.json $course --checkpoint broken --log broken.log --resume --save-weights resumed.w --quiet
cmp whole.w/model.safetensors resumed.w/model.safetensors || bad 'resumed: other weights'
python3 - <<'PY' || bad 'resumed: another log'
import json
times = ("time_s", "exposed_comm_s", "tokens_per_s", "mfu", "wall_time_s")
def lines(name):
    for d in map(json.loads, open(name)):
        for key in times:
            d.pop(key, None)
        d.get("evaluation", {}).pop("time_s", None)
        yield d
a, b = (list(lines(f + ".log/metrics.jsonl")) for f in ("whole", "broken"))
assert a == b and len(a) == 17 + 4, (len(a), len(b))
PY
for checkpoint in whole/step-0000000017 broken/step-0000000017; do
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["content"]["best"])' $checkpoint/checkpoint.json
done >best.txt
[ "$(sort -u best.txt | wc -l)" -eq 1 ] || bad "resumed: another best: $(cat best.txt)"

# Logs.
for folder in log whole.log broken.log; do
    python3 "$tests/training/events.py" $folder $folder/metrics.jsonl >told 2>&1 || { cat told && bad "$folder: events"; }
    for python in ${REDCO_TENSORBOARD_PYTHON:-}; do
        "$python" "$tests/training/events.py" $folder $folder/metrics.jsonl >told 2>&1 && grep -q 'reads the same' told || { cat told && bad "$folder: TensorBoard"; }
    done
done
python3 - <<'PY' || bad 'the log is not the run'
import json
run = json.load(open("epochs.json"))
lines = [json.loads(line) for line in open("log/metrics.jsonl")]
steps = [l for l in lines if "evaluation" not in l]
assert [[s[k] for k in ("loss", "gradient_norm", "learning_rate", "time_s")] for s in steps] == \
       [[s[k] for k in ("loss", "gradient_norm", "learning_rate", "time_s")] for s in run["steps"]]
assert all(s["clip_factor"] == min(1.0, 1.0 / (s["gradient_norm"] + 1e-6)) for s in steps) and any(s["clip_factor"] < 1 for s in steps)
assert [s["step"] for s in steps] == list(range(1, 18)) and all(abs(s["epoch"] - 16 * s["step"] / 90) < 1e-15 for s in steps)
assert [(l["step"], l["evaluation"]["loss"]) for l in lines if "evaluation" in l] == [(e["step"], e["loss"]) for e in run["evaluations"]]
assert all(s["tokens_per_s"] == 16 / s["time_s"] for s in steps)
PY
# Pairs of each evaluation: the examples in order, and predictions that have its metric.
python3 - <<'PY' || bad 'pairs of evaluations'
import json
for e in json.load(open("epochs.json"))["evaluations"]:
    pairs = [json.loads(line) for line in open("log/evaluation-%010d.jsonl" % e["step"])]
    assert [p["example"] for p in pairs] == [json.loads(line) for line in open("test.jsonl")]
    assert abs(sum(p["prediction"] == p["example"]["digit"] for p in pairs) / 37 - e["metric"]) < 1e-12
PY
grep -q 'step 17  loss ' log/run.log && grep -q ' done$' log/run.log || bad 'run.log'
if [ -x /usr/bin/jsonschema ]; then
    n=0
    while read -r line; do n=$((n + 1)) && echo "$line" >line$n.json; done <whole.log/metrics.jsonl
    set --
    for file in line*.json; do set -- "$@" -i $file; done
    /usr/bin/jsonschema "$@" "$tests/../executor/log/metrics.schema.json" >told 2>&1 || { cat told && bad 'schema of metrics'; }
    /usr/bin/jsonschema -i epochs.json "$tests/../executor/run.schema.json" >told 2>&1 || { cat told && bad 'schema of a run'; }
    /usr/bin/jsonschema -i whole/step-0000000017/checkpoint.json "$tests/../executor/checkpoint/checkpoint.schema.json" >told 2>&1 ||
        { cat told && bad 'schema of a checkpoint'; }
fi

# Ignored targets and padding, weighed over ranks and micro-batches: by hand.
compile bigrams "$tests/training/bigrams.c" ''
python3 - >bigrams.jsonl <<'PY'
import json
for i in range(13):
    n = 1 + (5 * i) % 8
    tokens = [(3 * i + k * k) % 5 for k in range(n)]
    targets = [-100 if (i + k) % 3 == 0 and not (i == 0 and k == 0) and n > 1 else (2 * i + k) % 5 for k in range(n)]
    print(json.dumps({"tokens": tokens, "targets": targets}))
PY
for plan in 'b1 8 4 --gpus 1' 'b2 8 1 --gpus 2' 'b3 8 2 --gpus 4 --strategy zero3'; do
    set -- $plan
    name=$1
    [ "$size" = full ] || [ $name != b2 ] || continue
    shift
    pipeline_plan $name ./bigrams.so "$@"
    [ -e b.w ] || run redco-exec $name.json --pipeline ./bigrams.so --steps 0 --save-weights b.w
    run redco-exec $name.json --pipeline ./bigrams.so --data bigrams.jsonl --order file --dtype f64 --weights b.w --steps 1 --json
    python3 "$tests/training/bigrams.py" first b.w/model.safetensors bigrams.jsonl out 8 || bad "$name: first step"
    for batch in 4 1; do
        [ "$size" = full ] || [ $batch -eq 4 ] || continue
        run redco-exec $name.json --pipeline ./bigrams.so --dtype f64 --weights b.w --steps 0 --evaluate bigrams.jsonl --batch $batch --json
        python3 "$tests/training/bigrams.py" evaluation b.w/model.safetensors bigrams.jsonl out || bad "$name: evaluation"
    done
    run redco-exec $name.json --pipeline ./bigrams.so --data bigrams.jsonl --dtype f64 --steps 3 --check --quiet && grep -q 'the same' out || bad "$name: check"
done
# The same of language models: a step's loss is that of an evaluation of its examples.
python3 - >lm.jsonl <<'PY'
import json
for i in range(10):
    n = 2 + (7 * i) % 11
    tokens = [(11 * i + 5 * k) % 59 + 1 for k in range(n)]
    print(json.dumps({"tokens": tokens, "targets": [-100 if (i + k) % 4 == 0 else (i + 3 * k) % 60 for k in range(n)]}))
PY
head -n 8 lm.jsonl >lm8.jsonl
for model in llama t5; do
    for options in '--gpus 4 --tp 2 --micro-batch 1 --strategy zero3' '--gpus 1 --micro-batch 4' '--gpus 2 --micro-batch 2'; do
        [ "$size" = full ] || [ "$model ${options%% --m*}" = 't5 --gpus 4 --tp 2' ] || continue
        redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/$model.json" --seq 12 \
            --global-batch 8 --precision fp32 $options -o lm.json >out 2>err || bad "plan $model $options"
        run redco-exec lm.json --data lm.jsonl --order file --dtype f64 --steps 1 --json && cp out step.json
        run redco-exec lm.json --evaluate lm8.jsonl --dtype f64 --steps 0 --json
        python3 - <<'PY' || bad "$model $options: a step's loss is not that of its targets"
import json
a, b = json.load(open("step.json")), json.load(open("out"))
assert abs(a["steps"][0]["loss"] / b["evaluation"]["loss"] - 1) < 1e-12, (a["steps"], b["evaluation"])
PY
        run redco-exec lm.json --data lm.jsonl --dtype f64 --steps 2 --check --quiet && grep -q 'the same' out || bad "$model $options: check"
    done
done

# Arrays are the same data; so are rows of ids.
python3 - <<'PY'
import json, os, struct
def save(name, descr, shape, raw, order="False"):
    head = ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + raw)
lines = [{"x": ((7 * i) % 11 - 5) / 8, "y": ((3 * i) % 7) / 4} for i in range(20)]
open("points.jsonl", "w").writelines(json.dumps(l) + "\n" for l in lines)
os.mkdir("points"); save("points/x.npy", "<f4", "(20,)", struct.pack("<20f", *(l["x"] for l in lines)))
save("points/y.npy", "<f8", "(20,)", struct.pack("<20d", *(l["y"] for l in lines)))
lines = [{"tokens": [(i + k * k) % 5 for k in range(8)], "targets": [(2 * i + k) % 6 - 1 for k in range(8)]} for i in range(12)]
open("pairs.jsonl", "w").writelines(json.dumps(l) + "\n" for l in lines)
os.mkdir("pairs"); save("pairs/tokens.npy", "|u1", "(12, 8)", bytes(t for l in lines for t in l["tokens"]))
save("pairs/targets.npy", "<i2", "(12, 8)", struct.pack("<96h", *(t for l in lines for t in l["targets"])))
os.mkdir("texts"); save("texts/tokens.npy", "<i8", "(12, 8)", struct.pack("<96q", *(t for l in lines for t in l["tokens"])))
open("texts.jsonl", "w").writelines(json.dumps({"tokens": l["tokens"]}) + "\n" for l in lines)
ids = [(7 * i * i + 3 * i) % 60 for i in range(12 * 9 + 1)]
open("ids.bin", "wb").write(struct.pack("<%dH" % len(ids), *ids))
save("ids.npy", "<i4", "(%d,)" % len(ids), struct.pack("<%di" % len(ids), *ids))
windows = [ids[12 * w : 12 * w + 13] for w in range(9)]
save("rows.npy", "<u2", "(9, 13)", b"".join(struct.pack("<13H", *w) for w in windows))
os.mkdir("turned"); save("turned/pixels.npy", "<f8", (2, 64), bytes(1024), "True")
os.mkdir("complex"); save("complex/pixels.npy", "<c8", (2,), bytes(16))
os.mkdir("short"); save("short/pixels.npy", "<f4", (100, 64), bytes(100))
os.mkdir("uneven"); save("uneven/pixels.npy", "<f4", (3,), bytes(12)); save("uneven/digit.npy", "<f4", (4,), bytes(16))
os.mkdir("nan"); save("nan/pixels.npy", "<f4", (1, 64), struct.pack("<f", float("nan")) * 64); save("nan/digit.npy", "|u1", (1,), b"\0")
save("wide.npy", "<u2", (9, 14), bytes(2 * 9 * 14))
save("large.npy", "<u4", (26,), struct.pack("<26I", *range(4000000000, 4000000026)))
open("torn.npy", "wb").write(b"\x93NUMPY\x01\x00\xff\xff{   ")
PY
redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --seq 12 \
    --global-batch 4 --precision fp32 --gpus 2 -o ids.json >out 2>err || bad 'plan of ids'
run redco-exec --new-pipeline first
compile first first/first.c ''
pipeline_plan points first.so 6 3 --gpus 2
same='import json, sys; a, b = (json.load(open(f)) for f in sys.argv[1:3]); assert [s["loss"] for s in a["steps"]] == [s["loss"] for s in b["steps"]] and len(a["steps"]) > 1'
for data in 'points points --pipeline first.so' 'b3 pairs --pipeline ./bigrams.so' 'ids texts'; do
    set -- $data
    plan=$1 name=$2
    [ "$size" = full ] || [ "$name" = pairs ] || continue
    shift 2
    for kind in '' .jsonl; do
        run redco-exec $plan.json "$@" --data $name$kind --steps 6 --evaluate $name$kind --json && cp out of.$name$kind.json
    done
    python3 -c "$same; assert a['evaluation']['loss'] == b['evaluation']['loss']" of.$name.json of.$name.jsonl.json || bad "$name: arrays are not their lines"
done
if [ "$size" = full ]; then
for file in ids.bin ids.npy rows.npy; do
    run redco-exec ids.json --data $file --steps 4 --evaluate $file --json && cp out $file.json
done
python3 -c "$same" ids.bin.json ids.npy.json && python3 -c "$same" ids.bin.json rows.npy.json || bad 'ids in arrays are others'
python3 -c 'import json; e = [json.load(open(f + ".json"))["evaluation"] for f in ("ids.bin", "ids.npy", "rows.npy")]; assert e[0]["loss"] == e[1]["loss"] == e[2]["loss"] and e[2]["targets"] == 108, e' ||
    bad 'evaluations of arrays are others'
# In the order of the file: the first step is an evaluation of the first examples, in every epoch the same.
head -n 16 train.jsonl >first.jsonl
run redco-exec zero3.json --pipeline "$digits" --data train.jsonl --order file --dtype f64 --steps 1 --json && cp out file.json
run redco-exec zero3.json --pipeline "$digits" --dtype f64 --steps 0 --evaluate first.jsonl --json
python3 -c 'import json; a, b = json.load(open("file.json")), json.load(open("out")); assert abs(a["steps"][0]["loss"] / b["evaluation"]["loss"] - 1) < 1e-12' ||
    bad 'the order is not that of the file'
fi

# Dropout: its numbers are of seed and example, not of ranks; evaluation has none.
compile drops first/first.c 's/const redco_value x = redco_scope_weight(scope, "x")/const redco_value whole = redco_scope_weight(scope, "x"), x = scope->training ? redco_dropout(g, whole, 0.5, scope->key, 1, NULL) : whole/; s/"first"/"drops"/'
drops="drops.json --pipeline ./drops.so --data points.jsonl --dtype f64 --epochs 5 --evaluate points.jsonl --json"
if [ "$size" = full ]; then
for ranks in 1 2 4; do
    pipeline_plan drops ./drops.so 12 3 --gpus $ranks --strategy "$([ $ranks -eq 4 ] && echo zero3 || echo ddp)"
    run redco-exec $drops && cp out drops.$ranks.out
done
run redco-exec $drops --seed 2 && cp out drops.seed.out
python3 - <<'PY' || bad 'dropout depends on ranks'
import json
one, two, four, other = (json.load(open(f"drops.{n}.out")) for n in (1, 2, 4, "seed"))
for run in (two, four):
    assert all(abs(a["loss"] / b["loss"] - 1) < 1e-12 for a, b in zip(one["steps"] + [one["evaluation"]], run["steps"] + [run["evaluation"]]))
assert len(one["steps"]) == 9 and one["steps"][0]["loss"] != other["steps"][0]["loss"]
PY
fi

# A line on a terminal, and nothing in a pipe.
python3 - redco-exec zero3.json $train --steps 20 <<'PY' || bad 'progress'
import os, pty, re, subprocess, sys
def run(pipe_out):
    pid, fd = pty.fork() if not pipe_out else (None, None)
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    if not pipe_out:
        text = b""
        while True:
            try:
                more = os.read(fd, 65536)
            except OSError:
                break
            if not more:
                break
            text += more
        os.waitpid(pid, 0)
        return text.decode(), ""
    lead, follow = pty.openpty()
    p = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=follow)
    os.close(follow)
    text = b""
    try:
        while True:
            text += os.read(lead, 65536)
    except OSError:
        pass
    return p.stdout.decode(), text.decode()
both, _ = run(False)
bars = re.findall(r"\r\[([# ]{20})\] (\d+)/20  loss [0-9.e+-]+  [0-9.e+]+ tokens/s  MFU [0-9.e-]+  \d+:\d\d:\d\d left", both)
assert [int(n) for _, n in bars] == list(range(1, 21)) and bars[9][0].count("#") == 10 and "step " not in both.split("median")[0], both
out, err = run(True)
assert out.count("\nstep ") == 20 and "\r[" not in out and err.count(" left") == 20, (out, err)
p = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
assert p.stderr == b"" and b"\r" not in p.stdout
PY

# An evaluation that fails: among the first examples before any step, later with what was trained saved.
compile judged first/first.c 's/^const redco_user_pipeline redco/static double judge(const json_t *example, const json_t *prediction)\n{\n    (void)prediction;\n    return 0.0 \/ json_number_value(json_object_get(example, "x"));\n}\n\n&/; s/\.predict = line/.predict = line, .metric = judge/'
yes '{"x": 1, "y": 1}' | head -n 7 >late.jsonl
echo '{"x": 0, "y": 1}' | cat - late.jsonl >early.jsonl && echo '{"x": 0, "y": 1}' >>late.jsonl
pipeline_plan judged ./judged.so 6 3 --gpus 2
refuse 1 'early.jsonl: the metric is not a finite number' redco-exec judged.json --pipeline ./judged.so --data late.jsonl --evaluate early.jsonl --steps 3 --checkpoint early.ck
redco-exec judged.json --pipeline ./judged.so --data late.jsonl --evaluate late.jsonl --steps 3 --checkpoint late.ck >out 2>err
[ $? -eq 1 ] && grep -q 'late.jsonl: the metric is not a finite number' err && [ -e late.ck/step-0000000003/checkpoint.json ] ||
    bad 'an evaluation that fails behind the last step'

# Bad input.
refuse 2 '--epochs: and --steps' redco-exec one.json $train --epochs 2 --steps 3
refuse 2 '--epochs: needs --data' redco-exec ids.json --epochs 2
refuse 2 '--epochs: 1000000 epochs of 9 examples are 2250000 steps; 1000000 are possible' redco-exec ids.json --epochs 1000000 --data ids.bin
refuse 2 '--evaluate-every: needs' redco-exec one.json $train --evaluate-every 2
refuse 2 '--keep-best: needs' redco-exec one.json $train --keep-best loss --evaluate test.jsonl
refuse 2 '--keep-best: language models' redco-exec ids.json --keep-best metric --evaluate ids.bin --checkpoint new
refuse 2 'has no .metric' redco-exec b1.json --pipeline ./bigrams.so --data bigrams.jsonl --evaluate bigrams.jsonl --checkpoint new --keep-best metric
refuse 2 'log/metrics.jsonl: is there already' redco-exec zero3.json $train --log log
refuse 2 'cannot make the folder' redco-exec zero3.json $train --log no/where
printf 'x\n' >whole.log/metrics.jsonl
refuse 2 'metrics.jsonl:1: is no line of metrics' redco-exec zero3.json $course --checkpoint whole --log whole.log --resume
[ "$(cat whole.log/metrics.jsonl)" = x ] || bad 'what was no log is gone'
refuse 2 "are shuffled (--order shuffled); here they are in the order" redco-exec zero3.json $course --order file --checkpoint whole --resume
refuse 2 'turned/pixels.npy: is in Fortran' redco-exec one.json --pipeline "$digits" --data turned
refuse 2 'complex/pixels.npy: has elements of type <c8' redco-exec one.json --pipeline "$digits" --data complex
refuse 2 'short/pixels.npy: has 100 bytes of elements; its shape needs 25600' redco-exec one.json --pipeline "$digits" --data short
refuse 2 'uneven: pixels.npy has 3 rows, digit.npy 4' redco-exec one.json --pipeline "$digits" --data uneven
refuse 2 'nan, row 0: pixels.npy has what is no number' redco-exec one.json --pipeline "$digits" --data nan
mkdir empty
refuse 2 'empty: has no KEY.npy' redco-exec one.json --pipeline "$digits" --data empty
refuse 2 'wide.npy: has rows of 14 ids; sequences of 12' redco-exec ids.json --data wide.npy
refuse 2 'large.npy: id [0-9]* is 40000000' redco-exec ids.json --data large.npy
refuse 2 'torn.npy: has a header of 65535 bytes' redco-exec ids.json --data torn.npy
printf '{"tokens": [1, 2, 3]}\n{"tokens": [1, "x"]}\n' >bad.jsonl
refuse 2 'bad.jsonl:2: "tokens" item 2' redco-exec ids.json --data bad.jsonl
run redco-exec ids.json --data bad.jsonl --skip-bad --steps 1 && grep -q 'warning: bad.jsonl: 1 bad lines are left out' err || bad 'skip-bad of a language model'
# A log that cannot be written ends no run: its results are there, and what failed is told behind them.
(ulimit -f 4 && { redco-exec one.json $train --steps 40 --log full 2>err || echo "exit $?"; }) | cat >out
[ "$(tail -n 1 out)" = 'exit 3' ] && [ "$(grep -c '^step' out)" -eq 40 ] && [ "$(wc -l <err)" -eq 1 ] &&
    grep -q 'full/[^ ]*: cannot write: File too large$' err || bad 'a log on a full disk'
python3 -c 'import json; [json.loads(line) for line in open("full/metrics.jsonl")]' || bad 'a line of metrics is torn'
finish
