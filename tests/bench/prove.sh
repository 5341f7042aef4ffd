#!/bin/sh
# prove.sh TOOLS_DIR: the planner's answer against a second method that uses no GLPK (redco-plan --verify), over models,
# cluster sizes and options. Prints what was counted; exits 1 if one answer was beaten or one run failed.
set -u
plan=$1/redco-plan
verified=0 infeasible=0 unfit=0 beaten=0
report=$(mktemp)
trap 'rm -f "$report"' EXIT

for model in gpt2 opt-125m qwen2-0.5b bloom-560m gemma-2b llama-7b llama-3-8b llama-13b amsp-30b t5-11b llama-65b llama-3-70b; do
    for cluster in a800-hdr dgx-h100 p4d; do
        for gpus in 8 64 512 4096; do
            for options in --uniform --layerwise "--objective comm"; do
                # shellcheck disable=SC2086 # options are several words
                "$plan" --quiet --gpus "$gpus" --global-batch 4096 --seq 1024 --model "$model" --cluster "$cluster" \
                    $options --verify >/dev/null 2>"$report"
                case $? in
                0) verified=$((verified + 1)) ;;
                1) if grep -q 'does not fit' "$report"; then infeasible=$((infeasible + 1)); else
                       beaten=$((beaten + 1))
                       echo "beaten: --model $model --cluster $cluster --gpus $gpus $options"
                   fi ;;
                *) unfit=$((unfit + 1))
                   echo "failed: --model $model --cluster $cluster --gpus $gpus $options: $(cat "$report")" ;;
                esac
            done
        done
    done
done
echo "$verified answers verified, $infeasible infeasible, $beaten beaten, $unfit failed"
[ "$beaten" -eq 0 ] && [ "$unfit" -eq 0 ]
