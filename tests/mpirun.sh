#!/bin/sh
# tests/mpirun.sh MPIRUN RANKS PROGRAM...: runs a test on so many ranks of this machine, however few its processors are
# and whoever runs it. Open MPI itself leaks, which a sanitized program would be blamed for.
set -eu
mpirun=$1 ranks=$2
shift 2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0
exec "$mpirun" --oversubscribe --mca mpi_yield_when_idle 1 -n "$ranks" "$@"
