#!/bin/sh
# pipelines.sh TOOLS_DIR PIPELINES_DIR [REPEATS] [SECONDS]: predicted against measured step times of the example pipelines that
# have data or make it up, and of the one that redco-exec --new-pipeline writes, on one rank and on two of this machine. Plans are priced by
# what redco-profile measured here in SECONDS (60 by default) on as many ranks, which looks at no step. Profiles and runs take
# turns REPEATS times (3 by default), so that other programs disturb both; of operators, and of the steps behind a run's first,
# an eighth is faster than what counts, and of all turns the fastest does. It is no test, as times depend on the machine.
set -eu
PATH=$(cd "$1" && pwd):$PATH
pipelines=$(cd "$2" && pwd)
repeats=${3:-3} seconds=${4:-60}
root=$(cd "$(dirname "$0")/../.." && pwd)
data=$root/executor/pipelines/data
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
python3 "$data/make_dates.py" . 2000
python3 "$data/make_friedman.py" .
python3 "$data/make_preferences.py" .
seq 1 20000 | sed 's/.*/{"task": &}/' >sines.jsonl
redco-exec --new-pipeline first >/dev/null
cc -O2 -shared -fPIC -I "$root" -o first/first.so first/first.c
cat >table <<LIST
first $PWD/first/first.so first/train.jsonl
regression $pipelines/regression.so friedman-train.jsonl
digits $pipelines/digits.so $data/digits-train.jsonl
distillation $pipelines/distillation.so $data/digits-train.jsonl
lora $pipelines/lora.so $data/digits-train.jsonl
dp_sgd $pipelines/dp_sgd.so $data/digits-train.jsonl
vae $pipelines/vae.so $data/digits-train.jsonl
maml $pipelines/maml.so sines.jsonl
dates $pipelines/dates.so dates-train.jsonl
byte_model $pipelines/byte_model.so $data/alice-train.jsonl
dpo $pipelines/dpo.so preferences-train.jsonl
LIST
python3 - "$repeats" "$seconds" <<'PY'
import json, subprocess, sys
repeats, seconds = int(sys.argv[1]), sys.argv[2]
pipelines = [line.split() for line in open("table")]
kinds = {"1 rank": ["--gpus", "1"], "ddp of 2": ["--gpus", "2", "--tp", "1", "--strategy", "ddp"],
         "zero3 of 2": ["--gpus", "2", "--tp", "1", "--strategy", "zero3"], "tp 2": ["--gpus", "2", "--tp", "2"]}
def tool(*command):
    return subprocess.run(command, capture_output=True, text=True)
def plan(library, options):
    done = tool("redco-plan", "--quiet", "--pipeline", library, "--micro-batch", "16", "--global-batch", "64", "--precision",
                "fp32", "--cluster", "cluster.json", "-o", "plan.json", *options,
                *(word for turn in range(turns) for word in ("--profile", f"profile.{options[1]}.{turn}.json")))
    return json.load(open("plan.json"))["predicted"]["step_s"] if done.returncode == 0 else None
def low(values):
    return sorted(values)[len(values) // 8]
rows, turns = {}, 0
while turns < repeats:
    for ranks in "1", "2":
        command = ["redco-profile", "--quiet", "--ranks", ranks, "--micro-batch", "16", "--seconds", seconds,
                   "-o", f"profile.{ranks}.{turns}.json", "--cluster", "cluster.json"]  # that of 2 ranks stays
        for name, library, examples in pipelines:
            command += ["--pipeline", library, "--data", examples]
        subprocess.run(command, check=True)
    turns += 1
    for name, library, examples in pipelines:
        for kind, options in kinds.items():
            guess = plan(library, options)
            if guess is None:
                continue  # nothing of it is split
            steps = str(max(9, min(400, int(3 / guess))))
            done = tool("redco-exec", "plan.json", "--pipeline", library, "--data", examples, "--steps", steps, "--json", "--quiet")
            assert done.returncode == 0, done.stderr
            run = json.loads(done.stdout)
            seen = low([step["time_s"] for step in run["steps"][1:]]), run["measured"]["step_s"]
            before = rows.get((name, kind), seen)
            rows[name, kind] = tuple(map(min, seen, before))
errors = []
print(f"{'pipeline':13} {'plan':11} predicted ms  measured ms  (median ms)  difference")
for (name, kind), (fast, median) in rows.items():
    library = next(path for other, path, _ in pipelines if other == name)
    predicted = plan(library, kinds[kind])
    errors.append(abs(predicted / fast - 1))
    print(f"{name:13} {kind:11} {1e3 * predicted:12.3f} {1e3 * fast:12.3f} {1e3 * median:12.3f} {100 * (predicted / fast - 1):+10.1f} %")
errors.sort()
middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
print(f"{len(errors)} rows: median {100 * middle:.1f} %, worst {100 * errors[-1]:.1f} %, within 10 %: {sum(e <= 0.1 for e in errors)}")
PY
