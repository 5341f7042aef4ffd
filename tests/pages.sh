#!/usr/bin/env bash
# tests/pages.sh TOOLS: what the pages (*.md, not CHANGELOG.md) name exists: linked files, scripts and programs of tools/
# and tests/, unit tests, jobs of tools/run, and the options of redco's tools. Sources are looked for by name alone, since
# a name occurs once in the tree. CHANGELOG.md has at most 120 lines.
# shellcheck disable=SC2013 # names have no spaces
set -uo pipefail
tools=$(cd "$1" && pwd) || exit 2
cd "$(dirname "$(readlink -f "$0")")/.." || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
status=0
wrong() { echo "$1: $2" && status=1; }

[ "$(wc -l <CHANGELOG.md)" -le 120 ] || wrong CHANGELOG.md "has $(wc -l <CHANGELOG.md) lines, at most 120"

find . \( -name .git -o -name 'build*' -type d \) -prune -o -type f -printf '%P\n' >"$scratch/files"
sed 's|.*/||' "$scratch/files" | sort -u >"$scratch/names"
grep -oE '^ *"?[a-z][a-z-]*\)' tools/run | tr -d ' ")' | sort -u >"$scratch/jobs"
find . \( -name .git -o -name 'build*' -type d \) -prune -o \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cmake' -o \
    -name CMakeLists.txt -o -name '*.in' \) -type f -print0 | xargs -0 grep -ohE '\bredcoi?_[a-z0-9_]+' | sort -u >"$scratch/symbols"
named() { grep -Fxq -- "$1" "$scratch/names"; }

# words PAGE: the words of its code, of spans and blocks.
words() {
    awk '/^```/ { inside = !inside; next } inside || /^    [^ ]/ { print; next }
        { line = $0; while (match(line, /`[^`]+`/)) { print substr(line, RSTART + 1, RLENGTH - 2); line = substr(line, RSTART + RLENGTH) } }' "$1"
}

for page in $(grep '\.md$' "$scratch/files" | grep -vx 'CHANGELOG.md' | sort); do
    folder=$(dirname "$page")
    for link in $(grep -oE '\]\([^)# ]+' "$page" | cut -c3- | grep -v '^https*:' | sort -u); do
        [ -e "$folder/$link" ] || wrong "$page" "links to $link, which is not there"
    done
    words "$page" >"$scratch/code"
    for name in $(grep -oE '(^|[ (])(tools|tests)/[a-z][A-Za-z0-9_./-]*' "$scratch/code" | tr -d ' (' |
        grep -v '[A-Z][A-Z]' | sort -u); do # CASE, READER: any
        [ -e "$name" ] || named "${name##*/}" || wrong "$page" "names $name, which is not there"
    done
    for name in $(grep -oE '[A-Za-z0-9_.-]+[.][ch]\b' "$scratch/code" | grep -v '^[.-]' | grep -v '[A-Z][A-Z]' | sort -u); do
        named "$name" || [ "$page" = CONTRIBUTING.md ] || wrong "$page" "names $name, which is not there" # recipes make some
    done
    for name in $(grep -oE '\bredcoi?_[a-z0-9_]+[(][)]' "$scratch/code" | tr -d '()' | sort -u); do
        grep -Fxq -- "$name" "$scratch/symbols" || wrong "$page" "names $name(), which is not there"
    done
    for name in $(grep -oE '\btest_[a-z0-9_]+[(]?' "$scratch/code" | grep -v '[(]$' | sort -u); do
        named "$name.c" || grep -q "^$name" "$scratch/names" || wrong "$page" "names $name, which is no test"
    done
    for job in $(grep -oE 'tools/run [a-z][a-z-]*' "$scratch/code" | cut -d' ' -f2 | sort -u); do
        [ -f "tools/redco-$job.c" ] || named "redco-$job.c" || grep -Fxq "$job" "$scratch/jobs" ||
            wrong "$page" "names the job tools/run $job, which is not there"
    done
    for tool in topo plan sim rules validate calibrate profile exec plot; do
        [ -x "$tools/redco-$tool" ] || continue
        [ -f "$scratch/$tool" ] || "$tools/redco-$tool" --help >"$scratch/$tool" 2>&1
        for option in $(grep -oE "(redco-|tools/run )$tool [^|;&]*" "$scratch/code" | sed 's/ redco-.*//; s/ -- .*//' |
            grep -oE ' --[a-z][a-z-]+' | tr -d ' ' | sort -u); do
            grep -qF ".option = \"${option#--}\"" "$page" && continue # a recipe adds it
            grep -qE -- "$option(\b|\[|=|\$)" "$scratch/$tool" || wrong "$page" "redco-$tool has no $option"
        done
    done
done
exit $status
