# shellcheck shell=sh
# tests/exec-common.sh: sourced by scripts that run redco-exec, with the folder of tools in $1. They work in a folder of
# their own, which is removed at the end, and count what they ran and what was wrong.
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
command -v python3 >/dev/null || { echo 'skipped: no python3' && exit 77; }
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failures=0 runs=0 refused=0

# What is wrong, and what the last command said.
bad() {
    echo "$*"
    cat out err
    failures=$((failures + 1))
}

# run COMMAND...: to the files out and err.
run() {
    runs=$((runs + 1))
    "$@" >out 2>err || bad "$*: exit $?"
}

# refuse CODE TEXT COMMAND...: one line with the text, and no step.
refuse() {
    want=$1 text=$2
    shift 2
    refused=$((refused + 1))
    "$@" >out 2>err
    got=$?
    [ $got -eq "$want" ] && [ "$(wc -l <err)" -eq 1 ] && grep -q -e "$text" err && ! grep -q '^step' out && return
    bad "$*: exit $got, not $want with \"$text\""
}

# model_plan NAME MODEL OPTION...: the plan NAME.json of a language model on a machine that processes play.
model_plan() {
    plan_name=$1 planned=$2
    shift 2
    redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$planned" --precision fp32 "$@" \
        -o "$plan_name.json" >out 2>err
}

# pipeline_plan NAME LIBRARY GLOBAL MICRO OPTION...: the same of a pipeline.
pipeline_plan() {
    plan_name=$1 planned=$2 global=$3 micro=$4
    shift 4
    redco-plan --quiet --pipeline "$planned" --cluster "$tests/data/exec/quad.json" --global-batch "$global" \
        --micro-batch "$micro" --precision fp32 "$@" -o "$plan_name.json" >out 2>err || bad "plan $plan_name"
}

finish() {
    echo "$runs runs, $refused refused, $failures failures"
    exit $((failures > 0))
}
