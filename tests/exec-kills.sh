#!/bin/sh
# tests/exec-kills.sh TOOLS [COUNT [SEED [PIPELINES]]]: a run of a small model, or of the pipeline of digits, is broken off COUNT times, at random moments and in
# random ways (a rank killed, a rank stopped, the parent killed), each time resumed on a random one of four plans. Every
# end is one message of a rank, with no process and nothing unfinished left; every loss that was printed is that of an
# unbroken run, and the weights at the end are those of one rank. Needs /proc.
# Lists of words and names of our own; "a && b || bad" is meant; kill is no file.
# shellcheck disable=SC2086,SC2012,SC2015,SC2238,SC2046,SC2010
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
count=${2:-100} seed=${3:-1} pipelines=${4:-}
if [ -n "$pipelines" ]; then pipelines=$(cd "$pipelines" && pwd) || exit 2; fi
[ -e /proc/self/task ] || { echo 'skipped: there is no /proc' && exit 77; }
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
failures=0
bad() {
    echo "$*"
    failures=$((failures + 1))
}

plan() { # NAME OPTION...
    name=$1
    shift
    if [ -n "$pipelines" ]; then
        redco-plan --quiet --pipeline "$pipelines/digits.so" --cluster "$tests/data/exec/quad.json" --global-batch 16 --micro-batch 4 \
            --precision fp32 "$@" -o "$name" >/dev/null || exit 2
        return
    fi
    redco-plan --quiet --cp 1 --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --seq 8 \
        --global-batch 4 --micro-batch 1 --precision fp32 "$@" -o "$name" >/dev/null || exit 2
}
two="--tp 2" flat="--pp 1" stages="--tp 1 --pp 2 --pp-chunks 1" data="" most=3
if [ -n "$pipelines" ]; then # evaluated and logged, too, as far as a run comes
    two="" flat="" stages="" most=4
    data="--pipeline $pipelines/digits.so --data $tests/../executor/pipelines/data/digits-test.jsonl --evaluate $tests/../executor/pipelines/data/digits-test.jsonl --evaluate-every 4 --keep-best loss"
fi
plan 0.json --gpus 4 $two $flat --strategy zero3
plan 1.json --gpus 2 $flat --strategy ddp
plan 2.json --gpus 4 $stages --strategy zero1 --scheme inter-tensor
plan 3.json --gpus 2 $two $flat
run='--dtype f64 --checkpoint checkpoints --checkpoint-every 2 --keep 2'
run="$run $data"

# One line for each time: from when it is counted (60 of 100: from the first step, as starting takes its time), seconds until
# it breaks, what is done to which of the ranks, and the plan.
awk -v count="$count" -v seed="$seed" 'BEGIN {
    srand(seed)
    for (i = 0; i < count; i++) {
        kind = rand()
        trained = rand() < 0.6
        printf "%s %.3f %s %d %d\n", trained ? "step" : "start", rand() * (trained ? 0.1 : 0.2), kind < 0.06 ? "STOP" : kind < 0.14 ? "parent" : "KILL", \
            int(rand() * 4), int(rand() * 4)
    }
}' >times

children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }
ranks_of() { # PARENT: with a pipeline, its one child starts them
    if [ -n "$pipelines" ]; then children "$(children "$1" | cut -d ' ' -f 1)"; else children "$1"; fi
}

await_gone() { # PID...
    tries=0
    for pid in "$@"; do
        while [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; do
            tries=$((tries + 1))
            [ $tries -lt 400 ] || return 1
            sleep 0.05
        done
    done
}

redco-exec 0.json --steps 1 $run >log 2>err || { cat err && exit 1; }
n=0 writing=0
while read -r from after what rank number; do
    n=$((n + 1))
    rm -f out # its steps are not those of the next run
    redco-exec "$number.json" --steps 100000 --resume --timeout 3 $run >out 2>err &
    parent=$! tries=0
    until [ "$from" = start ] || grep -qs '^step' out || [ $tries -ge 400 ]; do sleep 0.02 && tries=$((tries + 1)); done
    sleep "$after"
    ranks=$(ranks_of $parent) tries=0
    until [ -n "$ranks" ] || [ $tries -ge 200 ]; do # a busy machine is slow to start them
        sleep 0.05
        ranks=$(ranks_of $parent) tries=$((tries + 1))
    done
    # shellcheck disable=SC2086 # a list
    set -- $ranks
    if [ $# -eq 0 ]; then bad "$n: no ranks: $(cat err)" && break; fi
    shift $((rank % $#))
    case $what in
    parent) kill -KILL $parent ;;
    *) kill -$what "$1" ;;
    esac
    wait $parent 2>/dev/null
    code=$?
    # shellcheck disable=SC2086 # a list
    await_gone $ranks || bad "$n: $what: ranks stay"
    if [ "$what" != parent ]; then
        [ $code -eq 3 ] || bad "$n: $what: exit $code"
        [ "$(wc -l <err)" -eq 1 ] || bad "$n: $what: not one line"
        grep -Eq '^redco-exec: rank [0-9]+(, step [0-9]+)?: .*(was ended by signal 9|was not heard of for 3 s)' err ||
            bad "$n: $what: another message"
        ls -d checkpoints/.[a-z]* >/dev/null 2>&1 && bad "$n: $what: something unfinished stays"
        if grep -q -E ': checkpoint/(begin|write|checksums):' err; then writing=$((writing + 1)); fi
        [ $failures -eq 0 ] || cat err
    fi
    [ "$what" = parent ] && grep -v '^$' err && bad "$n: $what: a message"
    [ "$(ls checkpoints | wc -l)" -le $most ] || bad "$n: $what: too many checkpoints"
    cat out >>log
    [ $failures -lt 5 ] || break
done <times

# The last line of a run that was killed may be cut off: a line counts if it is whole.
grep -E '^step +[0-9]+  loss .* tokens/s$' log | awk '{ print $2, $4 }' >losses
last=$(sort -n losses | tail -1 | cut -d ' ' -f 1)
redco-exec 0.json --steps $((last + 2)) --resume $run --check >end 2>err || bad "at the end: $(cat err)"
grep '^check' end || bad "no check: $(cat end)"
redco-exec 3.json --steps $((last + 2)) --dtype f64 $data ${data:+--checkpoint unbroken.ck --keep 1} >unbroken 2>err || bad "unbroken: $(cat err)"
cat end >>log
awk '{ print $2, $4 }' unbroken >want
grep -E '^step ' end | awk '{ print $2, $4 }' >>losses
awk 'NR == FNR { want[$1] = $2; next }
    { compared++; d = $2 - want[$1]; if (d > 1.5e-6 || d < -1.5e-6) { print "step", $1, "has", $2, "not", want[$1]; wrong++ } }
    END { print compared, "losses,", wrong + 0, "differ"; exit wrong > 0 || compared == 0 }' want losses || bad 'losses differ'
echo "$n times broken off over $((last + 2)) steps, $writing times while a checkpoint was written, $failures failures"
[ $failures -eq 0 ]
