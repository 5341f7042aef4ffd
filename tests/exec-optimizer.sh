#!/bin/sh
# tests/exec-optimizer.sh TOOLS: optimizer and learning rate from the command line. The rate that a step applies is the
# schedule's, once a step, however many micro-batches it has; sharded plans go the way of one rank under all settings.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
cd "$scratch" || exit 2
gpt2=$tests/data/models/oracle/gpt2.json
model_plan one "$gpt2" --seq 12 --global-batch 8 --micro-batch 1 --gpus 1 || exit 2
model_plan zero3 "$gpt2" --seq 12 --global-batch 8 --micro-batch 1 --gpus 4 --tp 2 --strategy zero3 || exit 2
# Eight micro-batches a step; rates by hand.
rates() { # RATES OPTION...: of 5 steps at 0.01
    want=$1
    shift
    run redco-exec one.json --steps 5 --learning-rate 0.01 --json "$@"
    python3 -c "import json; got = [s['learning_rate'] for s in json.load(open('out'))['steps']]
assert all(abs(g - w) < 1e-12 for g, w in zip(got, [$want])), got" 2>err || bad "$*: other rates"
}
rates '.01, .01, .01, .01, .01'
rates '.005, .01, .01, .01, .01' --warmup 2
rates '.005, .01, .01, .02/3, .01/3' --warmup 2 --schedule linear
# Cosines of 0, 45, 90 and 135 degrees behind one step.
rates '.01, .01, .005 + .005 * .5 ** .5, .005, .005 - .005 * .5 ** .5' --schedule cosine --warmup 1
rates '.01, .01, .01, .01, .0055' --schedule wsd --decay-steps 2 --final-rate 0.1
# On four ranks as on one.
same() { # OPTION...
    run redco-exec zero3.json --steps 4 --dtype f64 --check --quiet "$@"
    grep -q 'the same' out || bad "$*: not as one rank"
}
same --schedule cosine --warmup 2 --beta1 0.8 --beta2 0.9 --epsilon 1e-6 --weight-decay 0.3 --decay matrices --clip-norm 0.1
same --clip-norm 0 --weight-decay 0
for options in '--momentum 0.9 --weight-decay 0.2 --decay matrices' '--weight-decay 0 --clip-norm 0'; do
    for name in one zero3; do
        # shellcheck disable=SC2086 # words
        run redco-exec $name.json --steps 4 --dtype f64 --optimizer sgd $options --learning-rate 0.1 --json
        cp out $name.out
    done
    python3 -c 'import json
a, b = ([s["loss"] for s in json.load(open(f))["steps"]] for f in ("one.out", "zero3.out"))
assert len(a) == 4 and a[3] < a[0] and all(abs(x / y - 1) < 1e-12 for x, y in zip(a, b)), (a, b)' 2>err || bad "sgd $options: other losses"
done
# What settings change, they change.
loss() { # OPTION...
    redco-exec one.json --steps 4 --json "$@" 2>err | python3 -c 'import json, sys; print(json.load(sys.stdin)["steps"][3]["loss"])'
}
usual=$(loss)
for options in '--beta1 0.5' '--beta2 0.5' '--epsilon 0.1' '--weight-decay 9' '--clip-norm 0.01 --epsilon 1e-2' '--optimizer sgd' '--weight-decay 9 --decay matrices'; do
    # shellcheck disable=SC2086
    [ "$(loss $options)" != "$usual" ] || bad "$options changes nothing"
done
[ "$(loss --weight-decay 9 --decay matrices)" != "$(loss --weight-decay 9)" ] || bad 'biases decay all the same'
refuse 2 '6 updates of warm-up and 0 of decay are more than the 5' redco-exec one.json --steps 5 --warmup 6 --schedule linear
refuse 2 "are not SGD's" redco-exec one.json --optimizer sgd --beta1 0.5
refuse 2 "is SGD's" redco-exec one.json --momentum 0.5
refuse 2 'needs --schedule wsd' redco-exec one.json --decay-steps 3
refuse 2 'needs AdamW or SGD' redco-exec one.json --optimizer adafactor --check
finish
