#!/bin/sh
# tests/exec-planned.sh TOOLS PIPELINES: redco-exec plans for this machine's processors itself and trains: a model, with
# stages that redco-plan's options ask for, and a pipeline. Losses are those of the plan of redco-plan --run-here with the
# same options, and of one rank. No reference cluster or GPU appears. What does not go together, what redco-plan refuses
# and a signal leave one line, the right exit code and no file.
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
pipelines=$(cd "$2" && pwd) || exit 2
cd "$scratch" || exit 2
mkdir left
TMPDIR=$scratch/left
export TMPDIR
model=$tests/data/models/oracle/llama.json

losses() { grep '^step' out | awk '{ print $2, $4 }'; }

# said PATTERN...: each of them stands in the output.
said() {
    for pattern; do grep -q "$pattern" out || bad "does not say $pattern"; done
}

# The batch alone decides the losses, whatever layout the measured speeds lead to.
run redco-exec --model "$model" --ranks 2 --steps 3 --dtype f64 --check
said 'on 2 ranks' ': 8 sequences × 128 tokens a step' '^check.*: the same'
grep -q 'A100\|A800\|H100' out && bad 'a GPU of a reference cluster'
losses >first
run redco-plan --run-here --gpus 2 --model "$model" -o plan.json
said 'this-machine, 2 GPUs' 'engine *redco-exec: its ranks are processors'
said '^wrote plan.json' '^wrote plan.profile.json'
run redco-exec plan.json --steps 3 --dtype f64 --timeline trace.json
losses | cmp - first || bad 'the plan alone has other losses'
run redco-validate plan.json trace.json --profile plan.profile.json
said 'step  *[0-9.]* [mu]*s'

run redco-exec --model "$model" --ranks 4 --steps 2 --dtype f64 --check -- --pp 2 --tp 2 --seq 16 --global-batch 8
said '(tp 2, dp 1×1, pp 2), f64, backend host: 8 sequences × 16 tokens' '^check.*: the same'
run redco-exec --pipeline "$pipelines/digits.so" --ranks 2 --steps 2 --dtype f64 --check \
    --data "$tests/../executor/pipelines/data/digits-test.jsonl"
said '^digits on 2 ranks' '^check.*: the same'

refuse 2 '^redco-exec: --model: needs --ranks N' redco-exec --model "$model"
refuse 2 '^redco-exec: --ranks: needs --model M or --pipeline' redco-exec --ranks 2
refuse 2 '^redco-exec: --model: and --pipeline both' redco-exec --model "$model" --pipeline "$pipelines/digits.so" --ranks 2
refuse 2 '^redco-exec: plan.json: is a plan, which --ranks makes' redco-exec plan.json --model "$model" --ranks 2
refuse 2 '^redco-exec: --backend: needs a PLAN' redco-exec --model "$model" --ranks 2 --backend cuda
refuse 2 '^redco-exec: --emulate-compute: needs a PLAN' redco-exec --model "$model" --ranks 2 --emulate-compute
refuse 2 '^redco-plan: --gpus: 2 GPUs are not a multiple' redco-exec --model "$model" --ranks 2 -- --pp 3
refuse 1 '^redco-plan: does not fit: ' redco-exec --model llama-2-70b --ranks 2
refuse 2 '^redco-plan: --run-here: needs --gpus' redco-plan --run-here --model "$model"
refuse 2 '^redco-plan: --run-here: measures the machine' redco-plan --run-here --gpus 2 --cluster dgx-h100
REDCO_RANK=0 REDCO_RANKS=1 REDCO_ADDRESS=127.0.0.1:13999 refuse 2 'redco-exec: .*--ranks: starts ranks here' \
    redco-exec --model "$model" --ranks 2

# Ended while the machine is measured: by that signal, which the tool that measures got, too.
redco-plan --run-here --gpus 2 --model "$model" >out 2>err &
planning=$! tries=0
until [ -n "$(ls left)" ] || [ $tries -ge 500 ]; do sleep 0.01 && tries=$((tries + 1)); done
kill -TERM $planning
wait $planning
[ $? -eq 143 ] || bad 'was not ended by its signal'
[ -z "$(ls -A left)" ] || bad "left: $(ls -A left)"
finish
