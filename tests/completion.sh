#!/bin/bash
# tests/completion.sh TOOLS: redco-completion.bash offers each option of each tool, and of options with words those that
# the tool takes.
set -u
# shellcheck source=tools/redco-completion.bash
. "$(dirname "$0")/../tools/redco-completion.bash"
PATH=$1:$PATH
failures=0

completed() { # WORD...: the last is completed
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _redco "$1"
    printf '%s\n' "${COMPREPLY[@]}" | sort -u
}

same() { # WHAT WANTED
    [ "$2" = "$3" ] || { printf '%s: %s\nis not %s\n' "$1" "$2" "$3" && failures=$((failures + 1)); }
}

for path in "$1"/redco-*; do
    if [ ! -f "$path" ] || [ ! -x "$path" ]; then continue; fi
    tool=$(basename "$path")
    complete -p "$tool" >/dev/null 2>&1 || { echo "$tool is not completed" && failures=$((failures + 1)); }
    same "$tool --" "$(completed "$tool" --)" "$("$tool" --help | grep -oE -e '^ +(-[a-zA-Z?], )?--[a-z][a-z0-9-]+' | grep -oE -e '--.*' | sort -u)"
done
same --cp-type "$(completed redco-plan --cp-type '' | xargs)" 'all-gather all-to-all auto p2p'
same --cp-type= "$(completed redco-plan --cp-type = | xargs)" 'all-gather all-to-all auto p2p'
same --cp-type=all "$(completed redco-plan --cp-type = all | xargs)" 'all-gather all-to-all'
same --strategy "$(completed redco-plan --strategy zero | xargs)" 'zero1 zero2 zero3 zeropp'
mkdir -p "${TMPDIR:-/tmp}/redco-completion.$$" && cd "${TMPDIR:-/tmp}/redco-completion.$$" || exit 2
same --output "$(completed redco-topo --output '')$(ls)" ''
cd / && rmdir "$OLDPWD"
same --gpus "$(completed redco-plan --gpus '')" ''
[ $failures -eq 0 ]
