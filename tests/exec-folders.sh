#!/bin/sh
# tests/exec-folders.sh TOOLS [few|full]: folders that transformers 4.48 and 5 saved (data/models/oracle/folders, made by
# save_folders.py): the loss of their examples and 16 greedy tokens behind their prompts are transformers', or what redco
# cannot do is refused with the key that asks for it.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
size=${2:-few}
cd "$scratch" || exit 2
for archive in "$tests"/data/models/oracle/folders/*.tar.gz; do tar -xzf "$archive" || exit 2; done
# What the executor has not: the key that it must name.
cat >refused <<'END'
llama-dynamic rope_type
llama-yarn rope_type
mpt-clipped clip_qkv
mpt-wide up_proj.weight has shape
END
cat >compare.py <<'END'
import json, sys
folder = sys.argv[1]
want, targets = open(f"{folder}/loss").read().split()
got = json.load(open("loss.json"))["evaluation"]
assert abs(got["loss"] / float(want) - 1) < 1e-6 and got["targets"] == int(targets), ("loss", got["loss"], want)
for line in open("tokens.jsonl"):
    line = json.loads(line)
    wanted, made = line["example"], line["prediction"]
    assert (made["tokens"], made["ended"]) == (wanted["made"], wanted["ended"]), ("tokens", line)
END
equal=0 named=0
for folder in transformers-*/*; do
    name=${folder#*/}
    case $size:$name in full:* | few:llama-base | few:gpt_neox-base | few:qwen?-window | few:phi3-part | few:t5 | few:t5-untied | \
        few:llama-ends | few:bart-forced | few:llama-yarn | few:mt5 | few:mpt-clipped | few:gemma-base) ;;
    *) continue ;; esac
    key=$(sed -n "s/^$name //p" refused)
    redco-plan --gpus 1 --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$folder/config.json" --seq 16 \
        --global-batch 2 --micro-batch 1 --precision fp32 -o plan.json >out 2>err || bad "$folder: no plan"
    [ ! -s err ] || bad "$folder: the plan warns"
    if redco-exec plan.json --dtype f64 --weights "$folder" --evaluate "$folder/examples.jsonl" --json >loss.json 2>err; then
        redco-exec plan.json --dtype f64 --weights "$folder" --predict "$folder/prompts.jsonl" --max-new-tokens 16 \
            >tokens.jsonl 2>err && python3 compare.py "$folder" 2>err && equal=$((equal + 1)) || bad "$folder: differs"
    elif [ -n "$key" ] && grep -q -e "$key" err; then
        named=$((named + 1))
    else
        : >out && bad "$folder: refused"
    fi
    runs=$((runs + 1))
done
echo "$equal equal, $named refused by name"
# Keys that redco does not know: named when it is planned, an error with weights. Null and false may say nothing.
folder=transformers-5.24.0/llama-base
unknown() { # MEMBERS: of the config, in Python
    python3 -c "import json, sys
config = json.load(open('$folder/config.json'))
config.update($1)
json.dump(config, open('config.json', 'w'))"
    redco-plan --gpus 1 --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model config.json --seq 16 \
        --global-batch 2 --micro-batch 1 --precision fp32 -o plan.json >out 2>err || bad "$1: no plan"
}
unknown '{"sinks": 4, "logit_softcapping": 30.0, "mlp_type": None, "rope_parameters": {"rope_type": "default", "mscale": 2}}'
grep -q 'warning: config.json: 3 keys are not known for llama, .*"sinks": 4, "logit_softcapping": 30.0, "rope_parameters/mscale": 2$' err ||
    bad 'unknown keys are not named'
refuse 2 'config.json: its config has keys that redco does not know, .*"sinks": 4, ' redco-exec plan.json --weights "$folder" --evaluate "$folder/examples.jsonl"
unknown '{"rope_scaling": {"rope_type": "linear", "factor": 2.0}}'
refuse 2 '"*rope_scaling.*stands beside "rope_parameters"' redco-exec plan.json --weights "$folder" --evaluate "$folder/examples.jsonl"
unknown '{"rope_parameters": {"chunked_attention": {"rope_type": "default", "rope_theta": 1e4}}}'
refuse 2 'has "chunked_attention", rotary positions of layers of a kind' redco-exec plan.json --weights "$folder" --evaluate "$folder/examples.jsonl"
unknown '{"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4, "mscale": 2}}}'
grep -q '"rope_parameters/full_attention/mscale": 2$' err || bad 'unknown keys of one kind of layers are not named'
# A tied table that a file has twice, the same or not; weights that are a pickle; what stands beside weights.
folder=transformers-5.24.0/gemma-base
redco-plan --gpus 1 --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$folder/config.json" --seq 16 \
    --global-batch 2 --micro-batch 1 --precision fp32 -o plan.json >out 2>err
cat >copy.py <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + size]), data[8 + size:]
table = header["model.embed_tokens.weight"]
begin, end = table["data_offsets"]
copy = bytearray(body[begin:end])
copy[5] ^= int(sys.argv[3])
header["lm_head.weight"] = {**table, "data_offsets": [len(body), len(body) + len(copy)]}
text = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + body + copy)
END
mkdir -p same other pickle
python3 copy.py "$folder/model.safetensors" same/model.safetensors 0
python3 copy.py "$folder/model.safetensors" other/model.safetensors 64
run redco-exec plan.json --weights same --evaluate "$folder/examples.jsonl"
refuse 2 'lm_head.weight is not model.embed_tokens.weight, though the config ties them: element 2 is' \
    redco-exec plan.json --weights other --evaluate "$folder/examples.jsonl"
: >pickle/pytorch_model.bin
for what in pickle pickle/pytorch_model.bin; do
    refuse 2 "$what: has weights as torch.save() writes them .*; convert them: python3 -c" redco-exec plan.json --weights $what --steps 1
done
for file in tokenizer.json generation_config.json merges.txt; do echo "{\"$file\": 1}" >same/$file; done
for from in same same/model.safetensors; do
    rm -rf kept && run redco-exec plan.json --weights $from --steps 1 --save-weights kept
    for file in tokenizer.json generation_config.json merges.txt; do cmp same/$file kept/$file || bad "$file is not copied"; done
    run redco-exec plan.json --weights kept --evaluate "$folder/examples.jsonl"
done
# What transformers would do otherwise when it generates.
echo '{"num_beams": 4, "repetition_penalty": 1.0, "suppress_tokens": [3], "no_repeat_ngram_size": null}' >same/generation_config.json
run redco-exec plan.json --weights same --predict "$folder/prompts.jsonl"
grep -q 'warning: the settings of generation .*: num_beams, suppress_tokens$' err || bad 'settings of generation are not named'
finish
