#!/bin/sh
# tests/named-files.sh [TREE]: comments of C sources name files that are there. NAME.c, NAME.h, NAME.cu, NAME.cuh and
# NAME.md in a comment are a file of the tree, by its name or by the end of its path, or a header that some source
# includes in angle brackets. Files of other projects are named with a folder that the tree has not: src/graph/topo.h.
# NAME in capital letters and * stand for any.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
find topology traces costmodel planner executor tools tests -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.md' \) | LC_ALL=C sort >"$scratch/files"
ls -- *.md >>"$scratch/files"
grep -v '\.md$' "$scratch/files" >"$scratch/sources"
# shellcheck disable=SC2016 # $0 is of awk
xargs grep -h '^#include <' <"$scratch/sources" | sed 's/^#include <\([^>]*\)>.*/\1/' >"$scratch/headers"
# shellcheck disable=SC2016 # $0 is of awk
xargs awk -v files="$scratch/files" -v headers="$scratch/headers" '
    function check(name, part) {
        names++
        if (name in there || name ~ /\*/ || name ~ /(^|\/)[A-Z]+\.(c|h|cu|cuh)$/) { return }
        split(name, part, "/")
        if (name ~ /\// && !(part[1] in folder)) { return }
        print FILENAME ":" FNR ": " name " is not there"
        failures++
    }
    function names_in(text, name) {
        while (match(text, /[A-Za-z0-9_.\/*-]*[A-Za-z0-9_*]\.(cuh|cu|c|h|md)([^A-Za-z0-9_(]|$)/)) {
            name = substr(text, RSTART, RLENGTH)
            sub(/[^A-Za-z0-9_]$/, "", name)
            text = substr(text, RSTART + RLENGTH)
            check(name)
        }
    }
    BEGIN {
        while ((getline path < headers) > 0) {
            there[path] = 1
            sub(/.*\//, "", path)
            there[path] = 1
        }
        while ((getline path < files) > 0) {
            count = split(path, part, "/")
            end = part[count]
            there[end] = 1
            for (i = count - 1; i >= 1; i--) {
                folder[part[i]] = 1
                end = part[i] "/" end
                there[end] = 1
            }
        }
    }
    FNR == 1 { inside = 0 }
    {
        for (rest = $0; rest != ""; inside = !inside) {
            at = index(rest, inside ? "*/" : "/*")
            if (inside) { names_in(at == 0 ? rest : substr(rest, 1, at - 1)) }
            if (at == 0) { break }
            rest = substr(rest, at + 2)
        }
    }
    END {
        if (names == 0) { print "no comment names a file: the search is broken"; failures++ }
        print names + 0 " files named in comments, " failures + 0 " of them not there"
        exit failures > 0
    }' <"$scratch/sources"
