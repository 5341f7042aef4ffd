#!/bin/sh
# tests/exec-memory.sh TOOLS [quick|few|all]: the memory that redco-exec plans and takes for plans of real processes, against
# the plan's predicted bytes, and against what its devices gave. Ranks x strategies x tensor parallelism x recomputation
# x families x types; nothing is timed. Prints the table; fails beyond 3 % or where an allocation was not planned.
set -u
tests=$(cd "$(dirname "$0")" && pwd) || exit 2
PATH=$(cd "$1" && pwd):$PATH
size=${2:-few}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2

# With --steps 0 a rank takes all memory that it will ever have, and reports it.
# In 16 bits processors hold an operator's tensors in 32 as well.
row() { # NODE-TYPE MODEL RANKS TP RECOMPUTE OPTION...
    for precision in fp32 bf16; do one "$precision" "$@"; done
}
one() {
    precision=$1 cluster=$2 model=$3 ranks=$4 tp=$5 recompute=$6
    shift 6
    if [ -n "${ONLY-}" ] && ! echo "$model $ranks tp $tp $recompute $precision $*" | grep -qE "$ONLY"; then return; fi
    if ! redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/$cluster.json" --calibration host --model "$model.json" \
        --gpus "$ranks" --tp "$tp" --seq 256 --global-batch $((4 * ranks / tp)) --micro-batch 2 --precision "$precision" \
        --recompute "$recompute" --sequence-parallel=off "$@" -o plan.json >plan.out 2>&1; then
        echo "no plan: $model $ranks tp $tp $recompute $precision $*: $(tail -1 plan.out)"
        echo "bad 0 0" >>rows
        return
    fi
    if ! redco-exec plan.json --steps 0 --json >run.json 2>run.err; then
        echo "does not run: $model $ranks tp $tp $recompute $precision $*: $(cat run.err)"
        echo "bad 0 0" >>rows
        return
    fi
    awk -v what="$model $ranks ranks tp $tp $recompute $precision $*" '
        /"peak_memory_bytes"/ { gsub(/[^0-9]/, "", $2); if (!planned) planned = $2; else predicted = $2 }
        /"allocated_bytes"/ { gsub(/[^0-9]/, "", $2); allocated = $2 }
        /"(parameters|gradients|optimizer|activations|logits|recomputed|working|slots|buckets)":/ {
            gsub(/[",:]/, ""); held = held sprintf(" %s %.1f", substr($1, 1, 3), $2 * 1e-6) }
        END { error = predicted / planned - 1; extra = allocated / planned - 1
            printf "%-64s planned %8.2f MB  predicted %8.2f  %+6.2f %%  allocated %+5.2f %% |%s\n", what, planned * 1e-6,
                predicted * 1e-6, 100 * error, 100 * extra, held
            print (error * error <= 0.03 * 0.03 && extra >= 0 && extra <= 0.01 ? "ok" : "bad"), error, extra >>"rows" }
    ' run.json
}

: >rows
models='llama gpt2 t5' policies='none full'
[ "$size" = all ] && policies='none selective full' && models='llama mistral qwen2 qwen3 gpt2 gptj gpt_neox opt gemma phi3 internlm2 bloom mpt t5 mt5 bart'
for model in $models; do
    sed 's/"\(n_layers\{0,1\}\|[a-z_]*_layers\)": [0-9]*/"\1": 4/' "$tests/data/models/medium/$model.json" >"$model.json"
    if [ "$size" = quick ]; then
        row quad "$model" 1 1 full
        row quad "$model" 2 1 none --strategy zero3
        [ "$model" = gpt2 ] || row quad "$model" 2 2 full --sequence-parallel
        [ "$model" != t5 ] || row quad "$model" 4 2 none --strategy zero3 # its scaled head is reduced before the norm
        continue
    fi
    for policy in $policies; do
        row quad "$model" 1 1 "$policy"
        for strategy in ddp zero1 zero2 zero3; do row quad "$model" 2 1 "$policy" --strategy "$strategy"; done
        row quad "$model" 2 2 "$policy"
        row quad "$model" 2 2 "$policy" --sequence-parallel
        if [ "$size" = few ]; then continue; fi
        for strategy in zero1 zero3; do row quad "$model" 4 1 "$policy" --strategy "$strategy"; done
        row pair "$model" 4 1 "$policy" --strategy hsdp
        row pair "$model" 4 1 "$policy" --strategy amsp
        row quad "$model" 4 2 "$policy" --strategy zero3
        row quad "$model" 4 4 "$policy" --sequence-parallel
    done
done
awk '{ n++; e = $2 < 0 ? -$2 : $2; if (e > worst) worst = e; if ($3 > extra) extra = $3; bad += $1 == "bad" }
    END { printf "%d plans: predicted within %.2f %% of planned, allocated at most %.2f %% above it; %d beyond\n", n,
        100 * worst, 100 * extra, bad; exit bad > 0 }' rows
