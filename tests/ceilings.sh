#!/bin/sh
# tests/ceilings.sh [--update | --set | --list KIND]: counts, by folder, that may fall and not rise. tests/ceilings.txt has the ceilings; a folder without one has 0.
#   headless   comments that begin with What, Who, Whose, Of, Whether or How and are no question
#   sources    C and CUDA sources beyond 24 directly in a folder of the product
#   uncalled   functions declared in headers that no source outside of tests calls; the calls of users' pipelines
#              (executor/pipeline/user_pipeline.h, and build_calls.h and task.h, which it includes) are not counted, nor
#              functions that ceilings.txt keeps with a reason ("keep NAME REASON"); a line without such a function fails
# --list prints the places of one kind; --update lowers ceilings to today's counts, and raises none; --set writes today's
# counts, higher ones too: for merges of branches that began below other ceilings.
set -u
mode=${1-}
list=$(cd "$(dirname "$0")" && pwd)/ceilings.txt
cd "$(dirname "$0")/.." || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
product='topology traces costmodel planner executor tools'
# shellcheck disable=SC2086 # folders
find $product tests \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | LC_ALL=C sort >"$scratch/all"
grep -v '^tests/' "$scratch/all" >"$scratch/product"

# FILE:LINE: text
# shellcheck disable=SC2016 # $0 is of awk
xargs awk '
    # The first sentence of a comment, without stars and @file NAME; a field may be described in small letters.
    function judge(text, end) {
        gsub(/[ \t*]+/, " ", text)
        sub(/^[<! ]+/, "", text)
        sub(/^@file [^ ]+ /, "", text)
        end = match(text, /[.;:?] |[.;:?]$/)
        if (tolower(text) ~ /^(what|whose|who|of|whether|how)[ ,]/ && !(end > 0 && substr(text, end, 1) == "?")) {
            print file ":" line ": " substr(text, 1, 90)
        }
    }
    FNR == 1 { inside = 0 }
    {
        rest = $0
        while (rest != "") {
            if (!inside) {
                at = index(rest, "/*")
                if (at == 0) { break }
                rest = substr(rest, at + 2)
                inside = 1
                text = ""
                file = FILENAME
                line = FNR
            }
            at = index(rest, "*/")
            if (at == 0) { text = text " " rest; break }
            text = text " " substr(rest, 1, at - 1)
            rest = substr(rest, at + 2)
            inside = 0
            judge(text)
        }
    }' <"$scratch/all" >"$scratch/headless"

# One line for each source beyond the 24th.
grep -E '\.(c|cu)$' "$scratch/product" | awk '{ folder = $0; sub(/\/[^\/]*$/, "", folder); if (++count[folder] > 24) { print $0 ":0: source " count[folder] } }' >"$scratch/sources"

# A name stands at its declaration and its definition, which begin in column 0; anywhere else it is used.
# shellcheck disable=SC2016 # $0 is of awk
xargs awk '
    function name_of(line) {
        gsub(/__attribute__\(\([^;{]*\)\)\)? /, "", line)
        if (line !~ /^[A-Za-z_][A-Za-z0-9_ *]*[ *][a-z][A-Za-z0-9_]*\(/ || line ~ /^(return|else|static|typedef) /) { return "" }
        sub(/\(.*/, "", line)
        sub(/.*[ *]/, "", line)
        return line
    }
    FNR == 1 { inside = 0; header = FILENAME ~ /\.(h|cuh)$/ }
    {
        line = $0
        code = ""
        gsub(/"(\\.|[^"\\])*"/, "\"\"", line)
        while (line != "") {
            at = index(line, inside ? "*/" : "/*")
            if (!inside) { code = code substr(line, 1, at == 0 ? length(line) : at - 1) }
            if (at == 0) { break }
            line = substr(line, at + 2)
            inside = !inside
        }
        own = name_of(code)
        if (own != "") {
            owns[own]++
            if (header && !(own in where)) { where[own] = FILENAME ":" FNR }
        }
        # A kernel of a real type is called by its name without the type.
        if (match(code, /REAL_NAME\([a-z0-9_]+\)/)) {
            own = substr(code, RSTART + 10, RLENGTH - 11)
            seen["redcoi_" own "_f32"]++
            seen["redcoi_" own "_f64"]++
        }
        while (match(code, /[A-Za-z_][A-Za-z0-9_]*/)) {
            seen[substr(code, RSTART, RLENGTH)]++
            code = substr(code, RSTART + RLENGTH)
        }
    }
    END { for (name in where) { if (seen[name] <= owns[name]) { print where[name] ": " name } } }' <"$scratch/product" |
    grep -vE '/(build_calls|task|user_pipeline)\.h:' | LC_ALL=C sort >"$scratch/all_uncalled"
sed -n 's/^keep \([a-z0-9_]*\) .*/: \1$/p' "$list" >"$scratch/kept"
grep -v -f "$scratch/kept" "$scratch/all_uncalled" >"$scratch/uncalled"
while read -r pattern; do
    grep -q -- "$pattern" "$scratch/all_uncalled" && continue
    echo "tests/ceilings.txt: ${pattern#: } is called now, or gone: drop its line" && exit 1
done <"$scratch/kept"

if [ "$mode" = --list ]; then cat "$scratch/${2:-headless}" && exit; fi
for kind in headless sources uncalled; do
    sed 's|/[^/:]*:.*||' "$scratch/$kind" | LC_ALL=C sort | uniq -c | awk -v kind=$kind '{ print kind, $2, $1 }'
done >"$scratch/now"
if [ "$mode" = --set ]; then
    { grep -E '^(#|keep )' "$list" && cat "$scratch/now"; } >"$scratch/list" && cp "$scratch/list" "$list"
    mode=
fi
awk -v update="$mode" -v list="$list" '
    FILENAME == ARGV[1] { now[$1 " " $2] = $3; total[$1] += $3; next }
    /^(#|keep )/ { if (update) { text = text $0 "\n" } next }
    NF == 3 {
        key = $1 " " $2
        ceiling[key] = $3
        if (now[key] + 0 < $3 + 0) { below++ }
        least = now[key] + 0 < $3 + 0 ? now[key] + 0 : $3
        if (least > 0) { text = text key " " least "\n" }
    }
    END {
        for (key in now) {
            if (now[key] > ceiling[key] + 0) {
                split(key, word, " ")
                print word[2] ": " now[key] " " word[1] ", at most " ceiling[key] + 0 ": tests/ceilings.sh --list " word[1]
                failures++
            }
        }
        if (update) { printf "%s", text >list }
        print total["headless"] + 0 " headless comments, " total["sources"] + 0 " sources beyond 24 in a folder, " total["uncalled"] + 0 " functions without a caller: " failures + 0 " folders above their ceilings"
        if (below && !update) { print below " ceilings are higher than need be: tests/ceilings.sh --update" }
        exit failures > 0
    }' "$scratch/now" "$list"
