#!/bin/sh
# tests/exec-mistakes.sh TOOLS PIPELINES CC: what a pipeline's functions and data can get wrong is one line before the first
# step, or as soon as it can be known.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
pipelines=$(cd "$2" && pwd) || exit 2
compiler=$3
cd "$scratch" || exit 2
redco-exec --new-pipeline first >out 2>err || bad 'new pipeline'
digits=$pipelines/digits.so
redco-plan --quiet --pipeline "$digits" --gpus 1 --global-batch 6 --micro-batch 3 -o digits.json >/dev/null
build() { # NAME SED: of the new pipeline's source
    compile "$1" first/first.c "$2"
}
build good ''
pipeline_plan good good.so 6 3 --gpus 1
good="redco-exec good.json --data first/train.jsonl --steps 3"
wrong() { # NAME SED TEXT: seen when it is planned and when it is run
    build "$1" "$2"
    refuse 2 "$3" redco-plan --pipeline "$1.so" --gpus 1
    # shellcheck disable=SC2086
    refuse 2 "$3" $good --pipeline "$1.so"
}
wrong abi 's/REDCO_USER_PIPELINE_ABI/99/' 'abi.so: is of pipeline ABI 99; this redco has 2'
wrong symbol 's/redco_user_pipeline_table/another_table/' 'symbol.so: has no symbol redco_user_pipeline_table'
wrong no_loss 's/\.loss = loss,//' 'its redco_user_pipeline_table has no .loss'
wrong unresolved 's/redco_sub(/no_such_call(/; s/^#include.*/&\nredco_value no_such_call(redco_graph *, redco_value, redco_value);/' \
    'unresolved.so: cannot be loaded: .*no_such_call'
wrong twice 's/"line.bias"/"line.weight"/' 'describe(): "line.weight" is there already'
wrong shape 's/redco_matmul(g, x, weight, false, false)/redco_matmul(g, x, weight, true, false)/' \
    'first: loss(): matmul of f32\[[38],1\] (x) and f32\[1,1\] (line.weight): inner'
wrong vector 's/redco_mean_all(g, \(.*\)), redco_dtype/\1, redco_dtype/' 'the loss is f32\[[38],1\]; it must be a scalar'
wrong narrow 's/return redco_cast(g, \(.*\), redco_dtype_statistic(scope->compute))/return redco_cast(g, \1, REDCO_BFLOAT16)/' \
    'the loss is bf16\[\]; it must be a scalar, f32 or f64: redco_cast() it to redco_dtype_statistic(scope->compute)'
wrong missing 's/"line.bias"));/"line.offset"));/' 'line.offset: a function asks for it'
wrong first 's/REDCO_INITIAL_NORMAL, 0.1/REDCO_INITIAL_NORMAL, -0.1/' 'describe(): "line.weight" has first values of no known kind, or of a deviation below 0'
wrong deviation 's/redco_user_pipeline_input/redco_user_pipeline_linear(shape, "key", 4, 4, -0.5);\n    &/' \
    'describe(): "key.weight" has first values of no known kind, or of a deviation below 0'
wrong betas 's/redco_user_pipeline_input/redco_user_pipeline_betas(shape, "line.", 0.5, 1.5);\n    &/' \
    'describe(): "line." has a second beta of 1.5; at least 0 and below 1 is possible'
wrong rate 's/redco_user_pipeline_input/redco_user_pipeline_rate(shape, "line.bias", 0.0);\n    &/' \
    'describe(): "line.bias" has a rate factor of 0; at least 1e-09 and below 1e+06 is possible'
wrong decay 's/redco_user_pipeline_input/redco_user_pipeline_decay(shape, "", -1.0);\n    &/' \
    'describe(): "" has a weight decay of -1; at least 0 and below 1e+06 is possible'
wrong prefix 's/redco_user_pipeline_input/redco_user_pipeline_decay(shape, "curve.", 0.1);\n    &/' \
    "describe(): \"curve.\" begins no parameter's name that was described before"
wrong unread 's/, redco_scope_weight(scope, "line.bias"))/, redco_scope_weight(scope, "y"))/' \
    'unread.so: the loss does not depend on the parameter line.bias: describe it as frozen, or leave it out'
wrong counts 's/    (void)context;/    static int calls;\n    calls++;/; s/redco_mul(g, error, error)/redco_scale(g, &, calls)/' \
    'counts.so: its functions built another graph when they were called again; what they build must depend on their'
wrong none 's/redco_user_pipeline_parameter/(void)/' 'describe() gave no parameter'
# Functions that go on with the dimensions of an input that is not there: one error, and none of what follows.
for name in dates maml fedavg dp_sgd dpo; do
    compile "gone_$name" "$tests/../executor/pipelines/$name.c" 's/redco_scope_\(weight\|value\)(scope, "[a-z]*/&_gone/g'
    refuse 2 '_gone: a function asks for it' redco-plan --pipeline "gone_$name.so" --gpus 1
done
build nan 's/return redco_cast(g, redco_mean_all(g, /return redco_cast(g, redco_mean_all(g, redco_log(g, redco_neg(g, /; s/redco_mul(g, error, error))/redco_mul(g, error, error))))/'
# shellcheck disable=SC2086
refuse 1 'loss' $good --pipeline nan.so
# A loss that compares examples is another one for other micro-batches: said where redco-plan chooses that. Pairs of them;
# a statistic that comes back to each; a product that sums over them. The examples of executor/pipelines are none.
coupled() { # NAME SED
    build "$1" "$2"
    run redco-plan --pipeline "$1.so" --gpus 1
    grep -q 'warning: the loss of first compares the examples of a micro-batch: .*fix it with --micro-batch$' err || bad "$1: not said"
    run redco-plan --pipeline "$1.so" --gpus 1 --micro-batch 4
    [ ! -s err ] || bad "$1: said where it is fixed"
}
coupled pairs 's/redco_mul(g, error, error)/redco_matmul(g, error, error, false, true)/'
coupled norm 's/redco_mul(g, error, error)/redco_mul(g, error, redco_sub(g, error, redco_mean(g, error, 1, (const uint32_t[]){0}, true)))/'
coupled covariance 's/redco_mul(g, error, error)/redco_matmul(g, error, error, true, false)/'
for library in good.so "$pipelines"/*.so; do
    run redco-plan --pipeline "$library" --gpus 1
    [ ! -s err ] || bad "$library: compares no examples"
done
# A function that crashes: one line that says where and by which signal, and no other. AddressSanitizer leaves crashes to the
# tool, whose word is the one that users see, on a stack of its own.
export ASAN_OPTIONS="handle_segv=0:use_sigaltstack=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
crashes() { # NAME SED COMMAND...: its line "*nowhere = 1"
    build "$1" "s/^#include.*/&\nstatic int *nowhere;/; $2"
    name=$1
    shift 2
    refuse 3 "$name.so: a function crashed: signal 11 (Segmentation fault) in .*()" "$@"
    command=$(sed -n 's/.*; \(addr2line.*\) says where/\1/p' err)
    $command >where 2>&1
    grep -q "/$name.c:$(grep -n 'nowhere = 1' "$name.c" | sed 's/:.*//')$" where || bad "$name: $(cat where)"
}
# In a rank: the process that started it says so.
build judges 's/\.predict = line/.predict = line, .metric = judge/; s/^const redco_user/static double judge(const json_t *example, const json_t *prediction)\n{\n    return *(const double *)example + *(volatile const double *)8 * (prediction != NULL);\n}\n\n&/'
pipeline_plan judges judges.so 6 3 --gpus 2
refuse 3 'rank [01]: .*was ended by signal 11 (Segmentation fault); addr2line -fe ./judges.so 0x' redco-exec judges.json \
    --pipeline judges.so --evaluate first/train.jsonl
crashes builds 's/    (void)context;/    *nowhere = 1;/' redco-plan --pipeline builds.so --gpus 1
# shellcheck disable=SC2086
crashes reads 's/^    float \*const x = .*/&\n    *nowhere = 1;/' $good --pipeline reads.so
# What collate() gets wrong of arrays is seen before the first step, and what lines lack.
amiss() { # NAME SED TEXT OPTION...
    build "$1" "$2"
    name=$1 text=$3
    shift 3
    # shellcheck disable=SC2086
    refuse 2 "$text" $good --pipeline "$name.so" "$@"
}
amiss behind 's/x\[i\] = /x[i + 1] = /' 'train.jsonl:1: collate() writes behind the 1 numbers that data\[0\], "x", has for 1 example'
amiss stride 's/y\[i\] = /y[0] = /' 'train.jsonl:2: collate() puts other numbers into data\[1\], "y", for this example alone'
printf '{"x": 1, "y": 3}\n{"x": 2}\n' >lacks.jsonl
printf '{"x": 1, "y": 3}\n{"x": 2, "y": "4"}\n' >untyped.jsonl
amiss lacks '' 'lacks.jsonl:2: "y" is missing, which is what is learned' --data lacks.jsonl
amiss lacks '' 'lacks.jsonl:2: "y" is missing' --evaluate lacks.jsonl
amiss untyped '' 'untyped.jsonl:2: "y" is no number' --predict untyped.jsonl
# shellcheck disable=SC2086
run $good --pipeline lacks.so --predict lacks.jsonl
[ "$(wc -l <out)" -eq 2 ] || bad 'an example to predict needs its target'
# A target that no class has, and a row that no table has: the example and the value, whatever the plan.
compile classes "$tests/../executor/pipelines/digits.c" 's/redco_mean_all(scope->graph, redco_cross_entropy(\(.*\), digits, false))/redco_cross_entropy_mean(\1, digits)/; s/^    return st;/    for (uint32_t i = 0; i < count; i++) { digits[i] = (int32_t)json_integer_value(json_object_get(examples[i], "class")); }\n&/'
pixels=$(printf '%064d' 0 | tr 0 a)
for class in 3 -100 10; do printf '{"pixels": "%s", "digit": 0, "class": %s}\n' "$pixels" "$class"; done >classes.jsonl
refuse 2 'classes.jsonl:3: input "digit": cross_entropy: index 10 is neither below 0, which is masked, nor in \[0, 10)$' \
    redco-exec digits.json --pipeline classes.so --data classes.jsonl --steps 2
run redco-exec digits.json --pipeline classes.so --data classes.jsonl --steps 2 --skip-bad
grep -q 'classes.jsonl: 1 bad line' err || bad 'a class too many is no bad line'
# A function that ends its process, whichever and in which program: one error, a code that is not 0, and no file.
ends() { # WHERE SED: exit(0) where it is planned, measured and run
    build "$1" "s/^#include.*/&\n#include <stdlib.h>/; $2"
    rm -rf left && mkdir left
    refuse 3 "redco-plan: $1.so: a function called exit(0)" redco-plan --pipeline "$1.so" --gpus 1 -o left/plan.json
    refuse 3 "redco-profile: $1.so: a function called exit(0)" redco-profile --quick --ranks 2 --pipeline "$1.so" \
        -o left/profile.json --cluster left/cluster.json
    # shellcheck disable=SC2086
    refuse 3 "redco-exec: $1.so: a function called exit(0)" $good --pipeline "$1.so" --checkpoint left/ck --log left/log \
        --save-weights left/weights
    [ -z "$(ls left)" ] || bad "$1: files are left: $(ls left)"
}
ends opening 's/^static void describe/__attribute__((constructor)) static void opening(void)\n{\n    exit(0);\n}\n\n&/'
ends describing 's/    redco_user_pipeline_input/    exit(0);\n&/'
ends leaves 's/    (void)context;/    (void)context;\n    exit(0);/'
build collates 's/^#include.*/&\n#include <stdlib.h>/; s/^    float \*const x = /    exit(0);\n&/'
refuse 3 'redco-profile: collates.so: a function called exit(0)' redco-profile --quick --ranks 2 --pipeline collates.so --data first/train.jsonl -o left/profile.json
# shellcheck disable=SC2086
refuse 3 'redco-exec: collates.so: a function called exit(0)' $good --pipeline collates.so
[ -z "$(ls left)" ] || bad "collates: files are left: $(ls left)"
# A rank, whose parent says so.
of_child() { # NAME SED: its functions know the process that opened it
    build "$1" "s/^#include.*/&\n#include <stdlib.h>\n#include <unistd.h>\nstatic int opened;/; s/    redco_user_pipeline_input/    opened = getpid();\n&/; $2"
}
of_child later 's/^    float \*const x = /    if (getpid() != opened) { exit(0); }\n&/'
refuse 3 'redco-profile: rank 1: a function of a pipeline called exit(0)' redco-profile --quick --ranks 2 --pipeline later.so --data first/train.jsonl
of_child leaves 's/    (void)context;/    (void)context;\n    if (getpid() != opened) { exit(0); }/'
# shellcheck disable=SC2086
refuse 3 'rank 0: .*called exit(0)' $good --pipeline leaves.so
build predicts 's/\.predict = line/.predict = total/; s/^static redco_value loss/static redco_value total(redco_scope *scope)\n{\n    return redco_sum_all(scope->graph, line(scope));\n}\n\n&/'
# shellcheck disable=SC2086
refuse 2 'predict() gave f32\[\] for 3 examples; numbers of shape \[3, ...\] are needed' $good --pipeline predicts.so --steps 0 --predict first/train.jsonl
# A prediction that is no number is none of a list's that is one shorter.
build unfit 's/\.predict = line/.predict = unfit/; s/^static redco_value loss/static redco_value unfit(redco_scope *scope)\n{\n    const redco_value both[] = {line(scope), redco_log(scope->graph, redco_neg(scope->graph, redco_mul(scope->graph, line(scope), line(scope))))};\n    return redco_concat(scope->graph, both, 2, 1);\n}\n\n&/'
# shellcheck disable=SC2086
refuse 1 'train.jsonl: predict() gave example 1 a number that is not finite' $good --pipeline unfit.so --predict first/train.jsonl
# Ranks whose functions build other graphs do not begin.
pipeline_plan two good.so 6 3 --gpus 2
build differs 's/^#include.*/&\n#include <unistd.h>/; s/return redco_cast(g, redco_mean_all(g, /&redco_scale(g, /; s/redco_mul(g, error, error))/redco_mul(g, error, error), getpid()))/'
refuse 2 'first: its functions built another graph on rank 1 than on rank 0' redco-exec two.json --data first/train.jsonl --steps 3 --pipeline differs.so
build quiet 's/,$/,/; s/\.predict = line/.predict = NULL/'
# shellcheck disable=SC2086
refuse 2 'quiet.so: has no .predict' $good --pipeline quiet.so --predict first/train.jsonl
# shellcheck disable=SC2086
{
    refuse 2 'is a plan for other parameters (of digits) than first has: hidden.weight \[64, 256\] there, line.weight \[1, 1\] here;' redco-exec digits.json --data first/train.jsonl --pipeline good.so
    refuse 2 'give its library with --pipeline' $good
    refuse 2 '--data: is missing' redco-exec good.json --pipeline good.so
    refuse 2 'nowhere.so: cannot be loaded' $good --pipeline nowhere.so
    refuse 2 'train.jsonl: cannot be loaded' $good --pipeline first/train.jsonl
    refuse 2 '--model: is the pipeline' redco-plan --gpus 1 --pipeline good.so --model llama-7b
    refuse 2 'is no name' redco-exec --new-pipeline ../x
    refuse 2 'first: cannot make the folder' redco-exec --new-pipeline first
    refuse 2 '--skip-bad: needs --data' redco-exec good.json --skip-bad
    printf '{"x": 1, "y": 3}\n\n{"x": "one"}\n[1]\n{"x": 2, "y": 5}\n{"x":\n' >mixed.jsonl
    refuse 2 'mixed.jsonl:3: "x" is no number' redco-exec good.json --pipeline good.so --data mixed.jsonl
    build keyed 's/REDCO_EVALUE, "x", "is no number"/REDCO_EVALUE, "", "\\"x\\" is no number"/'
    refuse 2 'mixed.jsonl:3: "x" is no number$' redco-exec good.json --pipeline keyed.so --data mixed.jsonl
    printf 'x\n' >worse.jsonl
    refuse 2 'worse.jsonl: has no example that is not bad' redco-exec good.json --pipeline good.so --data worse.jsonl --skip-bad
    redco-exec good.json --pipeline good.so --data mixed.jsonl --skip-bad --steps 2 >out 2>err || bad 'skip-bad'
    grep -q 'warning: mixed.jsonl: 3 bad lines are left out' err && [ "$(grep -c ^step out)" -eq 2 ] || bad 'bad lines are not counted'
}
finish
