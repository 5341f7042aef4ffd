#!/bin/sh
# tests/names.sh [TREE]: names are for people, traces and files. Outside of the files of tests/names.txt no source of
# costmodel, planner and executor compares texts; every entry of that list is there.
set -u
list=$(cd "$(dirname "$0")" && pwd)/names.txt
cd "${1:-$(dirname "$0")/..}" || exit 2
grep -rnE '\b(strcmp|strncmp|strcasecmp|strncasecmp|strstr|strcasestr)\b' costmodel planner executor \
    --include='*.c' --include='*.h' --include='*.cu' --include='*.cuh' | LC_ALL=C sort | awk -F: -v list="$list" '
    BEGIN {
        while ((getline line < list) > 0) {
            if (line ~ /^#/ || line == "") { continue }
            split(line, word, " ")
            if (word[2] == "") { print word[1] ": no reason is given"; failures++ }
            allowed[word[1]] = 1
            if (system("test -e " word[1]) != 0) { print word[1] " of the list is not there"; failures++ }
        }
    }
    {
        found++
        for (path = $1; path != "" && !(path in allowed);) {
            sub(/\/$/, "", path)
            if (!sub(/[^\/]*$/, "", path)) { path = "" }
        }
        if (path == "") { print $0 ": decide by a role or a number, or say in tests/names.txt why not"; failures++ }
    }
    END {
        if (found == 0) { print "no source compares a text: the search is broken"; failures++ }
        print found + 0 " comparisons of texts, " failures + 0 " out of place"
        exit failures > 0
    }'
