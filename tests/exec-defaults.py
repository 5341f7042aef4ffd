#!/usr/bin/env python3
"""tests/exec-defaults.py TOOLS [COUNT [SEED]]: what redco-plan answers by default, redco-exec trains. The default plans of dense
model presets on 8 and 64 GPUs of dgx-h100 (COUNT of them, drawn; all without), small: a tiny model of the family with
the preset's switches and 4 layers in each stack, each degree above 1 is 2, chunks at most 2, data parallelism fills up to
8 ranks, the meshes of parameters, gradients and states are one rank, a part or all ranks as they were, and recomputation
and order of passes stay. Three losses and norms in f64 are one rank's to 1e-10; a refusal is a failure, but of those that are known."""
import json
import os
import random
import subprocess
import sys
import tempfile

tools, here = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.abspath(__file__))
layers = ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "n_layers")
cluster = os.path.join(here, "data/exec/many.json")
known = {"command-r-plus": "no norms with a gain for each head", "t5-11b": "in several chunks a stage is not executed"}
presets = os.path.join(here, "../costmodel/presets/models")


def run(words):
    done = subprocess.run([os.path.join(tools, words[0]), *words[1:]], capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr.strip()


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def tiny_of(preset, tiny):
    """@return whether there is a tiny model of its family: one without experts"""
    config = read(os.path.join(presets, preset))
    near = os.path.join(here, "data/models/oracle", config["model_type"].replace("-", "_") + ".json")
    if not os.path.exists(near):
        return False
    small = read(near)
    small.update({key: config[key] for key in small if isinstance(config.get(key), bool)})
    small.update({key: 4 for key in layers if key in small})
    small.update({key: (value * 4)[:4] for key, value in small.items() if key == "no_rope_layers"})
    with open(tiny, "w", encoding="utf-8") as file:
        json.dump(small, file)
    return True


def shape(mesh, dp, few):
    ranks, whole = mesh["gpus"] * mesh["nodes"], dp["gpus"] * dp["nodes"]
    return f"{1 if ranks == 1 else few if ranks == whole else max(1, few // 2)}x1"


def small_plan(plan):
    """@return the options of the small plan"""
    mesh = plan["mesh"]
    tp, pp = min(mesh["tp"], 2), min(mesh["pp"], 2)
    dp = 1 if mesh["dp"]["gpus"] * mesh["dp"]["nodes"] == 1 else 8 // (tp * pp)
    block = next(row for row in plan["sharding"] if row["class"] not in ("embedding", "head"))
    meshes = ",".join(key + "=" + shape(block[name], mesh["dp"], dp)
                      for key, name in (("p", "parameters"), ("g", "gradients"), ("os", "optimizer")))
    words = ["--gpus", str(tp * pp * dp), "--tp", str(tp), "--pp", str(pp), "--cp", str(min(mesh["cp"], 2)), "--fix", meshes]
    if pp > 1:
        order = plan["pipeline"]["schedule"]
        words += ["--pp-schedule", order, "--pp-chunks", str(min(mesh["pp_chunks"], 2))]
    if tp > 1:
        words += ["--sequence-parallel=" + ("on" if mesh["sequence_parallel"] else "off")]
    return words + ["--recompute", block["recompute"], "--scheme", plan["workload"]["scheme"]]


def losses(words, tiny, plan):
    """@return losses and norms, or None and what was said"""
    code, _, said = run(["redco-plan", "--quiet", "--model", tiny, "--cluster", cluster, "--calibration", "host", "--seq", "8",
                         "--global-batch", "16", "--micro-batch", "1", "--precision", "fp32", *words, "-o", plan])
    if code == 0:
        code, out, said = run(["redco-exec", plan, "--steps", "3", "--dtype", "f64", "--json"])
    return ([(s["loss"], s["gradient_norm"]) for s in json.loads(out)["steps"]], "") if code == 0 else (None, said)


cases = [(preset, gpus) for preset in sorted(os.listdir(presets)) if preset.endswith(".json") for gpus in (8, 64)]
if len(sys.argv) > 2:
    random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1).shuffle(cases)
wanted = int(sys.argv[2]) if len(sys.argv) > 2 else len(cases)
rows, failures, refused, without, stages, worst = 0, 0, 0, 0, 0, 0.0
with tempfile.TemporaryDirectory() as scratch:
    plan, tiny = os.path.join(scratch, "plan.json"), os.path.join(scratch, "tiny.json")
    for preset, gpus in cases:
        if rows == wanted:
            break
        ask = ["redco-plan", "--quiet", "--gpus", str(gpus), "--cluster", "dgx-h100", "--model", preset[:-5], "-o", plan]
        if not tiny_of(preset, tiny) or run(ask)[0] != 0:
            without += 1
            continue
        words = small_plan(read(plan))
        rows += 1
        stages += "--pp-schedule" in words
        alone, said = losses(["--gpus", "1", "--pp", "1", "--cp", "1"], tiny, plan)
        steps, said = losses(words, tiny, plan) if alone is not None else (None, said)
        error = max(abs(a - b) / abs(b) for got, want in zip(steps, alone) for a, b in zip(got, want)) if steps else 1.0
        worst = max(worst, error if steps else 0.0)
        if steps is None and known.get(preset[:-5], "-") in said:
            refused += 1
        elif not error < 1e-10:
            print(f"{preset[:-5]} on {gpus} GPUs, {' '.join(words)}: {said or f'off by {error:.1e}'}")
            failures += 1
print(f"{rows} default plans, {stages} with stages: {failures} are not one rank's, {refused} known ones are refused; "
      f"within {worst:.1e}; {without} without a small model")
sys.exit(failures > 0 or rows < min(wanted, 1))
