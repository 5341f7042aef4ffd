#!/bin/sh
# tools/fit-presets.sh: fits every shipped calibration set anew to traces/data and rewrites costmodel/presets/calibrations,
# from the tools of the release build. Sets named prior-* are typed in by hand and left as they are. Build again
# afterwards: presets are part of the tools. Look at the difference before committing it.
set -eu
cd "$(dirname "$0")/.."
tool=$PWD/build/release/tools/redco-calibrate
out=costmodel/presets/calibrations

fit() { # NAME OPTION...
    name=$1
    shift
    "$tool" --measured traces/data "$@" --name "$name" -o "$out/$name.json" | tail -1
}

# as NAME FROM BASIS: the same constants for a GPU that nobody has published runs of.
as() {
    sed -e "s|\"name\": .*|\"name\": \"$1\",|" -e "s|\"basis\": .*|\"basis\": \"$3\",|" \
        -e 's|"fitted_rows": .*|"fitted_rows": 0,|' "$out/$2.json" >"$out/$1.json"
}

# One for each class of GPU and of software.
fit a100-eager --gpu A100 --gpu A800 --prior prior-a100-eager --software eager
fit a100-megatron --gpu A100 --prior prior-a100-megatron --software megatron
fit h100-eager --gpu H100 --prior prior-h100-eager --software eager
fit h100-te --gpu H100 --prior prior-h100-te --software te_xla
fit blackwell-te --gpu B200 --gpu GB200 --prior prior-blackwell-te --software te_xla
as h200-eager h100-eager "h100-eager: an H200 is an H100 with the memory bandwidth and size of its own data sheet; no run of one was fitted"
as h200-te h100-te "h100-te: an H200 is an H100 with the memory bandwidth and size of its own data sheet; no run of one was fitted"
# One for each framework with runs enough.
fit a800-amsp --gpu A800 --framework amsp --prior prior-a100-eager
fit a100-llm-foundry --gpu A100 --framework llm-foundry
fit a100-aleph-alpha --gpu A100 --framework aleph-alpha
fit a100-megatron-deepspeed --gpu A100 --framework megatron-deepspeed
fit a100-megatron-lm --gpu A100 --framework megatron-lm
fit h100-nemo --gpu H100 --framework nemo
fit h100-maxtext --gpu H100 --framework maxtext
fit blackwell-megatron-bridge --gpu B200 --gpu GB200 --framework megatron-bridge
