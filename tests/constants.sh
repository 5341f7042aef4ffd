#!/bin/sh
# tests/constants.sh [TREE]: constants of the model that stand in C have a source. Each `const double NAME =` with static
# storage in costmodel and planner/run is below a comment (or in a row of such lines below one) that says "Since V",
# the version of calibrations whose sets are fitted with its value, and "source"; or tests/constants.txt says why it is
# none of the model.
set -u
list=$(cd "$(dirname "$0")" && pwd)/constants.txt
cd "${1:-$(dirname "$0")/..}" || exit 2
# shellcheck disable=SC2016 # $0 is of awk
find costmodel planner/run -name '*.[ch]' | LC_ALL=C sort | xargs awk -v list="$list" '
    BEGIN {
        while ((getline line < list) > 0) {
            if (line ~ /^#/ || line == "") { continue }
            split(line, word, " ")
            if (word[3] == "") { print word[1] ": no reason is given"; failures++ }
            allowed[word[1], word[2]] = 1
            unused[word[1] " " word[2]] = 1
        }
    }
    function check(name) {
        constants++
        delete unused[FILENAME " " name]
        if ((FILENAME, name) in allowed) { return }
        if (comment ~ /[Ss]ince[ *]+[0-9]/ && comment ~ /[Ss]ource/) { sourced++; return }
        print FILENAME ":" FNR ": " name ": its comment lacks \"Since V; source: ...\"; or tests/constants.txt says what it is"
        failures++
    }
    FNR == 1 { comment = ""; inside = 0; initialiser = 0 }
    inside { comment = comment " " $0; if ($0 ~ /\*\//) { inside = 0 } next }
    /^ *\/\*/ { comment = $0; if ($0 !~ /\*\//) { inside = 1 } next }
    initialiser { if ($0 ~ /;/) { initialiser = 0 } next }
    /^(static )?const double [a-z]/ || /^ +static const double [a-z]/ {
        text = $0
        sub(/^.*const double /, "", text)
        while (match(text, /[a-z][a-z0-9_]*(\[[A-Z_a-z0-9 -]*\])* = /)) {
            name = substr(text, RSTART, RLENGTH)
            sub(/[\[ ].*/, "", name)
            text = substr(text, RSTART + RLENGTH)
            check(name)
        }
        initialiser = $0 !~ /;/
        next
    }
    { comment = "" }
    END {
        for (entry in unused) { print entry " of tests/constants.txt is not there"; failures++ }
        if (sourced == 0) { print "no constant has a source: the search is broken"; failures++ }
        print constants + 0 " constants, " sourced + 0 " with their source, " failures + 0 " failures"
        exit failures > 0
    }'
