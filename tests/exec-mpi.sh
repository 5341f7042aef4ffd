#!/bin/sh
# tests/exec-mpi.sh TOOLS MPIRUN PIPELINES: a plan of 4 ranks under mpirun is trained as one rank trains it, and one rank that does
# something else is noticed; checkpoints; a pipeline, at explicit addresses, too; a rank that hangs, one that is killed and a
# full disk end all; a world of another size is refused once, with both numbers; nothing of the planner's libraries is linked.
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
tools=$(cd "$1" && pwd) || exit 2
mpirun=$2
pipelines=$(cd "$3" && pwd) || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
failures=0
bad() {
    echo "$1"
    cat out err
    failures=$((failures + 1))
}
"$tools/redco-plan" --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --gpus 4 \
    --tp 2 --seq 12 --global-batch 8 --micro-batch 1 --precision fp32 --strategy zero3 -o plan.json >/dev/null || exit 2
"$tests/mpirun.sh" "$mpirun" 4 "$tools/redco-exec" plan.json --steps 5 --check >out 2>err
code=$?
if [ $code -ne 0 ] || ! grep -q '^check against one rank: the same' out; then bad "4 ranks: exit $code"; fi
[ "$(grep -c '^step' out)" -eq 5 ] || bad 'not one line a step'
"$tests/mpirun.sh" "$mpirun" 2 "$tools/redco-exec" plan.json >out 2>err
code=$?
if [ $code -ne 2 ] || [ "$(grep -c '^redco-exec: ' err)" -ne 1 ] ||
    ! grep -qx 'redco-exec: plan.json: is for 4 ranks, but the world has 2' err; then
    bad "2 ranks: exit $code"
fi
# One of the ranks changes a weight: the check sees it.
"$tests/mpirun.sh" "$mpirun" 4 "$tools/redco-exec" plan.json --steps 3 --check --fault model.layers.1.mlp.up_proj.weight@2:3 >out 2>err
code=$?
if [ $code -ne 1 ] || ! grep -q '^check against one rank: differs' out || ! grep -q '^first tensor that differs: ' out; then
    bad "a rank that changes a weight: exit $code"
fi
# Ranks that differ do not begin; one rank says in what, as one does that has no plan.
differ() { # MESSAGE OPTION...: of rank 3
    want=$1
    shift
    "$tests/mpirun.sh" "$mpirun" 3 "$tools/redco-exec" plan.json --steps 3 : -n 1 "$tools/redco-exec" "$@" >out 2>err
    code=$?
    if [ $code -ne 2 ] || [ "$(grep -c '^redco-exec: ' err)" -ne 1 ] || ! grep -q "^redco-exec: rank 3 on [^ ]*: $want" err; then
        bad "$*: exit $code"
    fi
}
differ '--learning-rate: is 0.002; on rank 0 it is 0.001$' plan.json --steps 3 --learning-rate 0.002
differ '--steps: is 10; on rank 0 it is 3$' plan.json
differ 'absent.json: cannot open: No such file' absent.json
# Its checkpoint is resumed by processes that it starts itself, and the other way round.
rm -rf ck
"$tests/mpirun.sh" "$mpirun" 4 "$tools/redco-exec" plan.json --steps 3 --checkpoint ck >out 2>err || bad 'checkpoint under mpirun'
"$tools/redco-exec" plan.json --steps 5 --checkpoint ck --resume --check >out 2>err || bad 'resumed without mpirun'
"$tests/mpirun.sh" "$mpirun" 4 "$tools/redco-exec" plan.json --steps 6 --checkpoint ck --resume --check >out 2>err ||
    bad 'resumed under mpirun'
if ! grep -q '^check against one rank: the same' out; then bad 'resumed under mpirun: check'; fi

# A rank is stopped (or killed) while they train: all end, and what was there stays.
end_one() { # SIGNAL
    rm -f out # what a run before printed is not this one's first step
    "$tests/mpirun.sh" "$mpirun" 4 "$tools/redco-exec" plan.json --steps 100000 --timeout 5 --checkpoint ck \
        --checkpoint-every 2 --resume >out 2>err &
    parent=$! tries=0 victim=
    until grep -qs '^step' out || [ $tries -ge 600 ]; do sleep 0.05 && tries=$((tries + 1)); done
    # shellcheck disable=SC2013 # words
    for pid in $(cat /proc/$parent/task/*/children); do
        if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx 'OMPI_COMM_WORLD_RANK=2'; then victim=$pid; fi
    done
    if [ -z "$victim" ]; then
        kill $parent
        wait $parent
        code=-1
        bad "$1: no rank 2 within 30 s"
        return
    fi
    kill "-$1" "$victim"
    wait $parent
    code=$?
    ls -d ck/step-* >/dev/null || bad "$1: no checkpoint stays"
    tries=0
    while [ -d "/proc/$victim" ] && [ $tries -lt 200 ]; do sleep 0.05 && tries=$((tries + 1)); done
    if [ -d "/proc/$victim" ]; then bad "$1: the rank stays"; fi
}
if [ -e /proc/self/task ]; then
    end_one STOP
    if [ $code -ne 3 ] || [ "$(grep -c '^redco-exec: ' err)" -ne 1 ] ||
        ! grep -Eq '^redco-exec: rank 2, step [0-9]+: .*: was not heard of for 5 s' err; then
        bad "a rank that is stopped: exit $code"
    fi
    end_one KILL
    if [ $code -eq 0 ] || grep -q '^redco-exec: ' err || ! grep -q 'rank 2 .*signal 9' err; then
        bad "a rank that is killed: exit $code"
    fi
fi
# A pipeline: the losses of one rank under mpirun, and where ranks are told numbers and rank 0's address. Nothing else differs.
head -n 40 "$tests/../executor/pipelines/data/digits-test.jsonl" >digits.jsonl
for gpus in 1 4; do
    "$tools/redco-plan" --quiet --pipeline "$pipelines/digits.so" --cluster "$tests/data/exec/quad.json" --global-batch 16 --micro-batch 4 \
        --precision fp32 --gpus $gpus --strategy "$([ $gpus -eq 1 ] && echo ddp || echo zero3)" -o "digits$gpus.json" >out 2>err || bad "plan for $gpus"
done
train="--pipeline $pipelines/digits.so --data digits.jsonl --evaluate digits.jsonl --epochs 2 --dtype f64 --json --keep-best loss --checkpoint"
# shellcheck disable=SC2086 # words
{
    "$tools/redco-exec" digits1.json $train one.ck >one.json 2>err || bad 'a pipeline on one rank'
    "$tests/mpirun.sh" "$mpirun" 4 "$tools/redco-exec" digits4.json $train mpi.ck --log mpi.log >mpi.json 2>err || bad 'a pipeline under mpirun'
    address=127.0.0.1:$((20000 + $$ % 10000))
    for rank in 3 2 1 0; do
        REDCO_RANK=$rank REDCO_RANKS=4 REDCO_ADDRESS=$address REDCO_SECRET=known-to-these-ranks \
            "$tools/redco-exec" digits4.json $train own.ck >"own$rank.json" 2>"own$rank.err" &
        last=$!
    done
    wait $last || { cat own*.err && bad 'a pipeline at explicit addresses'; }
    wait
}
[ "$(wc -l <mpi.log/metrics.jsonl)" -eq 7 ] || bad 'a log under mpirun'
python3 - <<'PY' || bad 'a pipeline has other losses'
import json
one, mpi, own = (json.load(open(f + ".json")) for f in ("one", "mpi", "own0"))
assert mpi["world"] == own["world"] == 4 and len(one["steps"]) == 5 and len(one["evaluations"]) == 2
for run in (mpi, own):
    assert run["checkpoint"]["best"]["step"] == one["checkpoint"]["best"]["step"]
    for a, b in zip(one["steps"] + one["evaluations"], run["steps"] + run["evaluations"]):
        assert abs(a["loss"] / b["loss"] - 1) < 1e-10, (a, b)
PY
mkdir disk
if mount -t tmpfs -o size=100k tmpfs disk 2>/dev/null; then
    "$tests/mpirun.sh" "$mpirun" 4 "$tools/redco-exec" plan.json --steps 2 --checkpoint disk/ck >out 2>err
    code=$?
    if [ $code -ne 3 ] || [ "$(grep -c '^redco-exec: ' err)" -ne 1 ] ||
        ! grep -q '^redco-exec: rank 0, step 2: .*: No space left on device' err; then
        bad "a full disk: exit $code"
    fi
    umount disk
fi
if command -v readelf >/dev/null && readelf -d "$tools/redco-exec" >out && grep -E 'glpk|hwloc' out >err; then
    bad 'linked with the planner'"'"'s libraries'
fi
[ $failures -eq 0 ] && echo '4 ranks as one, a different one noticed, 2 refused'
