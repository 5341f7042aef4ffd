#!/bin/sh
# tests/update-golden.sh [CASE...]: rewrites what golden cases expect (all of them, or the named ones) from the tools of
# the release build; without a name also the output shown in README.md. Look at the difference before committing it; the
# commit says why each line moved.
set -u
tests=$(cd "$(dirname "$0")" && pwd)
tools=$tests/../build/release/tools
if [ $# -eq 0 ]; then
    "$tests/readme.sh" --update "$tools"
    cd "$tests/golden" && set -- */
fi
for name in "$@"; do
    name=$(basename "$name")
    [ -f "$tests/golden/$name/cmd" ] || { echo "update-golden: no case $name" >&2 && exit 2; }
    "$tests/golden.sh" --update "$tools" "$tests/golden/$name"
    case $? in 0) ;; 77) echo "update-golden: $name left as it is" >&2 ;; *) exit 1 ;; esac
done
