#!/bin/sh
# tests/exec-weights.sh TOOLS [few|full]: weights that transformers wrote are read into sharded plans and written back bit
# by bit; those that one plan writes another one reads, trains on as one rank does and writes again, in f32 and bf16;
# files of another model, damaged ones and folders in use are one message before the first step.
# Checks are "all of these, or report": the report never runs after a success.
# shellcheck disable=SC2015
set -u
# shellcheck source=tests/exec-common.sh
. "$(dirname "$0")/exec-common.sh"
size=${2:-few}
cd "$scratch" || exit 2
trips=0
plan() { # NAME MODEL OPTION...
    name=$1 file=$2
    shift 2
    redco-plan --quiet --pp 1 --cp 1 --cluster "$tests/data/exec/quad.json" --model "$file" --seq 12 \
        --global-batch 4 --micro-batch 1 --precision fp32 "$@" -o "$name.json" >/dev/null
}
run() { # PLAN OPTION...
    plan=$1
    shift
    redco-exec "$plan.json" --quiet "$@" >out 2>err
}
# Tensors of files, by name: type, shape and bytes. Nothing of redco's is in it.
cat >tensors.py <<'PY'
import json, pathlib, struct, sys
def tensors(folder):
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        raw = path.read_bytes()
        length = struct.unpack("<Q", raw[:8])[0]
        for name, t in json.loads(raw[8:8 + length]).items():
            if name != "__metadata__":
                a, b = t["data_offsets"]
                found[name] = (t["dtype"], t["shape"], raw[8 + length + a:8 + length + b])
    return found
a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
sys.exit(not a or a != b)
PY

# What transformers 4.48 saved (data/models/oracle/save_weights.py): two files with an index, and the same as one.
saved=$tests/data/models/oracle/saved
plan qwen "$saved/config.json" --gpus 4 --tp 2 --strategy zero3 --precision bf16 || exit 2
mkdir two one
cp "$saved"/model-0* "$saved/model.safetensors.index.json" two
cp "$saved/model.safetensors" one
for from in two one two/model.safetensors.index.json one/model.safetensors; do
    rm -rf back
    run qwen --weights $from --steps 0 --save-weights back || bad "$from: exit $?"
    python3 tensors.py one back || bad "$from: other tensors come back"
    trips=$((trips + 1))
done
# Fused matrices, which tensor parallelism cuts in the middle (data/models/oracle/save_predictions.py).
saved=$tests/data/models/oracle/predictions/phi3
plan phi3 "$saved/config.json" --gpus 4 --tp 2 --strategy zero3 || exit 2
run phi3 --weights "$saved" --steps 0 --save-weights fused || bad "phi3: exit $?"
python3 tensors.py "$saved" fused || bad 'phi3: other tensors come back'
trips=$((trips + 1))
grep -q '"torch_dtype": "bfloat16"' back/config.json || bad 'config.json says another type'

# Between plans; f32 to f64 and back changes no bit.
models='llama gpt2 t5'
[ "$size" = few ] || models=$(cd "$tests/data/models/oracle" && basename -s .json -- *.json | grep -v -x opt-post-norm)
for model in $models; do
    file=$tests/data/models/oracle/$model.json
    plan sharded "$file" --gpus 4 --tp 2 --strategy zero3 2>err || plan sharded "$file" --gpus 4 --strategy zero3 || exit 2
    plan mesh "$file" --gpus 4 --fix p=2x1,g=2x1,os=2x2 2>err || plan mesh "$file" --gpus 4 --strategy zero1 || exit 2
    rm -rf first second third fourth
    run sharded --steps 1 --save-weights first || bad "$model: trains, exit $?"
    run mesh --weights first --dtype f64 --steps 0 --save-weights second || bad "$model: reads, exit $?"
    cmp first/model.safetensors second/model.safetensors || bad "$model: weights differ after a round"
    run mesh --weights first --steps 0 --save-weights third --save-dtype bf16 || bad "$model: casts, exit $?"
    run sharded --weights third --dtype bf16 --steps 0 --save-weights fourth || bad "$model: reads bf16, exit $?"
    cmp third/model.safetensors fourth/model.safetensors || bad "$model: bf16 weights differ after a round"
    run sharded --weights first --steps 2 --check --dtype f64 || bad "$model: not as one rank, exit $?"
    grep -q 'the same' out || bad "$model: no verdict"
    trips=$((trips + 1))
done

refuse() { # CODE TEXT PLAN OPTION...: one line, and no step
    want=$1 text=$2
    shift 2
    refused=$((refused + 1))
    run "$@"
    got=$?
    [ $got -eq "$want" ] && [ "$(wc -l <err)" -eq 1 ] && grep -q "$text" err && ! grep -q '^step' out ||
        bad "$*: exit $got, not $want with \"$text\""
}
damage() { # COPY PYTHON: of the one file's bytes b and header h
    rm -rf "$1"
    mkdir "$1"
    python3 - one/model.safetensors "$1/model.safetensors" "$2" <<'PY'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", raw[:8])[0]
h, b = json.loads(raw[8:8 + length]), bytearray(raw[8 + length:])
scope = {"h": h, "b": b}
exec(sys.argv[3], scope)
text = json.dumps(h).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + bytes(scope["b"]))
PY
}
damage missing 'del h["model.norm.weight"]'
damage reshaped 'h["model.layers.0.self_attn.q_proj.weight"]["shape"] = [4, 16]'
damage short 'b = b[:-2]'
damage nan 't = h["model.norm.weight"]["data_offsets"][0]; b[t + 1] = 0x7f; b[t] = 0xc0'
damage ints '[t.update(dtype="I16") for n, t in h.items() if n != "__metadata__"]'
mkdir empty
refuse 2 'model.norm.weight' qwen --weights missing
refuse 2 'q_proj.weight has shape \[4, 16\]' qwen --weights reshaped
refuse 2 'short/model.safetensors: .*is cut off\|short/model.safetensors: .*end' qwen --weights short
refuse 2 'nan/model.safetensors: model.norm.weight holds what is not a finite number' qwen --weights nan
refuse 2 'is I16; F64, F32, BF16 and F16 can be read' qwen --weights ints
refuse 2 'empty/model.safetensors: cannot open' qwen --weights empty
refuse 2 'nowhere: cannot open' qwen --weights nowhere
refuse 2 'first/model.safetensors' qwen --weights first
rm two/model-00002-of-00002.safetensors
refuse 2 'model-00002-of-00002.safetensors' qwen --weights two
refuse 2 'has files already' qwen --save-weights one
refuse 2 'is no folder' qwen --save-weights one/model.safetensors
refuse 3 'none/here: cannot make it' qwen --save-weights none/here
refuse 2 'a run that is resumed has' qwen --checkpoint ck --resume --weights one
refuse 2 'needs --save-weights' qwen --save-dtype bf16
refuse 2 'needs real computation' qwen --emulate-compute --weights one
# A disk that is full leaves nothing behind; 2 blocks of 512 bytes are less than the file.
(ulimit -f 2 && run qwen --weights one --steps 1 --save-weights full)
[ $? -eq 3 ] && [ "$(ls -A full)" = '' ] || bad 'a full disk'

echo "$trips round trips, $refused refused, $failures failures"
exit $((failures > 0))
