#!/bin/sh
# tests/exec-start.sh TOOLS: ranks that a launcher starts one by one (REDCO_RANK) with different options, plans and files,
# or without them, do not begin: both end with exit code 2 within seconds, and rank 0 and the rank whose fault it is say
# in one line each in what. So do ranks whose launcher says what makes no sense. Those that are alike train.
# "a && b || bad" is meant.
# shellcheck disable=SC2015
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
unset REDCO_SECRET REDCO_SECRET_FILE XDG_CONFIG_HOME REDCO_LISTEN
HOME=$scratch/home
export HOME
mkdir home
failures=0 kinds=0 port=$((13000 + $$ % 15000))
bad() {
    echo "$*"
    cat err0 err1 2>/dev/null
    failures=$((failures + 1))
}
plan() { # NAME OPTION...
    name=$1
    shift
    redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --seq 8 \
        --micro-batch 1 --precision fp32 "$@" -o "$name" >/dev/null || exit 2
}
plan plan.json --global-batch 4 --gpus 2 --strategy ddp
plan batch.json --global-batch 8 --gpus 2 --strategy ddp
plan zero.json --global-batch 4 --gpus 2 --strategy zero3
plan four.json --global-batch 4 --gpus 4 --strategy ddp
head -c 4096 /dev/zero >tokens
cp tokens others
printf '\001' | dd of=others conv=notrunc 2>/dev/null

# pair CODE ARGUMENTS0 ARGUMENTS1: words of ours
pair() {
    port=$((port + 1))
    want=$1
    for rank in 0 1; do
        shift
        # shellcheck disable=SC2086 # words
        REDCO_RANK=$rank REDCO_RANKS=2 REDCO_ADDRESS=127.0.0.1:$port timeout 10 redco-exec $1 >out$rank 2>err$rank &
        eval "pid$rank=$!"
    done
    for rank in 0 1; do
        eval "wait \$pid$rank"
        code=$?
        [ $code -eq "$want" ] || bad "[$*]: rank $rank: exit $code"
    done
}
# differ MESSAGE ARGUMENTS0 ARGUMENTS1: rank 0 says so, and rank 1, in one line each
differ() {
    kinds=$((kinds + 1)) message=$1
    shift
    pair 2 "$@"
    for rank in 0 1; do
        [ "$(wc -l <err$rank)" -eq 1 ] && grep -q "^redco-exec: rank 1 on [^ ]*: $message" err$rank || bad "[$*]: rank $rank: message"
    done
}
run='plan.json --steps 2'
pair 0 "$run" "$run --quiet"
grep -q '^step *2 ' out0 || bad 'alike: not trained'
[ "$(stat -c %a home/.config/redco/secret)" = 600 ] || bad 'the secret of the user'
differ 'global batch of the plan: is 8; on rank 0 it is 4$' "$run" 'batch.json --steps 2'
differ 'plan: is SHA-256 [0-9a-f]*; on rank 0 it is SHA-256 [0-9a-f]*$' "$run" 'zero.json --steps 2'
differ '--steps: is 3; on rank 0 it is 2$' "$run" 'plan.json --steps 3'
differ '--seed: is 2; on rank 0 it is 1$' "$run" "$run --seed 2"
differ '--learning-rate: is 0.002; on rank 0 it is 0.001' "$run" "$run --learning-rate 0.002"
differ '--dtype: is f64; on rank 0 it is f32$' "$run" "$run --dtype f64"
differ '--fuse: is on; on rank 0 it is auto$' "$run" "$run --fuse on"
differ '--check: is given; on rank 0 it is not given$' "$run" "$run --check"
differ '--emulate-compute: is given; on rank 0 it is not given$' "$run" "$run --emulate-compute"
differ '--data: is a file of 4096 bytes, SHA-256 .*; on rank 0 it is a file of 4096 bytes, SHA-256 ' \
    "$run --data tokens" "$run --data others"
differ '--data: is no file; on rank 0 it is a file of 4096 bytes, ' "$run --data tokens" "$run"
differ '--checkpoint: is not given; on rank 0 it is ck$' "$run --checkpoint ck" "$run"
differ '--timeout: is 61 s; on rank 0 it is 60 s$' "$run" "$run --timeout 61"
differ '--backend: is cuda; on rank 0 it is host$' "$run" "$run --backend cuda"
# A long one differs in its last words.
rates='--optimizer adafactor --decay-power 0.7123456789012345 --update-clip 1.123456789012345 --scale-epsilon 0.001234567890123456'
differ '--optimizer: is adafactor, .*, SHA-256 [0-9a-f]*; on rank 0 it is adafactor, .*, SHA-256 [0-9a-f]*$' \
    "$run $rates" "$run $rates --relative-rate"
[ ! -e ck ] || bad 'a checkpoint folder was made'
# Ranks that cannot start.
differ 'absent.json: cannot open: No such file or directory$' "$run" absent.json
differ 'absent/tokens: cannot open: No such file or directory$' "$run --data tokens" "$run --data absent/tokens"
differ 'four.json: is for 4 ranks, but the world has 2$' "$run" four.json
kinds=$((kinds + 1))
pair 2 absent.json "$run"
grep -q '^redco-exec: rank 0 on [^ ]*: absent.json: cannot open: No such file' err0 || bad 'rank 0 without a plan'
kinds=$((kinds + 1))
pair 2 "$run" "$run --stepz 2"
grep -q '^redco-exec: rank 1 on [^ ]*: --stepz' err0 && grep -q '^redco-exec: --stepz' err1 || bad 'a wrong option'
kinds=$((kinds + 1))
pair 2 absent.json absent.json
[ "$(cat err0 err1 | wc -l)" -eq 1 ] || bad 'what is so for all is said once'

# refused MESSAGE VARIABLE=VALUE...: of a rank alone
refused() {
    kinds=$((kinds + 1)) message=$1
    shift
    env "$@" timeout 10 redco-exec plan.json >out0 2>err0
    code=$?
    : >err1
    [ $code -eq 2 ] && [ "$(wc -l <err0)" -eq 1 ] && grep -q "^redco-exec: $message" err0 || bad "$*: exit $code"
}
refused 'REDCO_RANK: is missing, but REDCO_RANKS is set$' REDCO_RANKS=2
refused 'REDCO_RANKS: is missing' REDCO_RANK=0
refused 'rank 1 on [^ ]*: 127.0.0.1:65536: the port must be' REDCO_RANK=1 REDCO_RANKS=2 REDCO_ADDRESS=127.0.0.1:65536
refused 'rank 1 on [^ ]*: world: the address of rank 0 must be HOST:PORT$' REDCO_RANK=1 REDCO_RANKS=2 REDCO_ADDRESS=127.0.0.1
refused 'rank 1 on [^ ]*: no.host.invalid:1: ' REDCO_RANK=1 REDCO_RANKS=2 REDCO_ADDRESS=no.host.invalid:1
refused 'REDCO_SECRET: has 5 bytes' REDCO_RANK=1 REDCO_RANKS=2 REDCO_ADDRESS=127.0.0.1:1 REDCO_SECRET=short
echo 'a secret that many may read' >shared
chmod 644 shared
refused 'shared: others may read or write it' REDCO_RANK=1 REDCO_RANKS=2 REDCO_ADDRESS=127.0.0.1:1 REDCO_SECRET_FILE=shared
echo "$kinds kinds of ranks that do not begin, $failures failures"
[ $failures -eq 0 ]
