#!/bin/sh
# tests/man.sh TOOLS: the man page of each tool and its --help know the same options, and redco-plan's with the same
# arguments: --help says WORD or NAME where the page lists words, which are those that the tool takes. Strategies are
# those of the table in the page and in the schema of engines.
set -u
pages=$(cd "$(dirname "$0")/../tools/man" && pwd) || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failures=0
for tool in "$1"/redco-*; do
    if [ ! -f "$tool" ] || [ ! -x "$tool" ]; then continue; fi
    name=$(basename "$tool")
    [ -f "$pages/$name.1" ] || { echo "no man page $name.1" && failures=$((failures + 1)) && continue; }
    "$tool" --help | grep -oE -e '--[a-z][a-z0-9-]+' | grep -vx -e --usage | sort -u >"$scratch/help"
    grep -oE 'Fl Fl [a-z][a-z0-9-]+' "$pages/$name.1" | sed 's/Fl Fl /--/' | grep -vx -e --usage | sort -u >"$scratch/page"
    diff -u --label "$name --help" --label "$name.1" "$scratch/help" "$scratch/page" || failures=$((failures + 1))
done

# "OPTION ARGUMENT" of both; an optional argument as any. The page says more of these.
"$1/redco-plan" --help | sed -nE 's/^ +(-[a-z], )?--([a-z0-9-]+)(.*)$/\2 \3/p' |
    awk '$2 ~ /=/ { split($2, a, "="); sub(/^\[?=/, "", $2); gsub(/[][]/, "", $2); print $1, $2 }' |
    grep -vE '^(checkpoint|compare-runs|engine|fix|recompute) ' | sort >"$scratch/help"
sed -nE 's/^\.It (Fl [a-z] , )?Fl Fl ([a-z0-9-]+)(.*)$/\2\3/p' "$pages/redco-plan.1" |
    awk '{
        text = ""
        for (i = 2; i <= NF; i++) { if ($i !~ /^(Ns|Ar|Cm|Op)$/ && !($i == "=" && text == "")) { text = text $i } }
        print $1, text
    }' | sort >"$scratch/page"
join "$scratch/help" "$scratch/page" | awk 'NF == 3 && $2 != $3' >"$scratch/differ"
[ "$(join "$scratch/help" "$scratch/page" | wc -l)" -gt 40 ] || { echo 'few options are compared: the search is broken' && failures=$((failures + 1)); }
while read -r option help page; do
    case $help,$page in
    WORD,*'|'*) ;;
    *) echo "--$option: --help has $help, redco-plan.1 has $page" && failures=$((failures + 1)) && continue ;;
    esac
    for word in $("$1/redco-plan" "--$option" '?' 2>&1 | sed 's/.*one of: //' | tr -d ,); do
        case "|$page|" in *"|$word|"*) ;; *) echo "--$option: redco-plan.1 lacks $word" && failures=$((failures + 1)) ;; esac
    done
done <"$scratch/differ"
# Strategies are one table (costmodel/schedules/strategies.c); the page and the schemas have its words.
schema=$pages/../../costmodel/engines/engine.schema.json
words=$("$1/redco-plan" --strategy '?' 2>&1 | sed 's/.*one of: //' | tr -d ,)
for word in $words; do
    grep -qE "^\.(Cm|Fl Fl strategy Cm).* $word( |\$)" "$pages/redco-plan.1" || { echo "redco-plan.1 lacks the strategy $word" && failures=$((failures + 1)); }
    case $word in amsp | fsdp) continue ;; esac # a planner, a word of the command line
    grep -q "\"items\": {\"enum\": \[.*\"$word\"" "$schema" || { echo "engine.schema.json lacks the state $word" && failures=$((failures + 1)); }
done
[ "$(printf '%s' "$words" | wc -w)" -ge 8 ] || { echo 'few strategies are named: the search is broken' && failures=$((failures + 1)); }
[ $failures -eq 0 ]
