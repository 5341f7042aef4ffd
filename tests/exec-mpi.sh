#!/bin/sh
# tests/exec-mpi.sh TOOLS MPIRUN: a plan of 4 ranks under mpirun is trained as one rank trains it, and one rank that does
# something else is noticed; checkpoints; a rank that hangs, one that is killed and a full disk end all; a world of another size is refused once, with both numbers; nothing of the planner's
# libraries is linked.
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
tools=$(cd "$1" && pwd) || exit 2
mpirun=$2
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
