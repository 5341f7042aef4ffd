#!/bin/sh
# tests/type-names.sh [TREE]: no name of a header is both of a type and of a function: a reader searches for one of them.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2
# shellcheck disable=SC2016 # $0 is of awk
find topology traces costmodel planner executor tools -name '*.h' -o -name '*.cuh' | LC_ALL=C sort | xargs awk '
    function type(name) { if (name != "" && !(name in types)) { types[name] = FILENAME ":" FNR } }
    /^(typedef )?(struct|union|enum) [A-Za-z0-9_]+ \{/ { match($0, /(struct|union|enum) [A-Za-z0-9_]+/); tag = substr($0, RSTART, RLENGTH); sub(/.* /, "", tag); type(tag) }
    /^\} [A-Za-z0-9_]+;/ { tag = $2; sub(/;.*/, "", tag); type(tag) }
    /^typedef / {
        tag = $0
        if (tag ~ /\(\*/) {
            sub(/.*\(\*/, "", tag)
            sub(/\).*/, "", tag)
            type(tag)
        } else if (tag ~ /\(/ || tag ~ /;/) {
            sub(/[(;].*/, "", tag)
            sub(/.*[ *]/, "", tag)
            type(tag)
        }
        next
    }
    {
        line = $0
        gsub(/__attribute__\(\([^;{]*\)\)\)? /, "", line)
        if (line !~ /^[A-Za-z_][A-Za-z0-9_ *]*[ *][a-z][A-Za-z0-9_]*\(/) { next }
        sub(/\(.*/, "", line)
        sub(/.*[ *]/, "", line)
        functions[line] = FILENAME ":" FNR
    }
    END {
        for (name in types) {
            count++
            if (name in functions) { print types[name] ": " name " is a function, too: " functions[name]; failures++ }
        }
        for (name in functions) { calls++ }
        if (count == 0 || calls == 0) { print "no types or no functions: the search is broken"; failures++ }
        print count + 0 " types and " calls + 0 " functions in headers, " failures + 0 " names of both"
        exit failures > 0
    }'
