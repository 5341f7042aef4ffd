#!/bin/sh
# tests/man.sh TOOLS: the man page of each tool and its --help know the same options.
set -u
pages=$(cd "$(dirname "$0")/../tools/man" && pwd) || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failures=0
for tool in "$1"/redco-*; do
    if [ ! -f "$tool" ] || [ ! -x "$tool" ]; then continue; fi
    name=$(basename "$tool")
    [ -f "$pages/$name.1" ] || { echo "no man page $name.1" && failures=$((failures + 1)) && continue; }
    "$tool" --help | grep -oE -e '--[a-z][a-z0-9-]+' | grep -vx -e --usage | sort -u >"$scratch/help"
    grep -oE 'Fl Fl [a-z][a-z0-9-]+' "$pages/$name.1" | sed 's/Fl Fl /--/' | grep -vx -e --usage | sort -u >"$scratch/page"
    diff -u --label "$name --help" --label "$name.1" "$scratch/help" "$scratch/page" || failures=$((failures + 1))
done
[ $failures -eq 0 ]
