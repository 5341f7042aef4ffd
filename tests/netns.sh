#!/bin/bash
# tests/netns.sh TOOLS: ranks in network namespaces train a plan made for them as one rank trains it; collectives are
# measured there; nothing is left when the script is killed; a rank's failure is the run's. Where namespaces are not
# allowed: 77.
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
tools=$(cd "$1" && pwd) || exit 2
cluster=$tests/../tools/netns-cluster
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
shape=(--nodes 2 --gpus 2 --leaf-nodes 1 --link 400 --nic 50)
failures=0
bad() {
    echo "$1"
    cat out err
    failures=$((failures + 1))
}
"$cluster" probe || exit

"$cluster" describe "${shape[@]}" >cluster.json
"$tools/redco-plan" --quiet --pp 1 --cp 1 --cluster cluster.json --model "$tests/data/models/oracle/llama.json" --seq 12 --global-batch 8 \
    --gpus 4 --micro-batch 1 --precision fp32 --fix p=2x1,g=2x2,os=2x2 -o plan.json >/dev/null || exit 2
"$cluster" run "${shape[@]}" -- "$tools/redco-exec" plan.json --steps 3 --check >out 2>err
code=$?
if [ $code -ne 0 ] || ! grep -q '^check against one rank: the same' out; then bad "training: exit $code"; fi

"$cluster" run "${shape[@]}" -- "$tools/redco-profile" --collectives --nodes 2 --quick -q -o profile.json >out 2>err
code=$?
if [ $code -ne 0 ] || ! "$tools/redco-validate" --profiles profile.json --cluster cluster.json >out 2>err; then
    bad "measuring: exit $code"
fi
grep -q '| broadcast | 2x2 |' out || bad 'no broadcast over nodes was measured'

"$cluster" run "${shape[@]}" -- sh -c "exit \$REDCO_RANK" >out 2>err
code=$?
case $code in 1 | 2 | 3) ;; *) bad "ranks that fail: exit $code" ;; esac

# Killed in every way that ends scripts, at several moments: all ranks end, too. They are told by how long they sleep.
for signal in KILL TERM HUP; do
    for after_s in 0.2 1; do
        nap=9$after_s$$
        "$cluster" run "${shape[@]}" -- sleep "$nap" >out 2>err &
        running=$!
        sleep $after_s
        kill -$signal $running
        wait $running 2>>err
        for ((tries = 0; tries < 100; tries++)); do
            pgrep -f "sleep $nap" >out || break
            sleep 0.1
        done
        [ $tries -lt 100 ] || bad "after SIG$signal something is left"
    done
done
# The small grid of plans: that it goes through; how well they are predicted depends on who else uses the machine.
if ! PATH=$tools:$PATH "$tests/../tools/netns-grid" --short "$scratch/grid" >out 2>err || ! grep 'median error' out; then
    bad 'the grid'
fi
grep -q '"location": "zero3"' grid/grid.json || bad 'no zero3 in the grid'
[ $failures -eq 0 ] && echo '4 ranks in namespaces train as one, measure, end together and leave nothing'
