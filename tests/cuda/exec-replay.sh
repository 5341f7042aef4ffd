#!/bin/sh
# tests/cuda/exec-replay.sh TOOLS MOCKS: redco-exec --replay-rank --backend cuda plays ranks of 64 and 1024 GPUs on one
# device: operators are the simulator's, in its order; communication is work of the device and takes what is modelled, at
# least (how much more, nobody promises); what is taken of memory was planned, and no operator is said to have more.
set -u
tests=$(cd "$(dirname "$0")/.." && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
mocks=$(cd "$2" && pwd) || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
export REDCO_CUDA_FOLDERS= # the mock libraries alone
unset CUDA_VISIBLE_DEVICES OMPI_COMM_WORLD_RANK PMI_RANK REDCO_RANK SLURM_STEP_NUM_TASKS
failures=0
bad() {
    echo "$1"
    failures=$((failures + 1))
}
events() { # TRACE: stream and name of each operator, stream by stream
    sed -n 's/^{"ph":"X","pid":0,"tid":\([0-9]*\),.*"name":"\([^"]*\)".*/\1 \2/p' "$1" | sort -s -n -k1,1
}
play() { # RANK GPUS BATCH MODEL OPTION...
    rank=$1 gpus=$2 batch=$3 model=$4
    shift 4
    what="rank $rank of $gpus, $model $*"
    redco-plan --quiet --model "$tests/data/models/oracle/$model.json" --cluster "$tests/data/exec/many.json" --calibration host \
        --seq 12 --micro-batch 1 --global-batch "$batch" --gpus "$gpus" --precision fp32 "$@" -o plan.json >/dev/null || exit 2
    redco-sim plan.json --timeline modelled.json --quiet >/dev/null || exit 2
    if ! LD_LIBRARY_PATH=$mocks redco-exec plan.json --replay-rank "$rank" --backend cuda --steps 2 --timeline played.json \
        --json >run.json 2>err; then
        bad "$what: $(tail -n 1 err)"
        return
    fi
    events modelled.json >wanted && events played.json >got
    [ -s wanted ] || bad "$what: the simulator has no operators"
    diff wanted got >differences || bad "$what: not the simulator's operators: $(head -n 5 differences)"
    number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" run.json | head -n 1; }
    taken=$(number allocated_bytes)
    [ "$(number peak_memory_bytes)" = "$taken" ] || bad "$what: $(number peak_memory_bytes) B planned, $taken taken"
    # The trace has what the driver holds, too.
    awk -v taken="$((taken + $(number reserve_bytes)))" -v what="$what" '
        function value(key) { return match($0, "\"" key "\":[0-9.e+-]+") ? substr($0, RSTART + length(key) + 3) + 0 : 0 }
        /^{"ph":"X","pid":0,"tid":[1-9]/ {
            played += value("dur"); modelled += value("alone_us"); count++
            if (value("dur") < 0.999 * value("alone_us") - 0.1) { print "too short: " $0; wrong++ }
        }
        /^{"ph":"C"/ {
            split(substr($0, index($0, "\"args\":")), parts, /[:,}]/); sum = 0
            for (i in parts) { if (parts[i] ~ /^[0-9]+$/) { sum += parts[i] } }
            if (sum > taken) { print sum " B at once, " taken " taken"; wrong++ }
            samples++
        }
        END {
            printf "%s: %d collectives, %.3f ms modelled, %.3f ms on the device\n", what, count, modelled / 1e3, played / 1e3
            exit wrong > 0 || count == 0 || modelled == 0 || samples == 0
        }' played.json || bad "$what: see above"
}
play 63 64 32 llama --tp 2 --strategy zero3
play 20 64 128 gpt2 --tp 1 --fix p=1x1,g=8x1,os=8x4 --scheme intra-tensor --recompute full
play 700 1024 512 llama --tp 2 --strategy zero3
play 1023 1024 1024 opt --tp 1 --strategy ddp

# Buckets end where modules end, the simulator's anywhere: as many or not, no operator of either side has no partner.
redco-plan --quiet --model "$tests/data/models/oracle/llama.json" --cluster "$tests/data/exec/many.json" --calibration host --seq 12 \
    --micro-batch 1 --global-batch 1024 --gpus 1024 --precision fp32 --tp 1 --strategy zero1 -o many.json >/dev/null || exit 2
count() { grep -c '"name":"bwd/gradients/bucket' "$1"; }
others=0
for bytes in 9000 12000 15000 17000 23000 30000; do
    sed "s/\"bucket_bytes\": *[0-9]*/\"bucket_bytes\": $bytes/" many.json >cut.json
    redco-sim cut.json --timeline modelled.json --quiet >/dev/null || exit 2
    if ! LD_LIBRARY_PATH=$mocks redco-exec cut.json --replay-rank 0 --backend cuda --steps 2 --timeline played.json --quiet >/dev/null 2>err; then
        bad "buckets of $bytes bytes: $(tail -n 1 err)"
        continue
    fi
    [ "$(count modelled.json)" = "$(count played.json)" ] || others=$((others + 1))
    redco-validate cut.json played.json | sed -n 2p >compared
    grep -q '^[0-9]* operators compared$' compared || bad "buckets of $bytes bytes: $(cat compared)"
done
[ $others -gt 0 ] || bad 'buckets are never cut differently: nothing was shown'
echo "ranks played: $failures failures"
[ $failures -eq 0 ]
