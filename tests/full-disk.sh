#!/bin/sh
# tests/full-disk.sh TOOLS PIPELINES: where standard output cannot be written, every tool says so in one line and exits with 3,
# whatever it was asked for.
set -u
[ -w /dev/full ] || { echo 'skipped: there is no /dev/full' && exit 77; }
data=$(cd "$(dirname "$0")/data" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
pipelines=$(cd "$2" && pwd) || exit 2
plan=$(mktemp) && small=$(mktemp) && own=$(mktemp) || exit 2
trap 'rm -f "$plan" "$small" "$own"' EXIT
redco-plan --quiet --gpus 8 -o "$plan" >/dev/null || exit 2
redco-plan --quiet --pp 1 --cp 1 --gpus 2 --cluster "$data/exec/quad.json" --model "$data/models/oracle/llama.json" --seq 12 \
    --global-batch 2 --precision fp32 -o "$small" >/dev/null || exit 2
redco-plan --quiet --pipeline "$pipelines/digits.so" --gpus 2 --cluster "$data/exec/quad.json" --global-batch 8 --precision fp32 \
    -o "$own" >/dev/null || exit 2
digits=$data/../../executor/pipelines/data/digits-test.jsonl
failures=0

check() { # COMMAND...
    message=$("$@" 2>&1 >/dev/full </dev/null)
    code=$?
    want="$(basename "$1"): standard output: cannot write: No space left on device"
    if [ $code -ne 3 ] || [ "$message" != "$want" ]; then
        printf '%s: exit %s instead of 3\n%s\n' "$*" $code "$message"
        failures=$((failures + 1))
    fi
}

for tool in "$1"/redco-*; do
    if [ ! -f "$tool" ] || [ ! -x "$tool" ]; then continue; fi
    for option in --help --usage --version; do check "$(basename "$tool")" $option; done
done
for json in '' --json; do
    # shellcheck disable=SC2086 # no option at all when empty
    {
        check redco-plan --gpus 8 $json
        check redco-plan --gpus 8 --model llama-65b $json
        check redco-plan --gpus 8 --compare $json
        check redco-plan --sweep gpus=8,16 $json
        check redco-plan --gpus 8 --top 2 $json
        check redco-plan --check "$plan" $json
        check redco-rules --model gpt2 --shards 2 $json
        check redco-sim "$plan" $json
        check redco-exec "$small" --steps 1 $json
        check redco-exec "$own" --pipeline "$pipelines/digits.so" --data "$digits" --steps 1 --evaluate "$digits" $json
        check redco-topo --xml "$data/topology/hwloc-4xa100.xml" $json
        check redco-validate --measured "$data/../../traces/data/amsp.csv" $json
        check redco-calibrate --measured "$data/../../traces/data/amsp.csv" $json
    }
done
[ $failures -eq 0 ]
