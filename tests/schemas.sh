#!/bin/sh
# tests/schemas.sh TOOLS quick|full: every preset, and what the tools print, against the JSON Schema of its format; and that the
# schemas refuse what the readers refuse (full: a process of Python each). Needs Debian's python3-jsonschema (its command, not a Python of one's own);
# skipped (77) without it.
set -u
tools=$1 size=$2
cd "$(dirname "$0")/.." || exit 2
[ -x /usr/bin/jsonschema ] || { echo "skipped: python3-jsonschema is not installed" && exit 77; }
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failures=0
checked=0

valid() { # SCHEMA FILE...: one process for all files, as Python starts slowly
    schema=$1
    shift
    for file in "$@"; do
        [ -f "$file" ] || { echo "no file $file" && return 1; }
        shift
        set -- "$@" -i "$file"
    done
    /usr/bin/jsonschema --base-uri "file://$PWD/$(dirname "$schema")/" "$@" "$schema"
}

check() { # SCHEMA FILE...
    checked=$((checked + $# - 1))
    valid "$@" || { echo "not all are documents of $1" && failures=$((failures + 1)); }
}

# refuse SCHEMA FILE SED: what the file becomes by the script must not pass.
refuse() {
    [ "$size" = full ] || return 0
    sed "$3" "$2" >"$scratch/bad.json"
    checked=$((checked + 1))
    if cmp -s "$2" "$scratch/bad.json"; then echo "$3 changes nothing in $2" && failures=$((failures + 1)); fi
    if valid "$1" "$scratch/bad.json" >/dev/null 2>&1; then
        echo "$1 lets $3 pass"
        failures=$((failures + 1))
    fi
}

gpu=topology/presets/gpus/A800-SXM4-80GB.json
cluster=topology/presets/clusters/a800-hdr.json
check topology/discovery/gpu.schema.json topology/presets/gpus/*.json
refuse topology/discovery/gpu.schema.json $gpu 's/"80 GiB"/"80"/'
refuse topology/discovery/gpu.schema.json $gpu 's/"version": 1/"version": 2/'
refuse topology/discovery/gpu.schema.json $gpu 's/"tdp"/"tpd"/'
check topology/discovery/cluster.schema.json topology/presets/clusters/*.json
{ sed '/"gpu":/,$d' $cluster && printf '"gpu": ' && cat $gpu && sed '1,/"gpu":/d; s/"gpus": 8,/,&/' $cluster; } >"$scratch/own.json"
check topology/discovery/cluster.schema.json "$scratch/own.json"
refuse topology/discovery/cluster.schema.json "$scratch/own.json" 's/"redco-gpu"/"redco-cpu"/'
"$tools/redco-validate" --measured tests/golden/validate-command/rows.csv --row 1 --command "$scratch/row" >/dev/null
check topology/discovery/cluster.schema.json "$scratch/row/cluster.json"
refuse topology/discovery/cluster.schema.json $cluster 's/"gpus": 8/"gpus": 0/'
refuse topology/discovery/cluster.schema.json $cluster 's/"200 Gb\/s"/"200"/'
check costmodel/engines/calibration.schema.json costmodel/presets/calibrations/*.json
refuse costmodel/engines/calibration.schema.json costmodel/presets/calibrations/a100-eager.json '/kernel_s/d'
check costmodel/engines/bands.schema.json costmodel/presets/bands/*.json
refuse costmodel/engines/bands.schema.json costmodel/presets/bands/dense.json 's/"source": {/"sources": {/'
check costmodel/saving/saving.schema.json costmodel/presets/saving/*.json
refuse costmodel/saving/saving.schema.json costmodel/presets/saving/te.json 's/"norm[.]output"/"norm.outputs"/'
refuse costmodel/saving/saving.schema.json costmodel/presets/saving/te.json 's/"bytes": 2/"bytes": -2/'
refuse costmodel/saving/saving.schema.json costmodel/presets/saving/formulas.json 's/"per": 10/"per": 0/'
engine=costmodel/presets/engines/llm-foundry.json
check costmodel/engines/engine.schema.json costmodel/presets/engines/*.json
refuse costmodel/engines/engine.schema.json $engine 's/"eager"/"lazy"/'
refuse costmodel/engines/engine.schema.json $engine 's/"256 MB"/"256"/'
refuse costmodel/engines/engine.schema.json $engine 's/"bf16": 4/"bf16": 3/'
refuse costmodel/engines/engine.schema.json $engine '/measured_on/d; s/^\( "export".*\),$/\1/'
refuse costmodel/engines/engine.schema.json $engine 's/, "source": "[^"]*"}/}/'
check traces/profile.schema.json tests/data/profiles/own.json tests/data/profiles/own-v2.json tests/data/profiles/own-v3.json
refuse traces/profile.schema.json tests/data/profiles/own.json 's/"nodes": 1/"nodes": 0/'
refuse traces/profile.schema.json tests/data/profiles/own.json 's/"all_reduce"/"all_reduces"/'
refuse traces/profile.schema.json tests/data/profiles/own-v3.json 's/"part"/"parts"/'
refuse traces/profile.schema.json tests/data/profiles/own-v3.json 's/"samples"/"nobody"/'
refuse traces/profile.schema.json tests/data/profiles/own-v2.json 's/"operator": "copy"/"operators": "copy"/'
refuse traces/profile.schema.json tests/data/profiles/own-v2.json 's/"transposed": "a"/"transposed": "c"/'
"$tools/redco-profile" --quick --quiet --ranks 2 -o "$scratch/profile.json" --cluster "$scratch/host.json"
check traces/profile.schema.json "$scratch/profile.json"
check topology/discovery/cluster.schema.json "$scratch/host.json"

"$tools/redco-topo" --json --quiet >"$scratch/node.json"
check topology/discovery/node.schema.json "$scratch/node.json"
"$tools/redco-plan" --gpus 64 --quiet -o "$scratch/plan.json" >/dev/null
"$tools/redco-plan" --gpus 8 --cluster p3dn --precision fp16 --quiet -o "$scratch/ordered.json" >/dev/null
check planner/plan/plan.schema.json "$scratch/plan.json" "$scratch/ordered.json" tests/data/plans/v1.json
"$tools/redco-sim" "$scratch/plan.json" --json --timeline "$scratch/trace.json" >"$scratch/simulation.json"
check costmodel/simulator/simulation.schema.json "$scratch/simulation.json"
awk -v factor=1.1 -v only=forward -f tests/data/traces/retime.awk "$scratch/trace.json" | sed '1s/^/[/; 3d; /"ph":"C"/d' >"$scratch/measured.json"
"$tools/redco-plan" --gpus 64 --quiet --pp 4 --timeline "$scratch/stages.json" -o "$scratch/stages-plan.json" >/dev/null
for pair in plan:trace plan:measured stages-plan:stages; do
    "$tools/redco-validate" "$scratch/${pair%:*}.json" "$scratch/${pair#*:}.json" --quiet --json >"$scratch/compared-${pair#*:}.json"
done
check traces/compare/comparison.schema.json "$scratch"/compared-*.json
refuse traces/compare/comparison.schema.json "$scratch/compared-trace.json" 's/"step_s"/"step"/'
refuse traces/compare/comparison.schema.json "$scratch/compared-trace.json" 's/"hidden_ratio": 0/"hidden_ratio": 2/'
refuse traces/compare/comparison.schema.json "$scratch/compared-trace.json" 's/"passed": true/"passed": 1/'
refuse costmodel/simulator/simulation.schema.json "$scratch/simulation.json" 's/"bubble_s"/"bubbles"/'
check traces/trace.schema.json "$scratch/trace.json"
refuse traces/trace.schema.json "$scratch/trace.json" 's/"dur"/"duration"/'
refuse planner/plan/plan.schema.json "$scratch/plan.json" 's/"step_s"/"step"/'
refuse planner/plan/plan.schema.json "$scratch/ordered.json" 's/"gpu_order": \[/"gpu_order": [-1,/'

"$tools/redco-plan" --pp 1 --cp 1 --cluster tests/data/exec/quad.json --model tests/data/models/oracle/opt.json --gpus 2 --seq 8 --global-batch 2 \
    --precision fp32 --quiet -o "$scratch/small.json" >/dev/null
"$tools/redco-exec" "$scratch/small.json" --steps 1 --json >"$scratch/run.json"
"$tools/redco-exec" "$scratch/small.json" --steps 2 --checkpoint "$scratch/ck" --check --json >"$scratch/checked.json"
"$tools/redco-exec" "$scratch/small.json" --steps 2 --checkpoint "$scratch/ck" --resume --json >"$scratch/resumed.json"
check executor/run.schema.json "$scratch/run.json" "$scratch/checked.json" "$scratch/resumed.json"
refuse executor/run.schema.json "$scratch/checked.json" 's/"status": "ok"/"status": "fine"/'
refuse executor/run.schema.json "$scratch/resumed.json" 's/"resumed_from"/"resumed"/'
refuse executor/run.schema.json "$scratch/run.json" 's/"loss"/"losses"/'
check executor/checkpoint/checkpoint.schema.json "$scratch"/ck/*/checkpoint.json
refuse executor/checkpoint/checkpoint.schema.json "$scratch/ck/step-0000000002/checkpoint.json" 's/"checksum"/"sum"/'
refuse executor/checkpoint/checkpoint.schema.json "$scratch/ck/step-0000000002/checkpoint.json" 's/"F32"/"F16"/'

"$tools/redco-rules" --model gpt2 --shards 2 --explain --json >"$scratch/rules.json"
"$tools/redco-rules" --model t5-11b --shards 1 --explain --json >"$scratch/whole.json"
check planner/rules/rules.schema.json "$scratch/rules.json" "$scratch/whole.json" tests/fuzz/corpus/rules_file/*.json
refuse planner/rules/rules.schema.json "$scratch/rules.json" 's/"key"/"kye"/'
refuse planner/rules/rules.schema.json "$scratch/rules.json" 's/"mp"/"dp"/'
refuse planner/rules/rules.schema.json "$scratch/rules.json" 's/"role": "qkv"/"role": "kqv"/'

# Exports of strategies, degrees and precisions: the files that are JSON, the others as the data that they are made from.
n=0
export_as() { # OPTION...
    n=$((n + 1))
    case "$*" in --gpus*) ;; *) set -- --gpus 64 "$@" ;; esac
    case "$*" in *fp16*) titan= ;; *) titan="--export torchtitan" ;; esac # it does not train in fp16
    # shellcheck disable=SC2086 # none or two words
    "$tools/redco-plan" --json --quiet --export megatron --export deepspeed --export fsdp --export internevo \
        --export sbatch --export megatron-bridge $titan "$@" >"$scratch/exports.json" || { echo "no exports of $*" && failures=$((failures + 1)) && return; }
    /usr/bin/python3 - "$scratch" $n <<'END'
import json, sys
for export in json.load(open(sys.argv[1] + "/exports.json"))["exports"]:
    base = "%s/%s-%s" % (sys.argv[1], export["framework"], sys.argv[2])
    json.dump(export, open(base + "-report.json", "w"))
    json.dump(export["config"], open(base + "-config.json", "w"))
END
}
for strategy in ddp zero1 zero2 zero3 mics zeropp hsdp amsp; do export_as --strategy $strategy; done
export_as --fix p=8x1,g=8x1,os=8x8
export_as --model llama-3-70b --tp 8 --pp 4 --sequence-parallel --recompute full
export_as --model llama-13b --recompute selective --precision fp16
export_as --cp 2
export_as --model gpt2-xl --seq 1024
export_as --model llama-30b --tp 2 --pp 4 --pp-chunks 3 --sequence-parallel --recompute full
export_as --gpus 24 --global-batch 1032 --tp 4 --pp 3 --recompute full
export_as --gpus 8 --cluster p3dn --precision fp16 --model gpt2 --seq 1024 --tp 2
for file in megatron.sh ds_zero2.json accelerate_hybrid.yaml torchtitan.toml; do
    "$tools/redco-plan" --read tests/data/read/$file --gpus 16 --cluster dgx-h100 --quiet --json |
        python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["read"]))' >"$scratch/$file-read.json"
done
check planner/read/read.schema.json "$scratch"/*-read.json
for log in megatron torchtitan oom summary; do
    "$tools/redco-plan" --gpus 8 --cluster dgx-h100 --quiet --json --log tests/data/read/logs/$log.log |
        python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["measured"]))' >"$scratch/$log-log.json"
done
check planner/read/run-log.schema.json "$scratch"/*-log.json
check planner/export/export.schema.json "$scratch"/*-report.json
for framework in megatron megatron-bridge torchtitan deepspeed fsdp internevo; do
    check planner/export/$framework.schema.json "$scratch/$framework"-[0-9]*-config.json
done
"$tools/redco-plan" --gpus 64 --quiet --strategy zeropp --export deepspeed >"$scratch/ds.json"
"$tools/redco-plan" --gpus 64 --quiet --strategy zeropp --export fsdp >"$scratch/fsdp.json"
check planner/export/deepspeed.schema.json "$scratch/ds.json"
check planner/export/fsdp.schema.json "$scratch/fsdp.json"
refuse planner/export/deepspeed.schema.json "$scratch/ds.json" 's/"stage": 3/"stage": 4/'
refuse planner/export/deepspeed.schema.json "$scratch/ds.json" 's/overlap_comm/overlap_comms/'
refuse planner/export/fsdp.schema.json "$scratch/fsdp.json" 's/"reshard_after_forward": 8/"reshard_after_forward": 1/'
refuse planner/export/megatron.schema.json "$scratch/megatron-1-config.json" 's/rope/ropes/'
refuse planner/export/megatron.schema.json "$scratch/megatron-14-config.json" 's/"num-virtual-stages-per-pipeline-rank": 3/"num-virtual-stages-per-pipeline-rank": 1/'
refuse planner/export/megatron.schema.json "$scratch/megatron-15-config.json" 's/Et.11/t*11/'
refuse planner/export/internevo.schema.json "$scratch/internevo-14-config.json" 's/"interleaved_overlap": true/"interleaved_overlap": false/'
refuse planner/export/fsdp.schema.json "$scratch/fsdp-16-config.json" 's/CUDA_VISIBLE_DEVICES=0/CUDA_VISIBLE_DEVICES=;id/'
refuse planner/export/megatron-bridge.schema.json "$scratch/megatron-bridge-1-config.json" 's/"micro_batch_size": [0-9]*/"micro_batch_size": 0/'
refuse planner/export/megatron-bridge.schema.json "$scratch/megatron-bridge-1-config.json" 's/"torch.float32"/"float32"/'
refuse planner/export/torchtitan.schema.json "$scratch/torchtitan-14-config.json" 's/Interleaved1F1B/interleaved/'
refuse planner/export/torchtitan.schema.json "$scratch/torchtitan-1-config.json" 's/\("activation_checkpoint": \)[^,}]*/\1"full"/'
refuse planner/export/internevo.schema.json "$scratch/internevo-1-config.json" 's/"m[ts]p"/"mptp"/'
run=planner/run
for kind in failures:failures prices:prices grids:grid batches:batches; do
    check $run/${kind#*:}.schema.json $run/presets/${kind%:*}/*.json tests/fuzz/corpus/run_values/${kind#*:}*.json
done
refuse $run/failures.schema.json $run/presets/failures/rsc-1.json 's|/node-day|/day|'
refuse $run/prices.schema.json $run/presets/prices/list-2023.json 's/2023-07-26/july/'
refuse $run/grid.schema.json $run/presets/grids/france.json 's/gCO2/kgCO2/'
refuse $run/batches.schema.json $run/presets/batches/mlperf-gpt3-175b.json '/"seq_len"/d'
check $run/phases.schema.json tests/fuzz/corpus/run_phases/*.json
refuse $run/phases.schema.json tests/fuzz/corpus/run_phases/two.json 's/"tokens"/"token"/'
"$tools/redco-plan" --gpus 64 --quiet --tokens 1T --price list-2026 --cluster dgx-a100 --grid france --json >"$scratch/run-plan.json"
check planner/plan/plan.schema.json "$scratch/run-plan.json"
refuse planner/plan/plan.schema.json "$scratch/run-plan.json" 's/"gpu_hours"/"hours"/'
"$tools/redco-plan" --gpus 8..64 --quiet --tokens 1T --deadline 300d --model llama-13b --json >"$scratch/frontier.json"
check $run/frontier.schema.json "$scratch/frontier.json"
refuse $run/frontier.schema.json "$scratch/frontier.json" 's/"best_here"/"best"/'
"$tools/redco-plan" --run tests/fuzz/corpus/run_phases/two.json --quiet --json >"$scratch/phases.json"
check $run/run-phases.schema.json "$scratch/phases.json"
"$tools/redco-plan" --compare-runs "$scratch/run-plan.json" "$scratch/phases.json" --json >"$scratch/changes.json"
check $run/run-comparison.schema.json "$scratch/changes.json"

# The file for InternEvo is Python: what it defines is that data.
"$tools/redco-plan" --gpus 64 --quiet --strategy amsp --export internevo >"$scratch/internevo.py"
/usr/bin/python3 - "$scratch" <<'END' || { echo "internevo.py is not its data" && failures=$((failures + 1)); }
import json, sys
names = {}
exec(open(sys.argv[1] + "/internevo.py").read(), names)
del names["__builtins__"]
sys.exit(names != json.load(open(sys.argv[1] + "/internevo-8-config.json")))
END

echo "$checked documents, $failures failures"
[ $failures -eq 0 ]
