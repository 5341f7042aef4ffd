#!/bin/sh
# tests/exec-algorithms.sh TOOLS PIPELINES CC [few|full]: example pipelines that train in ways of their own. Each has the
# losses of one rank under tp 2 with ZeRO-3 of two; with "full" under tp 2, ZeRO-3 of four and an AMSP plan of 2 x 2, too
# (f64: 1e-10). Each goes on behind a checkpoint to the same bits, and, with "full", reaches its figure on one rank and on
# four.
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
pipelines=$(cd "$2" && pwd) || exit 2
compiler=$3
size=${4:-few}
cd "$scratch" || exit 2
data=$tests/../executor/pipelines/data
train() { # PLAN NAME OPTION...
    under=$1 example=$2
    shift 2
    run redco-exec "${example}_$under.json" --pipeline "$pipelines/$example.so" "$@"
}
alike() { # NAME GLOBAL MICRO STEPS OPTION...
    name=$1 steps=$4
    plans=tp_zero3
    [ "$name" != ddpg ] || plans='tp_zero3 amsp'
    [ "$size" = few ] || plans='tp_zero3 tp zero3 amsp'
    # shellcheck disable=SC2086 # words
    example_plans "$1" "$2" "$3" one $plans
    shift 4
    same_losses "$name" "$steps" "$plans" "$@"
}
# Interrupted behind a step, in the middle of an epoch. $first: options of a beginning alone.
first=
resumed() { # NAME STEPS BREAK OPTION...
    name=$1 steps=$2 break=$3
    shift 3
    rm -rf whole resumed ck
    # shellcheck disable=SC2086 # words
    {
        train tp_zero3 "$name" --quiet --steps "$steps" --save-weights whole $first "$@"
        train tp_zero3 "$name" --quiet --steps "$break" --checkpoint ck $first "$@"
        train tp_zero3 "$name" --quiet --steps "$steps" --checkpoint ck --resume --save-weights resumed "$@"
    }
    cmp whole/model.safetensors resumed/model.safetensors >>err || bad "$name: resumed to other weights"
}
# said EXPRESSION: of the evaluation e and of what the pipeline reports, r. The accountant is Mironov, Talwar, Zhang, arXiv
# 1908.10530, in exact binomials: noise 2, 128 of 1,408 examples, delta 1e-4.
said() {
    python3 - "$1" 2>>err <<'PY' || bad "$example $under: $1 does not hold"
import json, sys
from math import comb, exp, log
def accountant(steps, q=128 / 1408, noise=2.0):
    moments = lambda a: sum(comb(a, k) * (1 - q) ** (a - k) * q ** k * exp(k * (k - 1) / (2 * noise * noise)) for k in range(a + 1))
    return min((steps * log(moments(a)) - log(1e-4)) / (a - 1) for a in range(2, 40))
run = json.load(open("out"))
e, r = run["evaluation"], run.get("reported")
assert eval(sys.argv[1]), (e, r)
print(e, r)
PY
}

# LoRA: the frozen network is that of the digits, which reads hardly any in a mirror. Only adapters have gradients and
# states: 4,688 of 23,898 parameters, a fourth of them on each rank, 16 or 128 elements of padding each.
digits="--data $data/digits-train.jsonl"
example_plans digits 64 16 one
example_plans lora 64 16 one zero3
# shellcheck disable=SC2086 # words
{
    train one digits $digits --quiet --steps 800 --save-weights base
    train one lora $digits --steps 0 --weights base --evaluate "$data/digits-test.jsonl" --json
    said 'e["metric"] < 0.6'
    alike lora 64 16 4 $digits --weights base
    train zero3 lora $digits --steps 30 --save-weights other --dtype bf16 --save-dtype f32 --weights base --json
    python3 - 2>>err <<'PY' || bad 'lora: memory or frozen weights'
import json, struct
def tensors(folder):
    raw = open(folder + "/model.safetensors", "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + size])
    return {n: raw[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]] for n, v in head.items() if n[0] != "_"}
memory = json.load(open("out"))["measured"]["memory_bytes"]
parameters, gradients, states = memory["parameters"] // 2, memory["gradients"] // 2, memory["optimizer"] // 12
assert 23898 / 4 <= parameters <= 23898 / 4 + 8 * 128, memory
assert 4688 / 4 <= gradients <= 4688 / 4 + 4 * 128 and gradients == states, memory
base, after = tensors("base"), tensors("other")
def bf16(raw):  # rounded to nearest even, back in f32
    words = struct.unpack("<%dI" % (len(raw) // 4), raw)
    return struct.pack("<%dI" % len(words), *((w + 0x7fff + (w >> 16 & 1)) >> 16 << 16 for w in words))
assert all(bf16(base[n]) == after[n] for n in base) and len(after) == len(base) + 4
PY
    for under in one zero3; do
        train $under lora $digits --steps 400 --weights base --evaluate "$data/digits-test.jsonl" --json
        said 'e["metric"] >= 0.95'
        [ "$size" = full ] || break
    done
    if [ "$size" = full ] && python3 -c 'import peft, torch, safetensors' 2>/dev/null; then
        train zero3 lora $digits --quiet --steps 40 --weights base --save-weights adapters --predict "$data/digits-test.jsonl" \
            --predictions predicted.jsonl
        python3 "$tests/lora_peft.py" base adapters predicted.jsonl >>err 2>&1 || bad 'lora: PEFT'
    elif [ "$size" = full ]; then
        echo 'adapters are not loaded in PEFT: Python has no peft, torch and safetensors'
    fi
    first='--weights base'
    resumed lora 8 3 $digits
    first=
}

# Meta-learning: gradients of second order. Numbers of tasks are all that there is to read.
seq 1 20000 | sed 's/.*/{"task": &}/' >sines.jsonl
seq 100001 101000 | sed 's/.*/{"task": &}/' >sines-test.jsonl
sines='--data sines.jsonl'
# Federated averaging: clients have digits of two kinds, as a sorted list is dealt out (McMahan et al., section 3).
python3 - "$data" <<'PY' || bad 'no clients'
import json, random, sys
rows = sorted((json.loads(line) for line in open(sys.argv[1] + "/digits-train.jsonl")), key=lambda row: row["digit"])
parts = [rows[i:i + 10] for i in range(0, 1420, 10)]
random.Random(1).shuffle(parts)
with open("clients.jsonl", "w") as out:
    for i in range(0, len(parts) - 1, 2):
        out.write(json.dumps({"digits": parts[i] + parts[i + 1]}) + "\n")
test = [json.loads(line) for line in open(sys.argv[1] + "/digits-test.jsonl")]
with open("clients-test.jsonl", "w") as out:
    for i in range(0, 340, 20):
        out.write(json.dumps({"digits": test[i:i + 20]}) + "\n")
PY
clients='--data clients.jsonl'
# Differential privacy: a step looks at all 1,408 examples, each of which takes part or not.
head -n 1408 "$data/digits-train.jsonl" >private.jsonl
private='--data private.jsonl'
# shellcheck disable=SC2086 # words
{
    alike maml 24 6 4 $sines
    alike fedavg 8 2 4 $clients
    alike dp_sgd 1408 176 2 $private
    alike ppo 512 128 2
    resumed ppo 4 2
    alike ddpg 64 16 4
}
# PPO's loss is a difference of larger numbers: a check in 16 bits says so, and what to do; that in 32 is the same.
redco-exec ppo_tp_zero3.json --pipeline "$pipelines/ppo.so" --steps 4 --dtype bf16 --check --quiet >out 2>err
checked=$?
[ $checked -eq 1 ] || bad "ppo in bf16: exit $checked"
grep -q '^first loss or norm that differs: .*; a loss that is the difference of .* in 16 bits: check with --dtype f32 or f64$' out ||
    bad 'ppo in bf16: no word of 16 bits'
train tp_zero3 ppo --steps 4 --dtype f32 --check --quiet
if ! grep -q 'the same' out || grep -q '16 bits' out; then bad 'ppo in f32: not the same'; fi
# A step without decay and one with it: the critic's weights alone differ, as the gradients are still the same.
for decay in 0 5; do train one ddpg --steps 1 --quiet --weight-decay $decay --save-weights decay.$decay; done
python3 - <<'PY' >>err 2>&1 || bad 'ddpg: decays other weights than the critic'
import json, struct
def tensors(folder):
    raw = open(folder + "/model.safetensors", "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    return {n: raw[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]]
            for n, v in json.loads(raw[8:8 + size]).items() if n.endswith("weight")}
a, b = tensors("decay.0"), tensors("decay.5")
assert {n for n in a if a[n] != b[n]} == {f"critic.{layer}.weight" for layer in ("first", "second", "out")}, [n for n in a if a[n] != b[n]]
PY
# What these functions can get wrong is one line, before the first step where it can be known.
wrong() { # NAME PIPELINE SED TEXT [CODE]: seen when it is planned, or with a code when it is run
    compile "$1" "$tests/../executor/pipelines/$2.c" "$3"
    if [ $# -eq 4 ]; then
        refuse 2 "$4" redco-plan --pipeline "$1.so" --gpus 1
    else
        pipeline_plan "$1" "$1.so" 64 16 --gpus 2
        refuse "$5" "$4" redco-exec "$1.json" --pipeline "$1.so" --steps 2
    fi
}

wrong prefix ddpg 's/minimize(scope, critic, "critic.")/minimize(scope, critic, "judge.")/' 'minimizes for "judge."; no trained parameter'
wrong left ddpg '/redco_scope_minimize(scope, critic/d' 'critic.first.weight: the train step gives it no gradient'
wrong unassigned ddpg '/"target.", REDCO_ASSIGNED/d' 'target.actor.first.weight: the train step assigns it; it is described as trained'
wrong shape fedavg 's/(const uint32_t\[\]){0}, false/(const uint32_t[]){0}, true/' 'its gradient is f32\[1,64,64\]; the parameter is f32\[64,64\]'
wrong module lora 's/shape, "", REDCO_FROZEN/shape, "hidden.w", REDCO_FROZEN/' '"hidden.bias" is not frozen, but its module'
wrong stepless fedavg 's/\.loss = loss,//; s/\.step = step,//' 'its redco_user_pipeline_table has no .loss'
wrong none ddpg 's/BATCH = 64/BATCH = 0/' 'collect() added no example' 2
wrong differs ddpg 's/^static double move/#include <unistd.h>\n&/; s/        s->total += reward;/        s->total += reward + 0 * (m->next[0] = getpid());/' 'collect() made other examples on rank 1 than on rank 0' 2
wrong words ddpg 's/"--learning-rate 0.002/"--steps 3 --learning-rate 0.002/' 'its .options has --steps' 2
[ "$size" != full ] || {
    wrong vector ddpg 's/redco_mean_all(g, redco_mul(g, error, error))/redco_mul(g, error, error)/' 'must be a scalar'
    wrong frozen ddpg 's/REDCO_ASSIGNED/REDCO_FROZEN/' 'the train step assigns it; it is described as frozen'
    wrong whole lora 's/shape, "pixels"/shape, "pixels"/; s/^    redco_user_pipeline_input(shape, "pixels"/    redco_user_pipeline_training(shape, "", REDCO_FROZEN);\n&/' 'and all other parameters are not trained'
    wrong nobody lora 's/shape, "", REDCO_FROZEN/shape, "dense", REDCO_FROZEN/' '"dense" begins no parameter'
    wrong rate ddpg 's/"actor.", 0.2/"actor.", 0.0/' 'has a rate factor of 0; at least 1e-09 and below 1e+06 is possible'
    wrong passes fedavg 's/\.step = step,/.step = step, .collect_epochs = 2,/' 'has .collect_epochs, but no .collect'
    wrong memory ddpg 's/sizeof(struct state)/(uint64_t)1 << 40/' '.state_bytes is 1099511627776; at most 2^30'
    wrong odd ddpg 's/BATCH = 64/BATCH = 60/' 'collect() added 60 examples; 1 times these are no whole number of steps of 64' 2
    wrong size ppo 's/predicted\[t\]\[0\], ACTIONS + 1/predicted[t][0], ACTIONS/' 'predict() gave f32\[16,3\] for 16 examples; collect() wants 2 numbers of each' 2
}
refuse 2 '--data: is not read: ' redco-exec ddpg_one.json --pipeline "$pipelines/ddpg.so" --data private.jsonl

# reaches NAME EXPRESSION OPTION...: on one rank and on four.
reaches() {
    name=$1 expression=$2
    shift 2
    for under in one zero3; do
        train $under "$name" --json "$@"
        said "$expression"
    done
}
# shellcheck disable=SC2086 # words
[ "$size" != full ] || {
    resumed maml 8 3 $sines
    resumed fedavg 8 3 $clients
    resumed dp_sgd 4 1 $private
    train tp_zero3 dp_sgd --steps 2 --dtype bf16 --check --quiet $private # lengths and noise are of 32 bits
    grep -q 'the same' out || bad 'dp_sgd: not as one rank in 16 bits'
    resumed ddpg 8 3
    # Finn, Abbeel, Levine, figure 3, K = 10: 0.4 to 0.5 behind one step, as read from the picture.
    reaches maml 'e["loss"] <= 0.5' $sines --schedule cosine --warmup 100 --steps 6000 --evaluate sines-test.jsonl
    reaches fedavg 'e["metric"] >= 0.94' $clients --steps 200 --evaluate clients-test.jsonl
    reaches dp_sgd 'e["metric"] >= 0.9 and abs(r["epsilon"] / accountant(150) - 1) < 1e-9 and r["epsilon"] < 3' \
        $private --steps 150 --evaluate "$data/digits-test.jsonl"
    reaches ppo 'r["mean_return"] >= 475' --steps 1280
    reaches ddpg 'r["mean_return"] >= -200' --steps 8000
}
finish
