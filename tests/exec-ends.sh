#!/bin/sh
# tests/exec-ends.sh TOOLS: a run always ends. With any limit of address space it trains or says what it lacks, and never
# waits for memory; when nobody reads what it prints, it ends quietly as the other tools do (141), and no rank stays.
# "a && b || bad" is meant.
# shellcheck disable=SC2015
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
failures=0
bad() {
    echo "$*"
    cat err
    failures=$((failures + 1))
}
plan() { # NAME OPTION...
    name=$1
    shift
    redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --seq 8 \
        --global-batch 4 --micro-batch 1 --precision fp32 "$@" -o "$name" >/dev/null || exit 2
}
plan one.json --gpus 1
plan two.json --gpus 2 --strategy ddp

trained=0 refused=0
for mib in 60 64 80 100 140 170 200 250 300 400 1000; do
    for ranks in one two; do
        # shellcheck disable=SC3045 # dash and bash have it
        (ulimit -v $((mib * 1024)) && exec timeout 20 redco-exec $ranks.json --steps 1 --timeout 5) >out 2>err
        code=$?
        case $code in
        0) trained=$((trained + 1)) ;;
        3)
            refused=$((refused + 1))
            [ "$(wc -l <err)" -eq 1 ] || bad "$mib MiB, $ranks: not one line"
            ;;
        127 | 130) [ $mib -lt 80 ] || bad "$mib MiB, $ranks: exit $code" ;; # the loader's own, or OpenBLAS's
        *) bad "$mib MiB, $ranks: exit $code" ;;
        esac
    done
done
[ $trained -gt 0 ] && [ $refused -gt 0 ] || bad "$trained trained, $refused were refused"

for ranks in one two; do
    # shellcheck disable=SC2016 # of the shell that is started
    timeout 20 sh -c '{ redco-exec "$0.json" --steps 100000 2>err; echo $? >code; } | head -n 1 >out' $ranks || bad "pipe, $ranks: hangs"
    [ "$(cat code)" -eq 141 ] || bad "pipe, $ranks: exit $(cat code)"
    [ ! -s err ] || bad "pipe, $ranks: says something"
done
echo "address space: $trained trained, $refused refused; $failures failures"
[ $failures -eq 0 ]
