# shellcheck shell=sh
# Scripts set $pipelines and $compiler.
# shellcheck disable=SC2154
# tests/exec-common.sh: sourced by scripts that run redco-exec, with the folder of tools in $1. They work in a folder of
# their own, which is removed at the end, and count what they ran and what was wrong.
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
# The interpreter itself, as a shim of pyenv's in its place takes longer than most of what is asked.
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) || { echo 'skipped: no python3' && exit 77; }
python3() {
    "$python" "$@"
}
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

# example_plans NAME GLOBAL MICRO PLAN...: plans NAME_PLAN.json of an example in $pipelines: one rank; ZeRO-3 of four; AMSP's
# meshes on two nodes of two; two tensor-parallel ranks, alone and with ZeRO-3 of two.
example_plans() {
    example=$1 of_step=$2 of_pass=$3
    shift 3
    for under in "$@"; do
        case $under in
        one) set -- --gpus 1 ;;
        zero3) set -- --gpus 4 --tp 1 --strategy zero3 ;;
        amsp) set -- --gpus 4 --tp 1 --cluster "$tests/data/exec/pair.json" --fix p=2x1,g=2x2,os=2x2 ;;
        tp) set -- --gpus 2 --tp 2 ;;
        tp_zero3) set -- --gpus 4 --tp 2 --strategy zero3 ;;
        ddp) set -- --gpus 4 --tp 1 --strategy ddp ;;
        esac
        pipeline_plan "${example}_$under" "$pipelines/$example.so" "$of_step" "$of_pass" "$@"
    done
}

# same_losses NAME STEPS "PLAN..." OPTION...: losses, norms and weights on each plan are those of one rank (f64, 1e-10).
same_losses() {
    example=$1 steps=$2 plans=$3
    shift 3
    for under in $plans; do
        run redco-exec "${example}_$under.json" --pipeline "$pipelines/$example.so" --steps "$steps" --dtype f64 --check \
            --quiet "$@"
        grep -q 'the same' out || bad "$example: $under is not as one rank"
    done
}

# compile NAME SOURCE SED: the pipeline NAME.so of a changed source.
compile() {
    sed "$3" "$2" >"$1.c"
    "$compiler" -g -std=c11 -shared -fPIC -I"$tests/.." "$1.c" -o "$1.so" -lm >out 2>err || bad "$1 does not compile"
}

finish() {
    echo "$runs runs, $refused refused, $failures failures"
    exit $((failures > 0))
}
