#!/bin/sh
# tests/exports.sh NM LIBRARY: every name that the library exports starts with redco.
names=$("$1" --defined-only --extern-only --format=posix "$2") || exit 1
odd=$(printf '%s\n' "$names" | awk 'NF >= 2 && $1 !~ /^redco/ && $1 !~ /^__odr_asan/ { print $1 }')
echo "$(printf '%s\n' "$names" | grep -c '^redco') exported names; not ours:${odd:- none}"
[ -z "$odd" ]
