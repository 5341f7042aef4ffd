# Completion of redco's options in bash, installed where bash-completion finds it; else: source redco-completion.bash.
# The tools are asked: --help for the options, and an option with the value "?" for its words; an option
# that no tool has ends that before any work.
_redco() {
    local tool=$1 word=${COMP_WORDS[COMP_CWORD]} option='' words
    if [ "$word" = = ]; then word=; fi
    if [ "${COMP_WORDS[COMP_CWORD - 1]}" = = ]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    elif [ "${COMP_WORDS[COMP_CWORD]}" = = ] || [[ $word != -* ]]; then
        option=${COMP_WORDS[COMP_CWORD - 1]}
    fi
    if [[ $option == --* ]]; then
        words=$("$tool" "$option=?" --no-such-option 2>&1 </dev/null | sed -nE 's/^[^:]*: --[a-z0-9-]+: "\?" is not one of:? (.*)/\1/p' | tr -d ,)
        # shellcheck disable=SC2207 # words have no blanks
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    elif [[ $word == -* ]]; then
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -W "$("$tool" --help 2>/dev/null | grep -oE -e '^ +(-[a-zA-Z?], )?--[a-z][a-z0-9-]+' | grep -oE -e '--.*')" -- "$word"))
    fi
}
complete -o default -F _redco redco-plan redco-topo redco-validate redco-calibrate redco-plot redco-profile redco-rules redco-sim redco-exec
