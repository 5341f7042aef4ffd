#!/bin/sh
# tests/circles.sh BUILD: files of one library that call one another in a circle can only be read together. Of
# the libraries below, by the symbols that object files define and miss: circles of more than two files fail.
set -u
build=$1
cd "$build" || exit 2
failures=0
for library in redco_models redco_closed_form redco_saving; do
    objects=$(find "costmodel/CMakeFiles/$library.dir" -name '*.o' | LC_ALL=C sort)
    [ -n "$objects" ] || { echo "no objects of $library in $build" && exit 2; }
    # shellcheck disable=SC2086 # no object has a space in its name
    nm -A $objects | awk -v library="$library" '
        {
            split($0, part, ":")
            file = part[1]
            sub(/.*\//, "", file)
            sub(/\.o$/, "", file)
            count = split(part[2], word, " ")
            if (!(file in number)) { number[file] = ++files; name[files] = file }
            if (word[count - 1] ~ /^[TDRB]$/) { home[word[count]] = number[file] }
            if (word[count - 1] == "U") { user[++uses] = number[file]; used[uses] = word[count] }
        }
        END {
            for (i = 1; i <= uses; i++) {
                if (used[i] in home && home[used[i]] != user[i]) { reach[user[i], home[used[i]]] = 1 }
            }
            for (k = 1; k <= files; k++) {
                for (i = 1; i <= files; i++) {
                    for (j = 1; (i, k) in reach && j <= files; j++) { if ((k, j) in reach) { reach[i, j] = 1 } }
                }
            }
            for (i = 1; i <= files; i++) {
                members = name[i]
                many = 1
                for (j = 1; j <= files; j++) {
                    if (j == i || !((i, j) in reach) || !((j, i) in reach)) { continue }
                    members = members " " name[j]
                    many++
                    if (j > i) { said[j] = 1 }
                }
                if (many > 2 && !(i in said)) { print library ": a circle of " many " files: " members; failures++ }
            }
            print library ": " files " files, " uses " calls out of them"
            exit failures > 0
        }' || failures=$((failures + 1))
done
exit $((failures > 0))
