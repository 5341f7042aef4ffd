#!/bin/sh
# The runners of tests must fail what differs and tell what was skipped: each line below makes one case and says what the
# runner must exit with.
set -u
runner=$(cd "$(dirname "$0")" && pwd)/golden.sh
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failures=0

# expect CODE CMD [FILE CONTENT]...
expect() {
    want=$1
    rm -rf "$scratch/case" && mkdir "$scratch/case"
    echo "$2" >"$scratch/case/cmd"
    shift 2
    while [ $# -gt 0 ]; do
        printf '%s\n' "$2" >"$scratch/case/$1"
        shift 2
    done
    "$runner" "$scratch" "$scratch/case" >"$scratch/log" 2>&1
    got=$?
    if [ $got -ne "$want" ]; then
        echo "exit $got, not $want:" && cat "$scratch/case/cmd" "$scratch/log"
        failures=$((failures + 1))
    fi
}
expect 0 'echo a' stdout a
expect 1 'echo a' stdout b
expect 1 'echo a' stdout "a
b"
expect 0 'echo a >&2' stderr a
expect 1 'echo a >&2' stderr ''
expect 0 'echo anything'
expect 1 'exit 2'
expect 0 'exit 2' exit 2
expect 1 'true' exit 1
expect 1 'kill -SEGV $$'
expect 1 'echo "x.c:1: runtime error: y" >&2; exit 1' exit 1
expect 77 'true' needs no-such-program-anywhere
expect 77 'true' needs shared/no/such/file
expect 0 'echo took 5 s' filter 's/took [0-9]/took N/' stdout 'took 7 s'
expect 0 'echo "tp 8  1.25 s  7 ms  1,234 · 98.5 % of 4 GPUs"' mask stdout stdout 'tp 8 30.5 ms  2 s 999 · 1 % of 4 GPUs'
expect 1 'echo "tp 8  1.25 s"' mask stdout stdout 'tp 4  1.25 s'
expect 1 'echo "1.25 s"' mask stdout stdout '1.25 GB'
expect 1 'echo "1.25 s" >&2' mask stdout stderr '1.26 s'
expect 0 'test -f ../../golden.sh && test -d ../../../topology && echo x > written && cat written' stdout x
test ! -e "$scratch/case/written" || failures=$((failures + 1))

# unit CODE COMMAND: a program of unit tests that does this must count so (unit.sh).
unit() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/program" && chmod +x "$scratch/program"
    "$(dirname "$runner")/unit.sh" "$scratch/program" >"$scratch/log" 2>&1
    got=$?
    [ $got -eq "$1" ] || { echo "exit $got, not $1: $2" && failures=$((failures + 1)); }
}
unit 0 'echo "[       OK ] a"'
unit 77 'echo "[  SKIPPED ] a"'
unit 3 'echo "[  SKIPPED ] a"; exit 3'
unit 139 'kill -SEGV $$'
[ $failures -eq 0 ]
