#!/usr/bin/env bash
# tests/gpu-acceptance.sh TOOLS [MOCKS]: tools/gpu-acceptance --short on this machine's processors, and on a device
# that is played by mock libraries where their folder is given; its report from made-up rows, against figures reckoned here;
# and tools/gpu_torch.py on the processor. Never times.
set -uo pipefail
tools=$1
mocks=${2:-}
root=$(dirname "$(dirname "$(readlink -f "$0")")")
export PATH=$tools:$PATH
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failures=0
wrong() { echo "$*" && failures=$((failures + 1)); }
acceptance() { "$root/tools/gpu-acceptance" "$@" >"$scratch/out" 2>"$scratch/err"; }
# whether the report says so, blanks aside
says() { tr -d ' \n' <"$1" | grep -F "$(printf '%s' "$2" | tr -d ' \n')" >/dev/null || wrong "$1 does not say $2"; }
documents() { python3 - "$@" <<<'import json, sys
for name in sys.argv[1:]: json.load(open(name))' || wrong "no JSON documents: $*"; }

# Usage, and no device: one line each, nothing written.
for bad in '' '--backend tpu x' '--seconds soon x' '--nonsense x' 'x y'; do
    # shellcheck disable=SC2086
    (cd "$scratch" && acceptance $bad)
    code=$?
    [ $code = 2 ] || wrong "gpu-acceptance $bad ended with $code"
    [ "$(wc -l <"$scratch/err")" = 1 ] || wrong "gpu-acceptance $bad says $(cat "$scratch/err")"
done
if ! redco-profile --backend cuda --quick --quiet >/dev/null 2>&1; then
    acceptance --short "$scratch/none"
    code=$?
    if [ $code != 3 ] || [ -e "$scratch/none" ] || [ "$(wc -l <"$scratch/err")" != 1 ] || ! grep -q 'no CUDA device' "$scratch/err"; then
        wrong "without a device it ended with $code and said: $(cat "$scratch/err")"
    fi
fi

# On processors: everything but the bars.
acceptance --short --backend host "$scratch/host" || { wrong "on processors it ended with $?:" && cat "$scratch/err" "$scratch/out"; }
documents "$scratch/host/report.json" "$scratch/host/points.json"
says "$scratch/host/report.json" '"bar": "operators of plan and trace have the same names", "wanted": "0 on one side only", "measured": "0", "status": "met"'
says "$scratch/host/report.json" '"bar": "training like the reference", "wanted": "f32 within 1e-3, losses of bf16 within 1e-2", "measured": "2 trainings like the reference: parity.txt", "status": "met"'
says "$scratch/host/report.json" '"bar": "step time, worst error", "wanted": "10 %"'
[ "$(grep -c '"status": "not measured"' "$scratch/host/report.json")" = 9 ] || wrong 'on processors a bar was judged'
[ "$(grep -c '"furthest"' "$scratch/host/report.json")" = 2 ] || wrong 'two rows are wanted'
# A profile that is there is used; a folder of results is written over.
acceptance --short --backend host "$scratch/host" || wrong 'a second run ended with an error'
grep -q '^| profile | passed | 0 | was there before |$' "$scratch/host/report.md" || wrong 'the profile was measured again'

# The report by itself. By hand: step errors 4, -2 and 12 % (median 4, worst 12: met, missed); memory 1, 2, -4 % (missed);
# MFU 0.51 and 0.54; PyTorch 1.25 times as slow and 0.8 times: redco's worst ratio is 1.25.
mkdir "$scratch/made" && cd "$scratch/made" || exit 2
echo 2026-01-01T00:00:00Z >began.txt
printf '%s\n' 'parity|passed|3|6 trainings' 'shared GPU|failed|9|with MPS: 3 passed, not b' 'sanitizer|failed|9|not clean: a|b' 'PyTorch|passed|0|' >stages.txt
printf '%s\n' '1B *|1B seq 1|a|1000|1.04|1.00|1.00|0.51|0.5|101|100|120|0|0|0.5|0.2|0.1|0.15|0.98|x 1/2 ms|7|690|700' \
    '7B *|7B seq 1|b|1000|0.98|1.00|0.80|0.54|0.5|102|100|120|0|0|0.5|0.2|0.1|0.15|0.98|x 1/2 ms|7' \
    '3B|3B seq 1|c|1000|1.12|1.00|1.00|0.40|0.5|96|100|120|0|1|0.5|0.2|0.1|0.15|0.98|x "1/2" ms|7' >rows.txt
printf '%s\n' 'a|0.8|50|2.9|30|1.5' 'b|1.0|50|2.9|30|1.5' >torch.txt
echo '7B seq 2|no time: 3 s are left' >not-run.txt
printf '{"measured": {\n"device": "H200-SXM-141GB",\n"part": "NVIDIA H200",\n"clock_hz": 1.98e9,\n"memory_bytes": 150000000000,\n"power_limit_w": 700.0,\n"idle_w": 129.4\n},\n' >profile.json
printf '%s\n' '"power": [' '{"operator": "gemm", "type": "bf16", "numbers": "normal", "pass": "forward", "m": 8192, "n": 8192, "k": 8192,' '"time_s": 0.0018, "energy_j": 1.2456,' \
    '"watts": 692.0, "clock_hz": 1.41e9, "memory_clock_hz": 3.2e9, "settle_s": 0.05, "window_s": 1, "counted_by": "device"},' \
    '{' '"operator": "copy",' '"numbers": "normal",' '"pass": "forward",' '"elements": 1024,' '"time_s": 1e-3,' '"energy_j": 0.3,' '"watts": 300,' '"clock_hz": 1.98e9' '}]}' >>profile.json
echo 'constants  product_j_per_flop 1.1e-12, memory_w 187, burst_clock_ratio 0.95' >profile.txt
awk -f "$root/tools/gpu-report.awk" -v rows_wanted=18 -v backend=cuda -v short=false -v budget=470 -v took=400 -v version='redco-exec 9' >report.md || wrong 'awk'
mv report.json.new report.json
documents report.json points.json
says report.json '"bar": "step time, median error against the profile'"'"'s prediction", "wanted": "5 %", "measured": "4.0 % of 3 rows", "status": "met"'
says report.json '"measured": "12.0 % (3B seq 1)", "status": "missed"'
says report.json '"measured": "4.00 % (3B seq 1)", "status": "missed"'
says report.json '"measured": "0.510 (1B seq 1)", "status": "met"'
says report.json '"measured": "0.540 (7B seq 1)", "status": "missed"'
says report.json '"measured": "1.250 at worst of 2 rows (1B seq 1)", "status": "missed"'
says report.json '"bar": "operators of plan and trace have the same names", "wanted": "0 on one side only", "measured": "1", "status": "missed"'
says report.json '"bar": "rows run in the time given", "wanted": "16 of 18 and PyTorch beside 4", "measured": "3 of 18, PyTorch beside 2", "status": "missed"'
says report.json '"power": {"idle_w": 129.4, "limit_w": 700.0, "constants": "product_j_per_flop 1.1e-12, memory_w 187, burst_clock_ratio 0.95", "loads": ['
says report.json '{"operator": "copy", "pass": "forward", "size": "1024", "numbers": "normal", "energy_j": 0.3, "time_s": 1e-3, "watts": 300, "clock_hz": 1.98e9}'
grep -q '^129 W idle, limit 700 W. Constants of the model: product_j_per_flop 1.1e-12, memory_w 187, burst_clock_ratio 0.95.$' report.md || wrong 'watts'
grep -q '^| gemm | forward | 8192 x 8192 x 8192 | normal | 1.246 | 0.0018 | 692 | 1410 | 3200 | 0.05 | device |$' report.md || wrong 'the joules of a product'
grep -q '^| 1B seq 1 | 690 | 700 | 0.7 |$' report.md || wrong 'watts of a row' # 700 W for 1 s, 1000 tokens
says report.json '"predicted_watts": 690, "measured_watts": 700}'
says report.json '"predicted_watts": null, "measured_watts": null}'
says report.json '"bar": "compute-sanitizer", "wanted": "clean", "measured": "not clean: a", "status": "missed"'
says report.json '"bar": "ranks that share the GPU, by NCCL", "wanted": "as one rank; a killed one ends all", "measured": "with MPS: 3 passed, not b", "status": "missed"'
says report.json '"not_run": [{"row": "7B seq 2", "why": "no time: 3 s are left"}]'
grep -q '^| 1B seq 1 | 1.0000 | 0.8000 | 1.250 | 0.00 | 0.00 | 30 |$' report.md || wrong 'the rows beside PyTorch'
grep -q '^| 7B seq 1 | 0.9800 | 1.0000 | -2.0 % | 0.540 | 0.00 | 0.00 | +2.00 % | 50 % | 20 % | 15 % | 10 % | 2 % |$' report.md || wrong 'the row of 7B'
cd "$scratch" || exit 2

# PyTorch's side: syntax always; a step of a tiny model where PyTorch is. Recomputation changes no loss.
python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$root/tools/gpu_torch.py" || wrong 'gpu_torch.py is no Python'
torch=
for python in /usr/bin/python3 python3; do
    if [ -z "$torch" ] && PYTHONDONTWRITEBYTECODE=1 "$python" -c 'import torch' 2>/dev/null; then torch=$python; fi
done
if [ -n "$torch" ]; then
    for recompute in none selective full; do
        PYTHONDONTWRITEBYTECODE=1 "$torch" "$root/tools/gpu_torch.py" --config "$root/tests/data/models/oracle/llama.json" --seq 12 \
            --micro-batch 2 --micro-batches 2 --steps 2 --recompute $recompute --device cpu --no-compile >"$scratch/$recompute.json" || wrong "gpu_torch.py $recompute"
        grep -o '"loss": [0-9.]*' "$scratch/$recompute.json" >>"$scratch/losses"
    done
    [ "$(sort -u "$scratch/losses" | wc -l)" = 1 ] || wrong "losses depend on recomputation: $(cat "$scratch/losses")"
else
    echo 'skipped: gpu_torch.py was not run, PyTorch is not installed'
fi

# A device that is played, and NCCL 2.30; with the older one that the mock library is by itself no rank shares a device. MPS
# is played by a program that is one to be started and told to quit.
if [ -n "$mocks" ] && [ -e "$mocks/libcuda.so.1" ]; then
    mkdir "$scratch/mps"
    # shellcheck disable=SC2016 # the program's own variable
    printf '#!/bin/sh\nif [ "${1-}" = -f ]; then echo begun >>%s/said && exec sleep 300; fi\ncat >>%s/said\n' "$scratch/mps" "$scratch/mps" >"$scratch/mps/nvidia-cuda-mps-control"
    chmod +x "$scratch/mps/nvidia-cuda-mps-control"
    PATH=$scratch/mps:$PATH MOCK_CUDA_MPS=1 MOCK_NCCL_VERSION=23007 REDCO_CUDA_FOLDERS='' LD_LIBRARY_PATH=$mocks acceptance --short --seconds 300 "$scratch/device" || { wrong "with mock libraries it ended with $?:" && cat "$scratch/err" "$scratch/out"; }
    documents "$scratch/device/report.json"
    says "$scratch/device/stages.txt" 'unit tests|passed|'
    says "$scratch/device/stages.txt" 'profile|passed|'
    says "$scratch/device/report.json" '"bar": "ranks that share the GPU, by NCCL", "wanted": "as one rank; a killed one ends all", "measured": "3 runs of 2 and 4 ranks with MPS, as one rank: shared.txt", "status": "met"'
    [ "$(tr '\n' ' ' <"$scratch/mps/said")" = 'begun quit ' ] || wrong "MPS: $(cat "$scratch/mps/said")"
    says "$scratch/device/stages.txt" 'replay|passed|'
    [ ! -s "$scratch/device/not-run.txt" ] || wrong "not run: $(cat "$scratch/device/not-run.txt")"
    [ "$(grep -c '"furthest"' "$scratch/device/report.json")" = 2 ] || wrong 'on a device two rows are wanted'
    # Memory is planned, so it is what was predicted, whatever a device's driver holds: plan and trace have both.
    [ "$(sed -n 's/.*"memory_error": *\(-*[0-9.]*\).*/\1/p' "$scratch/device/report.json" | awk '$1 < 0.01 && $1 > -0.01' | wc -l)" = 2 ] ||
        wrong "memory of $(cat "$scratch/device/rows.txt")"
    for trace in "$scratch"/device/tiny*.trace.json; do
        redco-validate "${trace%.trace.json}.plan.json" "$trace" --profile "$scratch/device/profile.json" --json >"$scratch/compared.json" || wrong "redco-validate $trace"
        says "$scratch/compared.json" '"holder": "reserve"'
    done
    # What is packed for another machine: programs by themselves, and the tests that gpu-acceptance looks for.
    if "$root/tools/gpu-bundle" --build "$(dirname "$tools")" "$scratch/bundle" 2>"$scratch/err"; then
        env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH="$mocks" "$scratch/bundle/bin/redco-profile" --backend cuda --quick --quiet \
            -o "$scratch/bundle.json" || wrong 'redco-profile of the bundle'
        [ "$(wc -l <"$scratch/bundle/tools/gpu-tests.txt")" -gt 9 ] || wrong 'a list of tests for machines with a GPU is wanted'
        while read -r test; do
            [ -x "$scratch/bundle/bin/tests/$test" ] || wrong "the bundle has no $test"
        done <"$scratch/bundle/tools/gpu-tests.txt"
    else
        wrong "gpu-bundle: $(cat "$scratch/err")"
    fi
    if command -v gnuplot >/dev/null && [ ! -s "$scratch/device/points.png" ]; then wrong 'no picture was drawn'; fi
    says "$scratch/device/report.json" '"attention": "cuDNN '
    [ "$(grep -c '"measured_watts": [1-9]' "$scratch/device/report.json")" = 2 ] || wrong 'rows have no watts'
    grep -q ' W idle, limit 700 W. Constants of the model: product_j_per_flop ' "$scratch/device/report.md" || wrong 'the report has no watts'
    [ "$(grep -c '^| \(gemm\|attention\|copy\|optimizer\|rms_norm\) | ' "$scratch/device/report.md")" = 12 ] || wrong 'twelve loads are wanted'
    grep -q '^Attention by cuDNN ' "$scratch/device/report.md" || wrong 'the report does not name who ran attention'
    says "$scratch/device/report.json" '"bar": "operators of plan and trace have the same names", "wanted": "0 on one side only", "measured": "0", "status": "met"'
    says "$scratch/device/report.json" '"bar": "training like the reference", "wanted": "f32 within 1e-3, losses of bf16 within 1e-2", "measured": "2 trainings like the reference: parity.txt", "status": "met"'
fi
[ $failures = 0 ]
