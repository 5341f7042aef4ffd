# shellcheck shell=bash disable=SC2154,SC2034 # root, check_packages and ends_s are of tools/run
# tests/tiers.sh, read by tools/run: the job "test". README.md beside it says what each tier has.
#
# A step's whole output is build/STEP.log; shown is what went wrong. All steps run, so that one look shows all of it.

# Seconds that steps take on two idle processors, for the time left; what they took here last time replaces them.
declare -A usual_s=([quick.release]=230 [quick.debug]=90 [quick.lint]=25
    [deep.release]=350 [deep.debug]=400 [deep.lint]=330 [deep.fuzz]=240)

# count_cpu: sets cpu_ms to the user and system time of all that this shell has waited for.
count_cpu() {
    times >"$root/build/.times"
    cpu_ms=$(tr ' ' '\n' <"$root/build/.times" | awk -F '[ms]' 'NF > 2 { sum += 60 * $1 + $2 } END { printf "%d", 1000 * sum }')
}

run_tests() { # PRESET TARGET CTEST-OPTION...
    build "$1" "$2"
    if [ "$1" = debug ] && ! "$root/build/debug/tests/test_base" >/dev/null 2>"$root/build/probe.log" &&
        grep -q 'LeakSanitizer has encountered a fatal error' "$root/build/probe.log"; then
        say 'not checked: leaks: this machine does not let them be detected (ptrace)'
        export ASAN_OPTIONS=detect_leaks=0
    fi
    (cd "$root" && ctest --preset "$1" -j "$(nproc)" --no-label-summary "${@:3}")
}

run_step() { # TIER.STEP FUZZ_SECONDS LABEL-OPTION...
    packages "${check_packages[@]}" || true
    case $1 in
    quick.release) run_tests release all -L '^quick$' "${@:3}" ;;
    quick.debug) run_tests debug redco_sanitized -L '^sanitized$' "${@:3}" ;;
    quick.lint) run_lint changed ;;
    deep.release) run_tests release all -LE '^gpu$' "${@:3}" ;;
    deep.debug) run_tests debug all -L '^repeated$' "${@:3}" ;;
    deep.lint) run_lint all ;;
    deep.fuzz) FUZZ_SEED=1 run_fuzz "$2" ;; # a change is tested, not the luck of the day
    esac
}

# told: what a person wants to see of a step's output: not what passed, and each failure once.
told() {
    awk '/^ +Start +[0-9]+:/ || /^Test project / || / Test +#[0-9]+: .*( Passed |\*\*\*Skipped)/ || /^ *\[[0-9]+\/[0-9]+\]/ { next }
        / tests passed, .* out of / { print; behind = 1 }
        /^tools\/run: / { behind = 0 }
        !behind && NF > 0 { print }
        { fflush() }'
}

# fuzz_share: seconds for each reader so that all of them take 200 seconds.
fuzz_share() {
    local readers=("$root"/tests/fuzz/fuzz_*.c) rounds
    rounds=$(((${#readers[@]} + $(nproc) - 1) / $(nproc)))
    echo $((200 / rounds < 60 ? 200 / rounds : 60))
}

test_all() {
    local tier=quick fuzz_s='' only='' steps=() labels=() failed='' step status cpu_ms from_ms from_s rest_s=0 name seconds folders
    folders=$(sed -n 's/^set(REDCO_FOLDERS \(.*\))/ \1 /p' "$root/tests/labels.cmake")
    while [ $# -gt 0 ]; do
        case $1 in
        --deep) tier=deep ;;
        --only)
            only=${2-} && shift
            case $folders in *" ${only:-?} "*) labels=(-L "^$only\$") ;; *) say "--only needs one of:$folders" && exit 2 ;; esac
            ;;
        --fuzz) fuzz_s=${2:?--fuzz needs SECONDS} && shift ;;
        release | debug | lint | fuzz) steps+=("$1") ;;
        *) usage >&2 && exit 2 ;;
        esac
        shift
    done
    if [ -n "$fuzz_s" ] || [[ " ${steps[*]} " = *' fuzz '* ]]; then tier=deep; fi
    if [ ${#steps[@]} -eq 0 ]; then
        steps=(release debug)
        [ -n "$only" ] || steps+=(lint)
        [ -n "$only" ] || [ $tier = quick ] || steps+=(fuzz)
    fi
    mkdir -p "$root/build"
    if [ -f "$root/build/steps.seconds" ]; then
        while read -r name seconds; do usual_s[$name]=$seconds; done <"$root/build/steps.seconds"
    fi

    for step in "${steps[@]}"; do rest_s=$((rest_s + ${usual_s[$tier.$step]})); done
    : >"$root/build/results"
    for step in "${steps[@]}"; do
        log=$root/build/$step.log from_s=$SECONDS
        [ -n "$only" ] || ends_s=$((SECONDS + rest_s))
        rest_s=$((rest_s - ${usual_s[$tier.$step]}))
        printf '\n== %s\n' "$step"
        count_cpu && from_ms=$cpu_ms
        set +e
        (set -e && run_step "$tier.$step" "${fuzz_s:-$(fuzz_share)}" "${labels[@]}") 2>&1 | tee "$log" | watch "$step" | told
        status=${PIPESTATUS[0]}
        set -e
        count_cpu
        printf '%s: %d s of processor time, %d s\n' "$step" $(((cpu_ms - from_ms) / 1000)) $((SECONDS - from_s))
        [ "$status" -eq 0 ] || failed+=" $step"
        if [ "$status" -eq 0 ] && [ -z "$only" ]; then usual_s[$tier.$step]=$((SECONDS - from_s)); fi
        if grep -q 'tests passed, .* out of' "$log"; then "$root/tests/skipped.sh" "$root/build/$step" >>"$log"; fi
        sed "s/^/$step $status /" "$log" >>"$root/build/results"
    done
    for name in "${!usual_s[@]}"; do echo "$name ${usual_s[$name]}"; done >"$root/build/steps.seconds"
    summary "$failed" "the $tier tier${only:+ of $only}: $(minutes $((cpu_ms / 1000))) of processor time, $(minutes $SECONDS)"
}

# summary FAILED-STEPS WHAT: from lines "STEP STATUS LINE" in build/results.
summary() {
    printf '\nslowest, in seconds:\n'
    sed -nE 's/^([a-z]+) [0-9]+ .* Test +#[0-9]+: ([^ ]+) .* ([0-9]+\.[0-9]+) sec.*/\3 \2 (\1)/p' "$root/build/results" |
        sort -rn | awk 'NR <= 10 { print "  " $0 }'
    printf '\n'
    awk -v failed="$1" -v what="$2" '
        { step = $1; status[$1] = $2; sub(/^[a-z]+ [0-9]+ /, "") }
        / Test +#[0-9]+: / && !/^ +Start / {
            if (/ Passed /) { passed++ } else if (/\*\*\*(Skipped|Not Run \(Disabled\))/) { skipped++ } else { wrong[step]++ }
        }
        /^fuzzed / { passed++; executions += $2 }
        /^FAILED / { wrong[step]++ }
        step == "lint" && /: [0-9]+ files, nothing to say$/ { passed++ }
        step == "lint" && /: FAILED$/ { wrong[step]++ }
        /not checked/ && !seen[$0]++ { print }
        END {
            for (step in status) { failures += wrong[step] > 0 ? wrong[step] : status[step] != 0 }
            if (executions > 0) { printf "%.0f fuzz executions\n", executions }
            print what
            if (failed != "") { printf "FAILED:%s (build/STEP.log)\n", failed }
            printf "redco: %d passed, %d failed, %d skipped\n", passed, failures, skipped
            exit failures > 0
        }' "$root/build/results"
}
