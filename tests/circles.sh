#!/bin/sh
# tests/circles.sh BUILD: files that call one another in a circle can only be read together. By the symbols that the
# object files of the program define and miss, at most 12 sets of files call each other in a circle, none of more than 3, in costmodel's models and closed_form of 2.
set -u
cd "$1" || exit 2
# FOLDER/CMakeFiles/LIBRARY.dir/SOURCE.o is of FOLDER/SOURCE. Objects of no source are left over from another tree, or
# data that the build writes.
find topology traces costmodel planner executor tools -name '*.c.o' | LC_ALL=C sort |
    sed 's|^\(.*\)CMakeFiles/[^/]*\.dir/\(.*\)\.o$|\1\2 &|' | while read -r source object; do
        [ -e "../../$source" ] && echo "$object"
    done | xargs nm -A | awk '
    {
        file = substr($1, 1, index($1, ":") - 1)
        sub(/CMakeFiles\/[^\/]*\.dir\//, "", file)
        sub(/\.o$/, "", file)
        if (!(file in number)) { number[file] = ++files; name[files] = file }
        if ($(NF - 1) ~ /^[TDRBW]$/) { home[$NF] = number[file] }
        if ($(NF - 1) == "U") { user[++uses] = number[file]; used[uses] = $NF }
    }
    END {
        for (i = 1; i <= uses; i++) {
            called = used[i] in home ? home[used[i]] : user[i]
            if (called != user[i] && !seen[user[i], called]++) { callees[user[i]] = callees[user[i]] " " called }
        }
        for (i = 1; i <= files; i++) {
            count = split(callees[i], queue, " ")
            calls += count
            for (k = 1; k <= count; k++) {
                if ((i, queue[k]) in reached) { continue }
                reached[i, queue[k]] = 1
                more = split(callees[queue[k]], next_ones, " ")
                for (j = 1; j <= more; j++) { queue[++count] = next_ones[j] }
            }
        }
        for (i = 1; i <= files; i++) {
            members = name[i]
            many = 1
            for (j = 1; j <= files && (i, i) in reached && !(i in said); j++) {
                if (j == i || !((i, j) in reached) || !((j, i) in reached)) { continue }
                members = members " " name[j]
                many++
                said[j] = 1
            }
            if (many == 1) { continue }
            print many " files: " members
            sets++
            if (many > (members ~ /costmodel\/(models|closed_form)\// ? 2 : 3)) { large++ }
        }
        print files + 0 " files, " calls + 0 " pairs of one that calls the other, " sets + 0 " circles, " large + 0 " too large"
        exit calls == 0 || sets > 12 || large > 0
    }'
