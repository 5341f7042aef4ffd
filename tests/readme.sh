#!/bin/sh
# tests/readme.sh [--update] TOOLS: README.md and planner/README.md are true. Each line "$ COMMAND" in a ```console block is run, in order and in
# one scratch folder that looks like the project, and must print what the README says, through the filters of golden.sed.
# "tools/run JOB" runs the tool of that name. --update writes what the commands print into the pages.
set -u
update=false
if [ "$1" = --update ]; then update=true && shift; fi
tools=$(cd "$1" && pwd) || exit 2
tests=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$tests")
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/redco" "$scratch/run"
for entry in "$root"/*; do
    case $(basename "$entry") in build*) ;; *) ln -s "$entry" "$scratch/redco/" ;; esac
done

status=0
for page in README.md planner/README.md; do
    rm -f "$scratch"/run/*
    # run/N.cmd and run/N.want of the N-th command
    awk -v folder="$scratch/run" '
        /^```console/ { inside = 1; next }
        /^```/ { inside = 0 }
        inside && /^\$ / { n++; print substr($0, 3) > (folder "/" n ".cmd"); printf "" > (folder "/" n ".want"); next }
        inside && n { print > (folder "/" n ".want") }' "$root/$page"

    n=1
    while [ -f "$scratch/run/$n.cmd" ]; do
        sed -i 's|^tools/run |redco-|' "$scratch/run/$n.cmd"
        (cd "$scratch/redco" && PATH=$tools:$PATH LC_ALL=C.UTF-8 TZ=UTC COLUMNS=120 sh "$scratch/run/$n.cmd") \
            >"$scratch/run/$n.got" 2>&1 </dev/null
        sed -f "$tests/golden.sed" "$scratch/run/$n.want" >"$scratch/want"
        sed -f "$tests/golden.sed" "$scratch/run/$n.got" >"$scratch/got"
        if ! $update; then
            diff -u --label "$page: $(cat "$scratch/run/$n.cmd")" --label actual "$scratch/want" "$scratch/got" || status=1
        elif cmp -s "$scratch/want" "$scratch/got"; then
            cp "$scratch/run/$n.want" "$scratch/run/$n.got" # only a time or a version differs: leave it
        fi
        n=$((n + 1))
    done
    echo "$page: $((n - 1)) commands"

    if $update; then
        awk -v folder="$scratch/run" '
            /^```console/ { inside = 1 }
            /^```$/ { inside = 0 }
            inside && /^\$ / {
                print
                file = folder "/" ++n ".got"
                while ((getline line < file) > 0) { print line }
                close(file)
                next
            }
            !inside || /^```/ || !n' "$root/$page" >"$scratch/page.md" && cp "$scratch/page.md" "$root/$page"
    fi
    [ $n -gt 1 ] || { echo "$page has no command" && exit 1; }
done
exit $status
