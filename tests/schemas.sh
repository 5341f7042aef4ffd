#!/bin/sh
# tests/schemas.sh TOOLS: every preset, and what the tools print, against the JSON Schema of its format. Needs Debian's
# python3-jsonschema (its command, not a Python of one's own); skipped (77) without it.
set -u
tools=$1
cd "$(dirname "$0")/.." || exit 2
[ -x /usr/bin/jsonschema ] || { echo "skipped: python3-jsonschema is not installed" && exit 77; }
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failures=0
checked=0

check() { # SCHEMA FILE...
    schema=$1
    shift
    [ -e "$1" ] || return 0
    [ -f "$schema" ] || { echo "no schema $schema" && failures=$((failures + 1)) && return; }
    for file in "$@"; do
        checked=$((checked + 1))
        /usr/bin/jsonschema --base-uri "file://$PWD/$(dirname "$schema")/" -i "$file" "$schema" ||
            failures=$((failures + 1))
    done
}

"$tools/redco-topo" --json >"$scratch/node.json" 2>/dev/null && check topology/node.schema.json "$scratch/node.json"
check topology/gpu.schema.json topology/presets/gpus/*.json
echo "$checked documents, $failures failures"
[ $failures -eq 0 ]
