#!/bin/sh
# tests/golden.sh [--update] TOOLS CASE: runs one golden case. CASE is a folder with
#   cmd             shell line(s), run by sh with the folder TOOLS first on PATH
#   stdout, stderr  expected text; where the file is missing, that stream is not checked
#   exit            expected exit code; 0 where missing
#   needs           what the case cannot do without, one a line: "shared" (the folder ../shared beside the project), a path
#                   below it ("shared/profiles/x.txt") or a program; where one is missing the case exits 77, skipped
#   filter          sed script for parts that vary in this case only; those of all cases are in golden.sed
#   mask            the streams ("stdout", "stderr") whose predicted numbers golden-mask.sed replaces with N: the case holds
#                   the text and the choices, not the figures. A few cases hold figures (README.md, golden cases).
# cmd runs in a copy of CASE inside a scratch tree that looks like the project: ../../data and ../../../topology are
# found, and what it writes is gone afterwards. Expected and actual text pass through the same filters.
# --update rewrites the files that exist (a case that has none yet gets all that are not empty).
set -u
update=false
if [ "$1" = --update ]; then update=true && shift; fi
tools=$(cd "$1" && pwd) || exit 2
case_dir=$(cd "$2" && pwd) || exit 2
name=$(basename "$case_dir")
tests=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$tests")

if [ -f "$case_dir/needs" ]; then
    while read -r need; do
        case $need in
        '') ;;
        shared*) [ -e "$root/../$need" ] || { echo "skipped: there is no ../$need" && exit 77; } ;;
        *) command -v "$need" >/dev/null || { echo "skipped: $need is not installed" && exit 77; } ;;
        esac
    done <"$case_dir/needs"
fi

scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/redco/tests/golden" "$scratch/got"
for entry in "$root"/*; do
    case $(basename "$entry") in tests | build*) ;; *) ln -s "$entry" "$scratch/redco/" ;; esac
done
for entry in "$tests"/*; do
    [ "$entry" = "$tests/golden" ] || ln -s "$entry" "$scratch/redco/tests/"
done
[ ! -e "$root/../shared" ] || ln -s "$root/../shared" "$scratch/shared"
cp -R "$case_dir" "$scratch/redco/tests/golden/"

(
    cd "$scratch/redco/tests/golden/$name" || exit 2
    unset HWLOC_XMLFILE HWLOC_SYNTHETIC HWLOC_COMPONENTS
    PATH=$tools:$PATH LC_ALL=C.UTF-8 TZ=UTC COLUMNS=120 sh ./cmd
) >"$scratch/got/stdout" 2>"$scratch/got/stderr" </dev/null
echo $? >"$scratch/got/exit"

# A sanitizer's exit code may be the one that is wanted: its report never is.
if grep -Eq 'runtime error:|(Address|Leak|UndefinedBehavior)Sanitizer' "$scratch/got/stderr"; then
    cat "$scratch/got/stderr"
    exit 1
fi

masked() { # STREAM
    if grep -qw "$1" "$case_dir/mask" 2>/dev/null; then LC_ALL=C.UTF-8 sed -E -f "$tests/golden-mask.sed"; else cat; fi
}

filter() { # FILE STREAM
    if [ -f "$case_dir/filter" ]; then
        sed -f "$tests/golden.sed" -f "$case_dir/filter" "$1" | masked "$2"
    else
        sed -f "$tests/golden.sed" "$1" | masked "$2"
    fi
}

if $update; then
    fresh=true
    [ -f "$case_dir/stdout" ] || [ -f "$case_dir/stderr" ] || [ -f "$case_dir/exit" ] && fresh=false
    for stream in stdout stderr; do
        if [ -f "$case_dir/$stream" ] || { $fresh && [ -s "$scratch/got/$stream" ]; }; then
            filter "$scratch/got/$stream" "$stream" >"$case_dir/$stream"
        fi
    done
    if [ -f "$case_dir/exit" ] || [ "$(cat "$scratch/got/exit")" != 0 ]; then cp "$scratch/got/exit" "$case_dir/exit"; fi
    exit 0
fi

status=0
for stream in stdout stderr; do
    [ -f "$case_dir/$stream" ] || continue
    filter "$case_dir/$stream" "$stream" >"$scratch/want.$stream"
    filter "$scratch/got/$stream" "$stream" >"$scratch/got.$stream"
    diff -u --label "expected $stream" --label "actual $stream" "$scratch/want.$stream" "$scratch/got.$stream" || status=1
done
want=0
[ ! -f "$case_dir/exit" ] || want=$(cat "$case_dir/exit")
if [ "$(cat "$scratch/got/exit")" != "$want" ]; then
    echo "exit code $(cat "$scratch/got/exit"), expected $want; standard error:"
    cat "$scratch/got/stderr"
    status=1
fi
exit $status
