#!/bin/sh
# tests/schemas.sh TOOLS: every preset, and what the tools print, against the JSON Schema of its format; and that the
# schemas refuse what the readers refuse. Needs Debian's python3-jsonschema (its command, not a Python of one's own);
# skipped (77) without it.
set -u
tools=$1
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
check topology/gpu.schema.json topology/presets/gpus/*.json
refuse topology/gpu.schema.json $gpu 's/"80 GiB"/"80"/'
refuse topology/gpu.schema.json $gpu 's/"version": 1/"version": 2/'
refuse topology/gpu.schema.json $gpu 's/"tdp"/"tpd"/'
check topology/cluster.schema.json topology/presets/clusters/*.json
refuse topology/cluster.schema.json $cluster 's/"gpus": 8/"gpus": 0/'
refuse topology/cluster.schema.json $cluster 's/"200 Gb\/s"/"200"/'
check costmodel/calibration.schema.json costmodel/presets/calibrations/*.json
refuse costmodel/calibration.schema.json costmodel/presets/calibrations/a100-eager.json '/kernel_s/d'
check traces/profile.schema.json tests/data/profiles/own.json
refuse traces/profile.schema.json tests/data/profiles/own.json 's/"nodes": 1/"nodes": 0/'
refuse traces/profile.schema.json tests/data/profiles/own.json 's/"all_reduce"/"all_reduces"/'

"$tools/redco-topo" --json --quiet >"$scratch/node.json"
check topology/node.schema.json "$scratch/node.json"
"$tools/redco-plan" --gpus 64 --quiet -o "$scratch/plan.json" >/dev/null
"$tools/redco-plan" --gpus 8 --cluster p3dn --precision fp16 --quiet -o "$scratch/ordered.json" >/dev/null
check planner/plan/plan.schema.json "$scratch/plan.json" "$scratch/ordered.json" tests/data/plans/v1.json
"$tools/redco-sim" "$scratch/plan.json" --json --timeline "$scratch/trace.json" >"$scratch/simulation.json"
check costmodel/simulation.schema.json "$scratch/simulation.json"
refuse costmodel/simulation.schema.json "$scratch/simulation.json" 's/"bubble_s"/"bubbles"/'
check traces/trace.schema.json "$scratch/trace.json"
refuse traces/trace.schema.json "$scratch/trace.json" 's/"dur"/"duration"/'
refuse planner/plan/plan.schema.json "$scratch/plan.json" 's/"step_s"/"step"/'
refuse planner/plan/plan.schema.json "$scratch/ordered.json" 's/"gpu_order": \[/"gpu_order": [-1,/'

"$tools/redco-rules" --model gpt2 --shards 2 --explain --json >"$scratch/rules.json"
"$tools/redco-rules" --model t5-11b --shards 1 --explain --json >"$scratch/whole.json"
check planner/rules.schema.json "$scratch/rules.json" "$scratch/whole.json" tests/fuzz/corpus/rules_file/*.json
refuse planner/rules.schema.json "$scratch/rules.json" 's/"key"/"kye"/'
refuse planner/rules.schema.json "$scratch/rules.json" 's/"mp"/"dp"/'
refuse planner/rules.schema.json "$scratch/rules.json" 's/"role": "qkv"/"role": "kqv"/'

echo "$checked documents, $failures failures"
[ $failures -eq 0 ]
