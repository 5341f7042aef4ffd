#!/usr/bin/env bash
# tests/lint.sh BUILD [all|changed]: format, static analysis, scripts and man pages. BUILD holds compile_commands.json.
# With "changed", clang-tidy looks at the files that differ from where this branch left origin/main or main; where none
# does, at the twenty that were changed last.
set -uo pipefail
build=$(readlink -f "$1") extent=${2:-all}
cd "$(dirname "$(readlink -f "$0")")/.." || exit 2
status=0

# have PROGRAM: whether it can be used; says so where it cannot.
have() { command -v "$1" >/dev/null || { echo "$1 is not installed: not checked" && return 1; }; }

# changed: C files as above; without git, by their times.
changed() {
    local base files
    base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null) &&
        files=$(git diff --name-only --diff-filter=d "$base" -- '*.c' && git ls-files --others --exclude-standard -- '*.c')
    if [ -n "${files-}" ]; then
        printf '%s\n' "$files"
    elif git rev-parse HEAD >/dev/null 2>&1; then
        git log --format= --name-only --diff-filter=d -- '*.c' | awk '!seen[$0]++' | while read -r file; do
            if [ -f "$file" ]; then echo "$file"; fi
        done | head -n 20
    else
        find "${c_files[@]}" -name '*.c' -printf '%T@ %p\n' | sort -rn | head -n 20 | cut -d ' ' -f 2
    fi
}

# shellcheck disable=SC2317 # xargs calls it
# Test programs run under sanitizers, which see what the analyser of paths guesses; it takes nineteen of twenty seconds.
tidy_one() { # BUILD FILE
    local code=0 checks=''
    case $2 in tests/*) checks='-clang-analyzer-*' ;; esac
    clang-tidy --quiet ${checks:+"--checks=$checks"} --extra-arg=-UNDEBUG -p "$1" "$2" >>"$1/tidy.log" 2>&1 || code=1
    echo "$2"
    return "$code"
}
export -f tidy_one

report() { # WHAT COUNT CODE
    if [ "$3" -eq 0 ]; then echo "$1: $2 files, nothing to say"; else status=1 && echo "$1: FAILED"; fi
}

mapfile -d '' -t c_files < <(find topology costmodel planner executor traces tools tests -name '*.[ch]' -print0 | sort -z)
mapfile -d '' -t cpp_files < <(find executor tests \( -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) -print0 | sort -z)
if have clang-format; then
    clang-format --dry-run --Werror "${c_files[@]}" "${cpp_files[@]}" 2>"$build/format.log"
    code=$?
    [ $code -eq 0 ] || { sed -n 's/: error: code should.*//p' "$build/format.log" | cut -d: -f1,2 | sort -uV && echo 'tools/run format mends it'; }
    report clang-format $((${#c_files[@]} + ${#cpp_files[@]})) $code
fi

if have clang-tidy; then
    # One process a file, as many at once as there are processors; only files that are compiled can be analysed. What
    # assert() promises is told to the analyser.
    mapfile -t analysed < <(printf '%s\n' "${c_files[@]}" | grep '\.c$' |
        grep -Fxf <(sed -n "s|.*\"file\": \"$PWD/\(.*\)\".*|\1|p" "$build/compile_commands.json"))
    if [ "$extent" = changed ]; then mapfile -t analysed < <(printf '%s\n' "${analysed[@]}" | grep -Fxf <(changed)); fi
    : >"$build/tidy.log"
    printf '%s\n' "${analysed[@]}" | xargs -P "$(nproc)" -I FILE bash -c 'tidy_one "$@"' tidy_one "$build" FILE |
        awk -v of=${#analysed[@]} '{ print "[" NR "/" of "] clang-tidy " $0; fflush() }'
    code=${PIPESTATUS[1]}
    [ "$code" -eq 0 ] || { grep -E ': (error|warning):' "$build/tidy.log" | sort -u && echo "how it comes: $build/tidy.log"; }
    report clang-tidy ${#analysed[@]} "$code"
fi

# Calls that no caller can use safely; numbers are read with strtol() and its kin, or sscanf() with widths.
mapfile -t shipped < <(printf '%s\n' "${c_files[@]}" | grep -v '^tests/')
grep -nE '(^|[^a-z_>.])(atoi|atol|atoll|atof|gets|strcpy|strcat|sprintf|vsprintf|strtok)\(' "${shipped[@]}"
report 'banned calls' ${#shipped[@]} $(($? == 0))

if have shellcheck; then
    mapfile -t scripts < <(find tests tools \( -path tests/data -o -path tests/fuzz/corpus \) -prune -o -name '*.sh' -print) # those are inputs
    scripts+=(tools/run tools/gallery tools/netns-cluster tools/netns-grid tools/host-acceptance tools/gpu-acceptance tools/gpu-bundle tools/against-redcoast .ci/run)
    shellcheck -x "${scripts[@]}"
    report shellcheck ${#scripts[@]} $?
fi

if have mandoc; then
    mapfile -t pages < <(find tools/man -name '*.1')
    [ ${#pages[@]} -eq 0 ] || mandoc -T lint -W warning "${pages[@]}"
    report mandoc ${#pages[@]} $?
fi
exit $status
