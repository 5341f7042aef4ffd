#!/bin/sh
# tests/exec-kept.sh TOOLS: nothing of a user's is deleted. A folder of checkpoints has foreign files, links, checkpoints
# that are damaged or cannot be read, in 27 ways; a run is resumed there with --keep 1 and --quiet and saves twice. Every
# file that redco did not write, and every byte of a checkpoint that it could not prove, is still there under some name;
# each thing that lost its name is named; what is superseded is gone; the next run finds nothing to say.
# Words and names of our own; "a && b || bad" is meant.
# shellcheck disable=SC2086,SC2015
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
scratch=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 2 # where flushing takes no time
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
failures=0 kinds=0
bad() {
    echo "$*"
    cat out err
    ls -lAR copy
    failures=$((failures + 1))
}
redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$tests/data/models/oracle/llama.json" --seq 4 \
    --global-batch 2 --micro-batch 1 --precision fp32 --gpus 1 -o plan.json >/dev/null || exit 2
redco-exec plan.json --steps 4 --checkpoint ck --checkpoint-every 2 >out 2>err || exit 2
sha256sum ck/*/* >written
old=step-0000000002 new=step-0000000004 model=model-00001-of-00001.safetensors
aside2=damaged-step-0000000002 aside4=damaged-step-0000000004

# Digest and number of each file, and its name.
inventory() {
    find copy elsewhere -type f | sort | tr '\n' '\0' >names
    xargs -0 sha256sum <names | cut -c 1-64 >digests
    xargs -0 stat -c '%i %n' <names | paste -d ' ' digests -
}

# kind WHAT FROM [NAME=ASIDE]...: the folder "copy" was changed. The run goes on from step FROM, and what had the NAMEs is
# under the ASIDEs.
kind() {
    what=$1 from=$2
    shift 2
    kinds=$((kinds + 1))
    inventory >before
    timeout 20 redco-exec plan.json --quiet --json --steps 6 --checkpoint copy --checkpoint-every 1 --keep 1 --resume \
        >out 2>err || bad "$what: exit $?"
    grep -q "\"resumed_from\": $from,\$" out || bad "$what: not resumed from $from"
    inventory >after
    cut -d ' ' -f 1,2 after >there
    for pair in "$@"; do
        [ -e "copy/${pair#*=}" ] || [ -L "copy/${pair#*=}" ] || bad "$what: no ${pair#*=}"
        grep -q "^redco-exec: warning: copy/${pair%=*} is set aside as copy/${pair#*=}: ." err ||
            bad "$what: ${pair%=*} is not named"
    done
    [ "$(grep -c 'set aside' err)" -eq $# ] || bad "$what: not $# set aside"
    # What is gone is a file of a checkpoint that was proved, and is as redco wrote it.
    awk 'NR == FNR { there[$0] = 1; next } !(($1 " " $2) in there)' there before >gone
    while read -r digest _ file; do
        name=${file#copy/}
        case " $*" in *" ${name%%/*}="*) [ "${what#kept}" != "$what" ] || bad "$what: $file is gone" ;; esac
        grep -q "^$digest  ck/$name$" written || bad "$what: $file is gone"
    done <gone
    [ "$(find copy -maxdepth 1 -name 'step-??????????' | wc -l)" -eq 1 ] && [ -d copy/step-0000000006 ] || bad "$what: not one checkpoint"
    [ -z "$(find copy -maxdepth 1 -name '.[ur]*')" ] || bad "$what: something unfinished stays"
    timeout 20 redco-exec plan.json --quiet --steps 7 --checkpoint copy --keep 1 --resume >out 2>err || bad "$what: again: exit $?"
    [ ! -s err ] || bad "$what: again: says something"
}
fresh() {
    rm -rf copy elsewhere
    cp -r ck copy
    mkdir elsewhere
    echo thesis >elsewhere/thesis.txt
}
flip() { # FILE OFFSET: one bit
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059 # an octal escape
    printf "\\$(printf '%03o' $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
fresh && kind 'as it was' 4
# Checkpoints that are damaged or cannot be read: newer ones are passed over, older ones are not removed.
fresh && flip copy/$new/checkpoint.json 100 && kind 'a changed byte of the newest manifest' 2 $new=$aside4
fresh && flip copy/$old/checkpoint.json 100 && kind 'a changed byte of an old manifest' 4 $old=$aside2
fresh && flip copy/$new/$model 20000 && kind 'a changed weight of the newest' 2 $new=$aside4
fresh && truncate -s -1 copy/$old/$model && kind 'an old file that is cut off' 4 $old=$aside2
fresh && rm copy/$old/$model && kind 'an old file that is missing' 4 $old=$aside2
fresh && rm copy/$new/checkpoint.json && kind 'no manifest' 2 $new=$aside4
fresh && echo '{}' >copy/$new/config.json && kind 'another config.json' 2 $new=$aside4
fresh && rm copy/$new/checkpoint.json && mkfifo copy/$new/checkpoint.json && kind 'a pipe for a manifest' 2 $new=$aside4
fresh && rm copy/$new/$model && mkfifo copy/$new/$model && kind 'a pipe for weights' 2 $new=$aside4
fresh && rm copy/$new/$model && mkdir copy/$new/$model && kind 'a folder for weights' 2 $new=$aside4
fresh && rm -rf copy/$new && cp -r copy/$old copy/$new && kind 'another step' 2 $new=$aside4
fresh && mkdir copy/$aside4 && cp elsewhere/thesis.txt copy/$aside4 && rm copy/$new/checkpoint.json &&
    kind 'a name that is taken' 2 $new=$aside4-2
# Folders and files that are not redco's.
fresh && mkdir copy/step-0000000900 && cp elsewhere/thesis.txt copy/step-0000000900 &&
    kind 'a newer folder' 4 step-0000000900=damaged-step-0000000900
fresh && mkdir copy/step-0000000001 && cp elsewhere/thesis.txt copy/step-0000000001 &&
    kind 'an older folder' 4 step-0000000001=damaged-step-0000000001
fresh && cp elsewhere/thesis.txt copy/step-0000000006 && kind 'a file' 4 step-0000000006=damaged-step-0000000006
fresh && cp elsewhere/thesis.txt copy/$old/checkpoint.json && kind 'a text for a manifest' 4 $old=$aside2
fresh && cp elsewhere/thesis.txt copy/ && mkdir copy/step-5 copy/step-00000000005 copy/Step-0000000001 &&
    cp elsewhere/thesis.txt copy/step-5 && kind 'other names' 4
fresh && mkdir copy/.unfinished-step-0000000005 && cp elsewhere/thesis.txt copy/.unfinished-step-0000000005/config.json &&
    kind 'a folder of an unfinished name' 4 .unfinished-step-0000000005=damaged-step-0000000005
fresh && mkdir copy/.removed-step-0000000001 && cp elsewhere/thesis.txt copy/.removed-step-0000000001 &&
    kind 'a folder of a removed name' 4 .removed-step-0000000001=damaged-step-0000000001
# Files of a user's in a checkpoint that is whole: it is removed, they are not.
fresh && cp elsewhere/thesis.txt copy/$old && kind 'kept: a file in a checkpoint' 4 $old=$aside2
fresh && mkdir copy/$old/notes && cp elsewhere/thesis.txt copy/$old/notes && kind 'kept: a folder in a checkpoint' 4 $old=$aside2
fresh && ln -s "$scratch/elsewhere" copy/$old/link && kind 'kept: a link in a checkpoint' 4 $old=$aside2
# Links are not followed.
fresh && rm copy/$old/config.json && cp ck/$old/config.json elsewhere && ln -s "$scratch/elsewhere/config.json" copy/$old/config.json &&
    kind 'a link for a file' 4 $old=$aside2
fresh && mv copy/$old elsewhere && ln -s "$scratch/elsewhere/$old" copy/$old && kind 'a link for a checkpoint' 4 $old=$aside2
fresh && ln -s "$scratch/elsewhere" copy/.unfinished-step-0000000005 &&
    kind 'a link of an unfinished name' 4 .unfinished-step-0000000005=damaged-step-0000000005
fresh && ln -s "$scratch/elsewhere" copy/step-0000000005 && kind 'a link in the way' 4 step-0000000005=damaged-step-0000000005
echo "$kinds kinds of folders, $failures failures"
[ $failures -eq 0 ]
