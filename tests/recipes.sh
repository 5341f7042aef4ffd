#!/bin/sh
# tests/recipes.sh: does what CONTRIBUTING.md says, in a copy of the tree. Its fenced blocks are run in order:
#   sh                 commands, in the copy's root, before the build
#   c FILE: TEXT       lines that go behind the first line of FILE that holds TEXT
#   sh check           commands that must succeed after the build, redco's tools first on PATH
# A dimension touches at most 12 files.
# And the table of costmodel/FORMULAS.md names files and functions that are there.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
page=$root/CONTRIBUTING.md
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
copy=$scratch/redco
blocks=$scratch/blocks
mkdir "$copy" "$blocks" || exit 2
failures=0

fail() { # TEXT
    echo "CONTRIBUTING.md: $*"
    failures=$((failures + 1))
}

# Block 7 under "## An engine" is 7.block, what its fence says 7.fence, the heading 7.heading.
awk -v blocks="$blocks" '
    /^## / { heading = substr($0, 4); recipes++ }
    /^```./ && !inside { inside = 1; name = sprintf("%s/%03d", blocks, ++count); print substr($0, 4) >(name ".fence"); print heading >(name ".heading"); printf "" >(name ".block"); next }
    /^```$/ && inside { inside = 0; close(name ".block"); next }
    inside { print >(name ".block") }
    END { exit count < 1 || inside }' "$page" || { echo "CONTRIBUTING.md has no blocks, or one is open" && exit 1; }

insert() { # FILE TEXT BLOCK
    [ -f "$copy/$1" ] || { echo "no file $1" && return 1; }
    grep -qF -- "$2" "$copy/$1" || { echo "no line of $1 holds: $2" && return 1; }
    line=$(grep -nF -- "$2" "$copy/$1" | head -n 1 | cut -d: -f1)
    sed -i "${line}r $3" "$copy/$1"
}

tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$copy" -xf - || exit 2
before='' touched=0
for fence in "$blocks"/*.fence; do
    name=${fence%.fence} what=$(cat "$fence") heading=$(cat "${fence%.fence}.heading")
    [ "$heading" = "$before" ] || touch "$scratch/stamp"
    before=$heading
    case $what in
    "sh check") ;;
    sh) (cd "$copy" && sh -eu "$name.block") || fail "$heading: its commands fail" ;;
    "c "*)
        what=${what#c }
        insert "${what%%: *}" "${what#*: }" "$name.block" || fail "$heading: its lines have no place"
        ;;
    *) fail "$heading: a block of \"$what\"" ;;
    esac
    if [ "$heading" = 'A dimension' ]; then touched=$(find "$copy" -newer "$scratch/stamp" -type f | wc -l); fi
done
{ [ "$touched" -gt 0 ] && [ "$touched" -le 12 ]; } || fail "A dimension: $touched files are touched, at most 12"
[ $failures -eq 0 ] || exit 1

# Nothing is timed: without optimisation it builds in a third of the time.
launcher=
if command -v ccache >/dev/null; then launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
export CCACHE_BASEDIR="$copy" CCACHE_NOHASHDIR=1
# shellcheck disable=SC2086 # none or one option
if ! { cmake -S "$copy" -B "$copy/build/release" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 -DREDCO_WERROR=ON \
    -DREDCO_CUDA=OFF -DREDCO_TESTS=OFF $launcher && cmake --build "$copy/build/release" --target redco-plan redco_pipeline_my_digits; } >"$scratch/log" 2>&1; then
    grep -E 'error|FAILED' "$scratch/log" || tail -n 20 "$scratch/log"
    fail "with all recipes done, the tree does not build"
    exit 1
fi
recipes=0
for fence in "$blocks"/*.fence; do
    name=${fence%.fence}
    [ "$(cat "$fence")" = "sh check" ] || continue
    recipes=$((recipes + 1))
    (cd "$copy" && PATH=$copy/build/release/tools:$PATH sh -eu "$name.block") >"$scratch/log" 2>&1 ||
        { tail -n 5 "$scratch/log" && fail "$(cat "$name.heading"): its check fails"; }
done
[ $recipes -eq "$(cut -c1- "$blocks"/*.heading | sort -u | wc -l)" ] || fail "a recipe has no check, or two"

# | formula | file, ... | function, ... or any | source |
formulas=$(awk -F'|' '/^\| formula /{table = 1; next} table && /^\|/ && !/^\|---/' "$root/costmodel/FORMULAS.md")
[ -n "$formulas" ] || fail "no table of formulas"
printf '%s\n' "$formulas" >"$scratch/formulas"
while IFS='|' read -r _ formula files functions _; do
    for file in $(printf '%s' "$files" | tr -d '`,'); do
        [ -f "$root/$file" ] || fail "$formula: no file $file"
    done
    file=$(printf '%s' "$files" | tr -d '`,' | awk '{ print $1 }')
    for function in $(printf '%s' "$functions" | tr -d '`,'); do
        [ "$function" = any ] || grep -q "\b$function\b" "$root/$file" || fail "$formula: no $function in $file"
    done
done <"$scratch/formulas"

echo "$recipes recipes, a dimension touches $touched files, $(wc -l <"$scratch/formulas") formulas: $failures failures"
[ $failures -eq 0 ]
