#!/bin/sh
# tests/headers.sh COMPILER FLAG... [-- HEADER...]: each header compiles alone and twice included; all headers of the
# modules where none is named. Skipped (77) where there is no such compiler.
set -u
cd "$(dirname "$0")/.." || exit 2
compiler=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    compiler="${compiler:+$compiler }$1"
    shift
done
command -v "${compiler%% -*}" >/dev/null || { echo "skipped: no compiler $compiler" && exit 77; }
if [ $# -gt 0 ]; then shift; fi
# shellcheck disable=SC2046 # no header has a space in its name
[ $# -gt 0 ] || set -- $(find topology costmodel planner executor traces tools -name '*.h')
failures=0
# Internal headers of the CUDA backend need CUDA's; REDCO_CUDA_FLAGS says where they are.
cuda=${REDCO_CUDA_FLAGS-}
# shellcheck disable=SC2086 # flags are words
printf '#include <cuda.h>\n' | $compiler -fsyntax-only $cuda - 2>/dev/null || cuda=none
for header in "$@"; do
    flags=
    if grep -qE '#include (<(cuda|cublasLt|cudnn|nccl)\.h>|"executor/backend/cuda/cuda_internal\.h")' "$header"; then
        [ "$cuda" != none ] || { echo "$header is not checked: there is no cuda.h" && continue; }
        flags=$cuda
    fi
    # shellcheck disable=SC2086 # the compiler and its flags are words
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        $compiler -fsyntax-only -Wall -Wextra -Wpedantic -Werror -D_GNU_SOURCE -I. $flags - || failures=$((failures + 1))
done
echo "$# headers, $failures do not compile alone"
[ $failures -eq 0 ]
