#!/bin/sh
# tests/headers.sh COMPILER FLAG... [-- HEADER...]: each header compiles alone and twice included; all headers of the
# modules where none is named. Skipped (77) where there is no such compiler.
set -u
cd "$(dirname "$0")/.." || exit 2
compiler=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    compiler="${compiler:+$compiler }$1"
    shift
done
command -v "${compiler%% -*}" >/dev/null || { echo "skipped: no compiler $compiler" && exit 77; }
if [ $# -gt 0 ]; then shift; fi
# shellcheck disable=SC2046 # no header has a space in its name
[ $# -gt 0 ] || set -- $(find topology costmodel planner executor traces tools -name '*.h')
failures=0
for header in "$@"; do
    # shellcheck disable=SC2086 # the compiler and its flags are words
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        $compiler -fsyntax-only -Wall -Wextra -Wpedantic -Werror -D_GNU_SOURCE -I. - || failures=$((failures + 1))
done
echo "$# headers, $failures do not compile alone"
[ $failures -eq 0 ]
