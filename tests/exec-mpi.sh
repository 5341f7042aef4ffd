#!/bin/sh
# tests/exec-mpi.sh TOOLS MPIRUN: a plan of 4 ranks under mpirun is trained as one rank trains it, and one rank that does
# something else is noticed; a world of another size is refused once, with both numbers; nothing of the planner's
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
"$tools/redco-plan" --quiet --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --gpus 4 \
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
# One of the ranks takes longer steps than the rest: the check sees it.
"$tests/mpirun.sh" "$mpirun" 3 "$tools/redco-exec" plan.json --steps 3 --check : -n 1 "$tools/redco-exec" plan.json \
    --steps 3 --check --learning-rate 0.002 >out 2>err
code=$?
if [ $code -ne 1 ] || ! grep -q '^check against one rank: differs' out || ! grep -q '^first tensor that differs: ' out; then
    bad "a rank that learns faster: exit $code"
fi
if command -v readelf >/dev/null && readelf -d "$tools/redco-exec" >out && grep -E 'glpk|hwloc' out >err; then
    bad 'linked with the planner'"'"'s libraries'
fi
[ $failures -eq 0 ] && echo '4 ranks as one, a different one noticed, 2 refused'
