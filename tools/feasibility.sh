#!/usr/bin/env bash
# tools/feasibility.sh: RedCoast's settings (README of its repository, version 0.4.23: fp32, Adam, longest sequence) as a
# table in Markdown: what the planner finds with nothing but the number of devices, and with half as many. The tools are
# those on the PATH, else the release build's. Exit 1 when one of the settings does not fit.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
command -v redco-plan >/dev/null || PATH=$root/build/release/tools:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0

# answer MODEL SEQ CLUSTER GPUS: one cell. Returns 1 when nothing fits.
answer() {
    local code=0
    redco-plan --precision fp32 --model "$1" --seq "$2" --cluster "$3" --gpus "$4" >"$scratch/out" 2>"$scratch/err" || code=$?
    if [ $code -gt 1 ]; then
        cat "$scratch/err" >&2
        exit 3
    fi
    if [ $code -eq 1 ]; then
        sed -n 's/.*: does not fit: \(.*\) too much on every GPU; largest: \(.*\); \(.*\)/\1 short, most of it \2; \3/p' "$scratch/err"
        return 1
    fi
    # name (like), tp, meshes and memory of the best; micro-batches and recomputation from the second line
    awk 'NR == 2 { sub(/^.*, [0-9,]+ micro-batch(es)? of /, ""); sub(/ per [^,]*, /, ", "); how = "micro-batch " $0 }
         $1 == "strategy" { for (i = 2; i <= NF; i++) { at[$i] = i + 2 } }
         $1 == "*" { name = $3; gsub(/[()]/, "", name); p = at["parameters"]
                     degrees = "tp " $4 ("pp" in at ? ", pp " $at["pp"] : "") ("cp" in at ? ", cp " $at["cp"] : "")
                     printf "%s: %s, p %s, g %s, os %s; %s; %s of %s GB\n", name, degrees, $p, $(p + 1), $(p + 2), how, $(p + 3), $(p + 5) }' "$scratch/out"
}

echo '| model, tokens | devices | fits as | half as many |'
echo '|---|---|---|---|'
while read -r model seq cluster gpus; do
    fits=$(answer "$model" "$seq" "$cluster" "$gpus") || status=1
    half=$(answer "$model" "$seq" "$cluster" $((gpus / 2))) || true
    echo "| $model, $seq | $gpus of $cluster | $fits | $half |"
done <<END
bart-large 1024 box-2x3080 2
gpt2-large 512 box-2x3080 2
gpt2-large 512 box-2x1080ti 2
gpt-j-6b 1024 a100-40-4x 4
llama-7b 1024 a100-40-4x 4
t5-11b 512 p3dn 8
opt-13b 1024 p3dn 8
opt-66b 512 p3dn 64
END
exit $status
