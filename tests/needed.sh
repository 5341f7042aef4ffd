#!/bin/sh
# tests/needed.sh TOOLS: what tools cannot be started without, and where they look for it: never in the current folder. CUDA, cuBLAS, cuDNN and NCCL are none of it: they are
# loaded when they are used. Sanitizers bring libraries of their own.
set -u
tools=$(cd "$1" && pwd) || exit 2
command -v readelf >/dev/null || { echo 'skipped: readelf is not installed' && exit 77; }
failures=0
needs() { # TOOL LIBRARY...
    tool=$1
    shift
    for library in $(readelf -d "$tools/$tool" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p'); do
        found=false
        for allowed in c m asan ubsan ld-linux-x86-64 gcc_s "$@"; do
            case $library in "lib$allowed.so"* | "$allowed.so"*) found=true ;; esac
        done
        $found || { echo "$tool needs $library" && failures=$((failures + 1)); }
    done
}
for tool in "$tools"/redco-*; do
    if [ ! -f "$tool" ] || [ ! -x "$tool" ]; then continue; fi
    if readelf -d "$tool" | sed -n 's/.*R\(UN\)\{0,1\}PATH).*\[\(.*\)\].*/:\2:/p' | grep -Eq '::|:[^/$:]'; then
        echo "${tool##*/} looks for libraries in the current folder: $(readelf -d "$tool" | grep PATH)"
        failures=$((failures + 1))
    fi
done
needs redco-exec mpi openblas jansson nettle
needs redco-profile mpi openblas jansson nettle hwloc expat gsl gslcblas
needs redco-plan jansson nettle hwloc expat gsl gslcblas glpk yaml-0
[ $failures -eq 0 ] && echo 'nothing but what they had'
