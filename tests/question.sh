#!/bin/sh
# tests/question.sh [TREE]: what a user can say to a search is one struct, redco_search_options, of at most 24 members,
# the engine's limits and the pass's bookkeeping (search_pass.h) counted as one each.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2
awk '
    /^typedef struct redco_search_options \{/ { inside = 1; next }
    /^\} redco_search_options;/ { inside = 0 }
    inside { line = $0; gsub(/\/\*.*\*\//, "", line); sub(/\/\*.*/, "", line); if (line !~ /^ *\*/ && line ~ /;/) { members += gsub(/[;,]/, "", line) } }
    END { print members + 0 " members of redco_search_options"; exit members < 10 || members > 24 }' planner/search/search.h
