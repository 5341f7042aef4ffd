#!/bin/sh
# tests/install/run.sh BUILD COMPILER [FLAG]: installs into a scratch folder, then builds and runs example.c the way a
# stranger would, with pkg-config alone: its plans are those of redco-plan, byte for byte. Every installed tool answers
# --version and has a man page. A first pipeline finds the headers and tools of the prefix, and its two commands of
# executor/pipeline/README.md, as they stand there, learn.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix/usr" >"$prefix/log" || { cat "$prefix/log" && exit 1; }
cd "$prefix"
pc=$(find usr -name redco.pc)
PKG_CONFIG_PATH=$prefix/$(dirname "$pc")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046,SC2086 # flags are words
"$2" -std=c11 -Wall -Wextra -Werror ${3:-} -o example "$here/example.c" $(pkg-config --cflags --libs redco)
./example plan
question=0
for options in '' '--tp 8 --tp-placement milp' '--engine auto' '--strategy zero3 --tp 4 --sequence-parallel=auto'; do
    # shellcheck disable=SC2086 # options are words
    usr/bin/redco-plan --quiet --cluster dgx-h100 --model llama-3-8b --gpus 64 $options -o tool.plan >tool.log
    cmp plan.$question tool.plan || { echo "redco-plan $options: the library plans otherwise" && exit 1; }
    question=$((question + 1))
done
for tool in usr/bin/*; do
    [ -e "$tool" ] || break
    "$tool" --version
    page=usr/share/man/man1/$(basename "$tool").1
    [ -f "$page" ] || { echo "no man page $page" && exit 1; }
done
[ -x usr/bin/redco-exec ] || exit 0
work=$prefix/work && mkdir "$work" && cd "$work"
"$prefix/usr/bin/redco-exec" --new-pipeline first >log
# shellcheck disable=SC2015 # the report never runs after a success
cmake -S first -B first/build -DCMAKE_C_COMPILER="$2" ${3:+"-DCMAKE_C_FLAGS=$3"} >log && cmake --build first/build >log &&
    ctest --test-dir first/build >log || { cat log && exit 1; }
PATH=$prefix/usr/bin:$PATH
grep -E '^redco-(plan|exec) .*first/build/first.so' "$here/../../executor/pipeline/README.md" >commands
[ "$(wc -l <commands)" -eq 2 ] || { echo 'the page has other commands' && exit 1; }
sh -e ./commands >log || { cat log && exit 1; }
tail -n 1 log | grep -E 'loss 0\.00' || { cat log && exit 1; }
