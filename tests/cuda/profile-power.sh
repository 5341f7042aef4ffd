#!/bin/sh
# tests/cuda/profile-power.sh TOOLS MOCKS: watts and joules that redco-profile measures are those of the law that the
# mock NVML is told, for every kind of operator; of the device that is shown; sampled where joules are not counted; and one line,
# no error, where nothing is told.
set -u
tools=$(cd "$1" && pwd) || exit 2
mocks=$(cd "$2" && pwd) || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
unset CUDA_VISIBLE_DEVICES
export MOCK_CUDA_SEED=0
export LD_LIBRARY_PATH="$mocks"
export MOCK_NVML_LAW='limit:700,memory:3201,idle:129@1980,cublasLt:650@1500,attention:600@1600,:330@1980'
failures=0
bad() {
    echo "$1"
    cat out err
    failures=$((failures + 1))
}
profile() { "$tools/redco-profile" --backend cuda --quick -o profile.json >out 2>err || bad "exit code $?: $*"; }
# law MORE COUNTED: every row as the law has it, MORE watts; idle and limit, too. A millijoule of 3 J may be rounded away.
law() {
    sed -n '/"power": \[/,$p' profile.json | tr -d ' ",\n' | sed 's/operator:/\n/g' | sed 1d >rows
    [ "$(grep -c . rows)" = 12 ] || { echo "$(grep -c . rows) rows, not 12" && return 1; }
    awk -v more="$1" -v counted="$2" '
        function near(x, y) { return x > 0.99 * y && x < 1.01 * y }
        function value(key) { match($0, key ":[-+.0-9eE]+"); return substr($0, RSTART + length(key) + 1, RLENGTH - length(key) - 1) + 0 }
        { kind = /^gemm/ ? "gemm" : /^attention/ ? "attention" : "other"
          watts = (kind == "gemm" ? 650 : kind == "attention" ? 600 : 330) + more
          mhz = kind == "gemm" ? 1500 : kind == "attention" ? 1600 : 1980
          ok = near(value("watts"), watts) && near(value("energy_j"), watts * value("time_s")) && value("clock_hz") == mhz * 1e6 &&
               value("memory_clock_hz") == 3.201e9 && index($0, "counted_by:" counted) && (value("flops") > 0) == (kind != "other")
          if (!ok) { print "not by the law: " $0; wrong = 1 } }
        END { exit wrong }' rows || return 1
    awk -v more="$1" -F'[:,]' '/"idle_w"/ { idle = $2 } /"power_limit_w"/ { limit = $2 }
        END { exit !(idle > 0.99 * (129 + more) && idle < 1.01 * (129 + more) && limit == 700) }' profile.json || { echo 'idle and limit' && return 1; }
}

# lawful WHAT MORE COUNTED: a busy machine may stop the program between a counter and its clock, once or twice.
lawful() {
    for _ in 1 2 3; do
        profile "$1"
        if law "$2" "$3" >said; then return 0; fi
    done
    bad "$1: $(cat said)"
}

lawful counted 0 device
[ -s err ] && bad 'something is said of a device that tells everything'
grep -q '^power  *129 W idle, limit 700 W$' out || bad 'idle watts are not printed'
grep -q '^constants  product_j_per_flop .*, memory_w 20[01][.0-9]*, burst_clock_ratio ' out || bad 'constants are not printed' # 330 - 129
# NVML numbers all devices, CUDA those that are shown: the second one draws 10 W more.
MOCK_CUDA_DEVICES=2 CUDA_VISIBLE_DEVICES=1 lawful second 10 device
MOCK_NVML_LACKS=energy lawful sampled 0 samples

# none WHY: no watts, and why
none() {
    [ "$(grep -c . err)" = 1 ] || bad 'not one line'
    grep -q "^redco-profile: warning: watts were not measured: $1" err || bad "not said: $1"
    if grep -q '"power"\|"idle_w"' profile.json; then bad 'watts of nothing'; fi
}
MOCK_NVML_LACKS=energy+power profile silent && none 'NVML tells neither joules nor watts of this GPU: Not Supported'
MOCK_NVML_MIG=1 profile slice && none 'the GPU is cut into slices (MIG)'
mkdir without && ln -s "$mocks"/libcuda.so.1 "$mocks"/libcublasLt.so.13 "$mocks"/libcudnn.so.9 without/
: >without/libnvidia-ml.so.1
LD_LIBRARY_PATH=$scratch/without profile missing && none 'libnvidia-ml.so.1: cannot be loaded: '
exit "$failures"
