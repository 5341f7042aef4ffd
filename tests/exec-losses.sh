#!/bin/sh
# tests/exec-losses.sh TOOLS PIPELINES CC: four losses of the literature as pipelines of strangers (tests/data/pipelines):
# GRPO, CLIP, diffusion, a mixture's balance loss. They learn, on any plan the same where they are means over examples.
# shellcheck disable=SC2015
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
compiler=$3
cd "$scratch" || exit 2
pipelines=$scratch
for name in grpo clip diffusion balance; do compile "$name" "$tests/data/pipelines/$name.c" ''; done
python3 - <<'END'
import json, math, random
random.seed(1)
with open("points.jsonl", "w") as file:
    for n in range(256):
        print(json.dumps({"x": math.cos(n) + 0.01 * random.gauss(0, 1), "y": math.sin(n)}), file=file)
with open("nowhere.jsonl", "w") as file:
    for n in range(40):
        print("{}", file=file)
with open("pairs.jsonl", "w") as file:
    for n in range(64):
        print(json.dumps({"n": n}), file=file)
with open("line.jsonl", "w") as file:
    for n in range(64):
        x = random.uniform(-1, 1)
        print(json.dumps({"x": x, "y": abs(x)}), file=file)
END
# is EXPRESSION [FILE...]: of the numbers in files.
is() {
    python3 -c "import json, sys
def documents(text):
    read, at, found = json.JSONDecoder(), 0, []
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        one, at = read.raw_decode(text, at)
        found.append(one)
    return found
lines = [documents(open(f).read()) for f in sys.argv[2:]]
sys.exit(0 if eval(sys.argv[1]) else 1)" "$@"
}

# GRPO: a policy that is a language model predicts under collect(), and learns what its answers are worth.
example_plans grpo 32 8 one tp
same_losses grpo 4 'one tp'
run redco-exec grpo_one.json --pipeline grpo.so --steps 60 --json
is 'lines[0][0]["reported"]["worth"] > 0.8' out || bad 'grpo: the policy does not learn'

compile keyed "$tests/data/pipelines/grpo.c" 's/"n_positions/"softcap\\": 30, \\"n_positions/'
refuse 2 'keyed.so: model "policy.": its config has keys that redco does not know: "softcap": 30' \
    redco-plan --pipeline keyed.so --gpus 1

# CLIP: the micro-batch is a part of the loss, which is the same on plans that have the same one.
example_plans clip 32 16 one tp
same_losses clip 4 'one tp' --data pairs.jsonl
run redco-exec clip_one.json --pipeline clip.so --data pairs.jsonl --steps 150 --evaluate pairs.jsonl --batch 16 --json
is 'lines[0][0]["evaluation"]["loss"] < 0.5' out || bad 'clip: the pairs are not found'

# Diffusion: samples differ, and depend on the example's number alone.
example_plans diffusion 64 16 one tp zero3
same_losses diffusion 4 'one tp zero3' --data points.jsonl
run redco-exec diffusion_one.json --pipeline diffusion.so --data points.jsonl --steps 400 --save-weights weights
run redco-exec diffusion_one.json --pipeline diffusion.so --weights weights --predict nowhere.jsonl --batch 16
mv out wide
is 'len({str(x["prediction"]) for x in lines[0]}) == 40' wide || bad 'diffusion: samples are alike'
is 'sum(abs(sum(v * v for v in x["prediction"]) - 1) < 0.3 for x in lines[0]) > 30' wide ||
    bad 'diffusion: samples are not of the circle'
for how in 'one --batch 1' 'one --batch 7' 'tp --batch 16' 'zero3 --batch 3'; do
    # shellcheck disable=SC2086
    run redco-exec diffusion_${how%% *}.json --pipeline diffusion.so --weights weights --predict nowhere.jsonl ${how#* }
    is 'all(abs(a - b) < 1e-4 for x, y in zip(*lines) for a, b in zip(x["prediction"], y["prediction"]))' wide out ||
        bad "diffusion: $how samples otherwise"
done
# A product of two means over the micro-batch, and negatives in it: said at the start, by numbers. What is a mean is not.
example_plans balance 32 8 one
warned() { # NAME DATA: its last run
    run redco-exec "$1_one.json" --pipeline "$1.so" --data "$2" --steps 3
    grep -q "warning: the loss of $1 is no mean over examples: of 8 it is .*, the mean of both halves " err
}
warned balance line.jsonl || bad 'balance: no warning'
warned clip pairs.jsonl || bad 'clip: no warning'
warned diffusion points.jsonl && bad 'diffusion: a warning'
finish
