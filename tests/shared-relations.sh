#!/bin/sh
# tests/shared-relations.sh TOOLS: the relations between answers that lie beside the sources (../shared/relations) hold.
# Skipped where they are not there. Allowed: 31, an order of passes that its engine does not have. It is priced as if the
# engine had it, a warning says so, and the free question leaves it out.
set -u
relations=$(dirname "$0")/../../shared/relations
[ -f "$relations/relations.py" ] || { echo 'skipped: ../shared/relations is not there' && exit 77; }
command -v python3 >/dev/null || { echo 'skipped: python3 is not installed' && exit 77; }
out=$(TOOLS=$1 TREE=$(dirname "$0")/.. python3 "$relations/relations.py" "$relations/relations.json")
echo "$out"
echo "$out" | grep -q 'relations hold$' || exit 1
! echo "$out" | grep '^WRONG' | grep -v '^WRONG 31 '
