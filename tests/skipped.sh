#!/bin/sh
# tests/skipped.sh BUILD: what CTest's last run in this build folder did not check and why, one line each:
# "not checked: TEST[: PART]: WHY". Who skips prints "skipped: WHY" before; CTest itself calls it passed in its log.
awk '
    /^[0-9]+\/[0-9]+ Testing: / { test = $3; part = why = "" }
    /^\[ RUN      \] / { part = $4; why = "" }
    /^skipped: / { why = substr($0, 10); if (part == "") { print "not checked: " test ": " why } }
    /^\[  SKIPPED \] / && $4 == part {
        print "not checked: " test ": " part ": " (why != "" ? why : "it did not say why")
        part = ""
    }
' "$1/Testing/Temporary/LastTest.log"
