#!/bin/sh
# tests/folders.sh [TREE]: folders are libraries. Every folder with C or CUDA sources stands in tests/folders.txt, lowest
# first; a file includes headers of its own folder and of lower ones only; and a file name occurs once in the tree, but
# for the backends of the executor, which mirror each other.
set -u
list=$(cd "$(dirname "$0")" && pwd)/folders.txt
cd "${1:-$(dirname "$0")/..}" || exit 2
# shellcheck disable=SC2046 # no source has a space in its name
set -- $(find topology traces costmodel planner executor tools \
    -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort)
[ $# -gt 0 ] || { echo "no sources below $PWD" && exit 1; }
grep -H '^#include "' "$@" | awk -v list="$list" '
    function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
    function fail(text) { print text; failures++ }
    BEGIN {
        while ((getline line < list) > 0) { if (line !~ /^#/ && line != "") { place[line] = ++folders } }
        for (i = 1; i < ARGC; i++) {
            file = ARGV[i]
            ARGV[i] = ""
            home = folder(file)
            if (!(home in place)) { if (!said[home]++) { fail(home " is not in tests/folders.txt") } }
            name = file
            sub(/.*\//, "", name)
            mirror = home ~ /^executor\/backend\// ? "executor/backend" : home
            if (name in first && mirror != where[name]) { fail(file ": the name stands in " first[name] ", too") }
            if (!(name in first)) { first[name] = file; where[name] = mirror }
        }
    }
    {
        file = substr($0, 1, index($0, ":") - 1)
        header = $0
        sub(/^[^"]*"/, "", header)
        sub(/".*/, "", header)
        from = folder(file)
        to = header ~ /\// ? folder(header) : from
        includes++
        if (!(to in place)) {
            fail(file " includes " header ", whose folder is not in tests/folders.txt")
        } else if (from in place && place[to] > place[from]) {
            fail(file " includes " header ": " to " stands above " from)
        }
    }
    END {
        print includes " includes in " folders " folders: " failures + 0 " against the order"
        exit failures > 0
    }' "$@"
