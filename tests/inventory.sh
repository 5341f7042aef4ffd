#!/bin/sh
# tests/inventory.sh [COMMIT]: names of all checks in the sources, or in those of a commit: CMocka cases, golden cases, seeds
# of fuzz targets, scripts. What a change loses of them: diff <(tests/inventory.sh main) <(tests/inventory.sh).
set -eu
cd "$(dirname "$0")/.."
files() { if [ $# -gt 0 ]; then git ls-tree -r --name-only "$1"; else git ls-files -co --exclude-standard; fi | grep '^tests/'; }
{
    git grep --untracked -ohE 'cmocka_unit_test[a-z_]*\([A-Za-z_][A-Za-z0-9_]*' "$@" -- 'tests/unit/*.c' 2>/dev/null ||
        git grep -ohE 'cmocka_unit_test[a-z_]*\([A-Za-z_][A-Za-z0-9_]*' "$@" -- 'tests/unit/*.c'
} | sed 's/.*(/case /' | sort
files "$@" | sed -nE 's|^tests/golden/(.*)/cmd$|golden \1|p; s|^(tests/.*\.sh)$|script \1|p; s|^tests/fuzz/corpus/(.*)|seed \1|p' | sort
