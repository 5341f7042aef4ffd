#!/bin/sh
# tests/exec-checkpoint.sh TOOLS few|full PIPELINES: what one plan has trained is resumed on another, to the same losses and
# weights as one rank that never stopped (f64: 1e-10); a checkpoint that is damaged in any file is named and the one
# before it is taken; a full disk, an interrupted run and a rank that hangs leave what was there.
# Lists of words and names of our own; "a && b || bad" is meant; kill is no file.
# shellcheck disable=SC2086,SC2012,SC2015,SC2238,SC2046,SC2010
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
size=$2
pipelines=$(cd "$3" && pwd) || exit 2
cd "$scratch" || exit 2
resumed=0 damaged=0
plan() { # NAME MODEL OPTION...
    name=$1 model=$2
    shift 2
    redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/$model.json" --seq 12 \
        --global-batch 8 --micro-batch 1 --precision fp32 "$@" -o "$name.json" >/dev/null || exit 2
}
pair() { # FROM TO: 3 steps, then up to 7
    rm -rf ck
    if redco-exec "$1.json" --steps 3 --dtype f64 --checkpoint ck >out 2>err &&
        redco-exec "$2.json" --steps 7 --dtype f64 --checkpoint ck --resume --check >out 2>err &&
        [ "$(grep -c '^step' out)" -eq 4 ]; then
        resumed=$((resumed + 1))
    else
        bad "$model: from $1 to $2"
    fi
}
for model in llama gpt2 opt; do
    plan one $model --gpus 1
    plan ddp $model --gpus 2 --strategy ddp
    plan zero3 $model --gpus 4 --tp 2 --strategy zero3
    plan dealt $model --gpus 4 --strategy zero1 --scheme inter-tensor
    plan mesh $model --gpus 8 --fix p=2x1,g=2x2,os=4x2 --scheme intra-tensor
    plan large $model --gpus 4 --micro-batch 2 --strategy zero1
    if [ "$size" = few ]; then
        pair zero3 dealt
        continue
    fi
    pair one zero3
    pair ddp mesh
    pair zero3 dealt
    pair dealt one
    pair mesh large
    pair large zero3
    [ $model = llama ] || continue
    plan tp4 $model --gpus 8 --tp 4 --tp-placement rules
    plan hpz $model --gpus 8 --strategy zeropp
    pair tp4 hpz
    pair hpz tp4
    pair zero3 ddp
done
# Master weights of 16-bit runs are f32 and go on in f32.
rm -rf ck
{ redco-exec zero3.json --steps 2 --dtype bf16 --checkpoint ck && redco-exec ddp.json --steps 3 --checkpoint ck --resume; } \
    >out 2>err || bad 'from bf16 to f32'

# Damage, in copies of two checkpoints.
model=llama
plan zero3 $model --gpus 4 --tp 2 --strategy zero3
rm -rf ck
redco-exec zero3.json --steps 4 --dtype f64 --checkpoint ck --checkpoint-every 2 >out 2>err || bad 'two checkpoints'
new=step-0000000004
flip() { # FILE OFFSET: one bit
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059 # an octal escape
    printf "\\$(printf '%03o' $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
damage() { # WHAT FILE: done to copy/$new; the message names the file
    damaged=$((damaged + 1))
    redco-exec zero3.json --steps 5 --dtype f64 --checkpoint copy --resume >out 2>err || bad "$1: exit $?"
    grep -q "^redco-exec: warning: copy/$new/$2.*; this checkpoint is passed over$" err &&
        grep -q "^redco-exec: warning: copy/$new is set aside as copy/damaged-$new: " err && [ "$(wc -l <err)" -eq 2 ] ||
        bad "$1: not two warnings"
    grep -q "^resumed from copy/step-0000000002: step 2 of 5" out || bad "$1: not the one before"
    [ "$(ls -A copy | tr '\n' ' ')" = "damaged-$new step-0000000002 step-0000000005 " ] || bad "$1: $(ls -A copy)"
}
fresh() { rm -rf copy && cp -r ck copy; }
for file in model-00001-of-00001.safetensors optimizer-00001-of-00001.safetensors config.json \
    model.safetensors.index.json optimizer.safetensors.index.json checkpoint.json; do
    bytes=$(wc -c <"ck/$new/$file")
    for at in $((bytes / 2)) $((bytes - 3)) 3; do
        fresh && flip "copy/$new/$file" "$at" && damage "$file: bit of byte $at" "$file"
        [ "$size" = few ] && break
    done
    fresh && truncate -s $((bytes - 2)) "copy/$new/$file" && damage "$file: cut off" "$file"
    fresh && rm "copy/$new/$file" && damage "$file: removed" "$file"
done
fresh && rm -rf "copy/$new" && mkdir "copy/$new" && damage 'empty' checkpoint.json
fresh && rm -rf "copy/$new" && cp -r copy/step-0000000002 "copy/$new" && damage 'another step' checkpoint.json
# Nothing is left to resume from.
fresh && rm copy/*/checkpoint.json
redco-exec zero3.json --steps 5 --dtype f64 --checkpoint copy --resume >out 2>err
[ $? -eq 2 ] && [ "$(tail -1 err)" = 'redco-exec: copy: has no checkpoint that is whole to resume' ] || bad 'all damaged'

# A disk that is full for one of the files; the checkpoint before stays, and is resumed.
fresh
(ulimit -f 200 && redco-exec zero3.json --steps 6 --dtype f64 --checkpoint copy --resume >out 2>err)
[ $? -eq 3 ] || bad 'full: exit'
grep -q '^redco-exec: rank 0, step 6: copy/.unfinished-step-0000000006/.*: File too large$' err &&
    [ "$(wc -l <err)" -eq 1 ] || bad 'full: message'
[ "$(ls -A copy | tr '\n' ' ')" = "step-0000000002 $new " ] || bad "full: $(ls -A copy)"
redco-exec zero3.json --steps 5 --dtype f64 --checkpoint copy --resume >out 2>err || bad 'after a full disk'
# The same on a file system that has no room, where one may be made.
mkdir disk
if mount -t tmpfs -o size=300k tmpfs disk 2>/dev/null; then
    redco-exec zero3.json --steps 3 --dtype f64 --checkpoint disk/ck >out 2>err
    [ $? -eq 3 ] || bad 'no space: exit'
    [ "$(wc -l <err)" -eq 1 ] && grep -q 'No space left on device$' err || bad 'no space: message'
    [ -z "$(ls -A disk/ck)" ] || bad 'no space: something stays'
    umount disk
fi

# Another run has the folder; a signal to the parent ends all and leaves nothing.
fresh
redco-exec zero3.json --steps 100000 --dtype f64 --checkpoint copy --checkpoint-every 1 --resume >long 2>&1 &
parent=$!
tries=0
until grep -qs '^step' long || [ $tries -ge 400 ]; do sleep 0.05 && tries=$((tries + 1)); done
redco-exec zero3.json --steps 5 --dtype f64 --checkpoint copy --resume >out 2>err
[ $? -eq 2 ] && grep -q 'copy: another run writes its checkpoints there' err || bad 'two runs at once'
kill -TERM $parent
wait $parent 2>/dev/null
[ $? -eq 143 ] || bad 'a signal: exit'
[ "$(ls -A copy | grep -cv '^step-')" -eq 0 ] || bad "a signal: $(ls -A copy)"
rm -f long # its steps are not those of the next run
redco-exec zero3.json --steps 100000 --dtype f64 --checkpoint copy --checkpoint-every 100000 --resume --timeout 3 >long 2>err &
parent=$!
tries=0
until grep -qs '^step' long || [ $tries -ge 400 ]; do sleep 0.05 && tries=$((tries + 1)); done
kill -STOP "$(cut -d ' ' -f 3 "/proc/$parent/task/$parent/children")"
wait $parent 2>/dev/null
[ $? -eq 3 ] && grep -Eq '^redco-exec: rank 2, step [0-9]+: .*: was not heard of for 3 s: it is stopped$' err &&
    [ "$(wc -l <err)" -eq 1 ] || bad 'a rank that hangs'

# What is done already is not done again.
redco-exec zero3.json --steps 1 --dtype f64 --checkpoint copy --resume >out 2>err || bad 'nothing to do'
grep -q 'nothing is left to train$' out && ! grep -q '^step' out || bad 'nothing to do'
# The same of a pipeline: a checkpoint that is torn, a disk that is full, and another plan, with evaluations and the best one.
digits="$tests/../executor/pipelines/data/digits-test.jsonl"
for name in 'p1 --gpus 2 --strategy ddp' 'p2 --gpus 4 --strategy zero3'; do
    set -- $name
    shift
    redco-plan --quiet --pipeline "$pipelines/digits.so" --cluster "$tests/data/exec/quad.json" --global-batch 16 --micro-batch 4 \
        --precision fp32 "$@" -o "${name%% *}.json" >/dev/null || exit 2
done
pipeline="--pipeline $pipelines/digits.so --data $digits --evaluate $digits --evaluate-every 4 --keep-best metric --dtype f64 --json"
redco-exec p2.json $pipeline --steps 12 --checkpoint pipe --checkpoint-every 6 >whole.out 2>err || bad 'pipeline'
rm -rf pipe
redco-exec p2.json $pipeline --steps 9 --checkpoint pipe --checkpoint-every 6 >out 2>err || bad 'pipeline'
truncate -s -8 pipe/step-0000000009/optimizer-00001-of-00001.safetensors
(ulimit -f 120 && redco-exec p1.json $pipeline --steps 12 --checkpoint pipe --resume >out 2>err)
[ $? -eq 3 ] && grep -q 'File too large$' err || bad 'pipeline: full disk'
! ls -A pipe | grep -q unfinished && [ -e pipe/step-0000000008/checkpoint.json ] || bad "pipeline: full disk: $(ls -A pipe)"
rm -rf pipe/damaged*
redco-exec p1.json $pipeline --steps 12 --checkpoint pipe --resume >resumed.out 2>err || bad 'pipeline: torn'
grep -q 'warning: pipe/step-0000000009/optimizer-.*; this checkpoint is passed over$' err || bad 'pipeline: torn: no warning'
python3 - <<'PY' || bad 'pipeline: torn: other losses'
import json
whole, resumed = (json.load(open(f)) for f in ("whole.out", "resumed.out"))
assert resumed["checkpoint"]["resumed_from"] == 8, resumed["checkpoint"]
a, b = whole["steps"][8:] + whole["evaluations"][2:], resumed["steps"] + resumed["evaluations"]
assert len(a) == len(b) == 5 and all(abs(x["loss"] / y["loss"] - 1) < 1e-10 for x, y in zip(a, b)), (a, b)
assert whole["checkpoint"]["best"]["step"] == resumed["checkpoint"]["best"]["step"]
PY
echo "$resumed pairs of plans, $damaged damaged checkpoints, $failures failures"
[ $failures -eq 0 ]
