#!/bin/sh
# tests/cuda/on-gpu.sh PROGRAM: a program of CMocka tests with this machine's driver and libraries, without mock libraries.
[ -e /dev/nvidiactl ] || { echo 'skipped: there is no NVIDIA GPU' && exit 77; }
exec "$(dirname "$0")/../unit.sh" "$1"
