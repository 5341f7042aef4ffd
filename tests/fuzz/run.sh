#!/usr/bin/env bash
# [FUZZ_SEED=N] tests/fuzz/run.sh BUILD SECONDS [READER...]: fuzzes all targets of a build with preset "fuzz" (or the named ones), as
# many at once as there are processors. Inputs that reach new code are kept in BUILD/found/READER for the next run, what
# crashes, leaks or takes over a second of processor time in BUILD/crashes. A crasher becomes a file of corpus/READER with
# its fix. With FUZZ_SEED and a fresh BUILD the same inputs come in the same order.
set -uo pipefail
build=$1 seconds=$2
shift 2
folder=$(dirname "$(readlink -f "$0")")
readers=("$@")
if [ ${#readers[@]} -eq 0 ]; then
    for source in "$folder"/fuzz_*.c; do
        reader=$(basename "$source" .c)
        readers+=("${reader#fuzz_}")
    done
fi

fuzz_one() { # BUILD SECONDS CORPUS READER
    local program=$1/tests/fuzz/fuzz_$4 log=$1/$4.log crashes=$1/crashes/$4 status input
    mkdir -p "$1/found/$4" "$crashes"
    rm -f "$crashes"/*
    "$program" -seed="${FUZZ_SEED:-0}" -max_total_time="$2" -timeout=20 -report_slow_units=1 -rss_limit_mb=2048 -print_final_stats=1 \
        -verbosity=0 -artifact_prefix="$crashes/" "$1/found/$4" "$3/$4" >"$log" 2>&1
    status=$?
    # libFuzzer's clock runs on while others have the processor: what took it over a second must do so again by its own.
    for input in "$crashes"/slow-unit-*; do
        [ -e "$input" ] || continue
        if (ulimit -t 1 && "$program" "$input") >>"$log" 2>&1; then rm "$input"; else status=1; fi
    done
    if [ $status -ne 0 ]; then
        tail -n 60 "$log"
        printf 'FAILED %s: input in %s\n' "$4" "$crashes"
        return 1
    fi
    awk -v reader="$4" '/number_of_executed_units/ { runs = $2 } /peak_rss_mb/ { rss = $2 }
        END { printf "fuzzed %10d %-16s peak %d MB\n", runs, reader, rss; exit runs == 0 }' "$log"
}
export -f fuzz_one

printf 'fuzzing %d readers for %s s each: executions, reader\n' ${#readers[@]} "$seconds"
printf '%s\0' "${readers[@]}" |
    xargs -0 -P "$(nproc)" -I READER bash -c 'fuzz_one "$@"' fuzz_one "$build" "$seconds" "$folder/corpus" READER
