#!/usr/bin/env python3
"""tests/exec-stages.py TOOLS COUNT [SEED]: plans with pipeline stages train as one rank does. COUNT random plans of tiny models
(4 blocks, f64) over degrees, strategies, recomputation, splits of the layers: losses and norms of gradients of three steps
are those of one rank to 1e-10. Plans that are not executable are not counted."""
import json
import os
import random
import subprocess
import sys
import tempfile

tools, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
here = os.path.dirname(os.path.abspath(__file__))
families = ["llama", "gpt2", "t5", "bart", "gemma2", "qwen2", "opt", "bloom", "mistral", "gptj", "gpt_neox", "phi3", "olmo2"]
layers = ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "n_layers")
quad = os.path.join(here, "data/exec/quad.json")


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr.strip()


def model_of(family, folder):
    path = os.path.join(folder, family + ".json")
    if not os.path.exists(path):
        with open(os.path.join(here, "data/models/oracle", family + ".json"), encoding="utf-8") as file:
            config = json.load(file)
        config.update({key: 4 for key in layers if key in config})
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
    return path


def losses(plan):
    code, out, said = run([os.path.join(tools, "redco-exec"), plan, "--steps", "3", "--dtype", "f64", "--json"])
    if code != 0:
        return None, said
    return [(s["loss"], s["gradient_norm"]) for s in json.loads(out)["steps"]], said


def question():
    pp, tp, dp = draw.choice([(2, 1, 1), (2, 1, 2), (2, 2, 1), (4, 1, 1), (2, 1, 2), (2, 2, 2), (4, 1, 2), (4, 2, 1)])
    words = ["--gpus", str(pp * tp * dp), "--pp", str(pp), "--tp", str(tp)]
    words += draw.choice([["--pp-schedule", "1f1b", "--pp-chunks", "1"], ["--pp-schedule", "gpipe"], ["--pp-schedule", "zb-h1"],
                          ["--pp-chunks", "2"]])
    words += ["--cluster", quad if pp * tp * dp <= 4 else os.path.join(here, "data/exec/many.json")]
    if dp > 1:
        words += ["--strategy", draw.choice(["ddp", "zero1", "zero1", "zero2", "zero3"])]
        words += ["--scheme", draw.choice(["inter-tensor", "intra-tensor"])] if draw.random() < 0.5 else []
    if tp > 1:
        words += ["--sequence-parallel=" + draw.choice(["on", "off"])]
    words += ["--recompute", draw.choice(["none", "none", "selective", "full"])]
    return words


failures, same, refused, worst = 0, 0, 0, 0.0
with tempfile.TemporaryDirectory() as scratch:
    alone = {}
    while same < count and refused < 20 * count + 100:
        family, micro = draw.choice(families), draw.choice([1, 1, 2])
        workload = ["--model", model_of(family, scratch), "--cp", "1", "--seq", "8", "--global-batch", "8", "--precision", "fp32",
                    "--micro-batch", str(micro)]
        plan = os.path.join(scratch, "plan.json")
        if family not in alone:
            code, _, said = run([os.path.join(tools, "redco-plan"), "--quiet", "--gpus", "1", "--pp", "1", "--cluster", quad,
                                 *workload, "-o", plan])
            alone[family], said = losses(plan) if code == 0 else (None, said)
            if alone[family] is None:
                print(f"{family} on one rank: {said}")
                sys.exit(1)
        words = question()
        code, _, said = run([os.path.join(tools, "redco-plan"), "--quiet", *workload, *words, "-o", plan])
        if code == 0:
            with open(plan, encoding="utf-8") as file:
                executable = json.load(file)["execution"]["host"]["executable"]
        if code != 0 or not executable:
            refused += 1
            continue
        steps, said = losses(plan)
        if steps is None:
            print(f"redco-plan {' '.join(workload + words)}: {said}")
            failures += 1
        else:
            error = max(abs(a - b) / abs(b) for got, want in zip(steps, alone[family]) for a, b in zip(got, want))
            worst = max(worst, error)
            if not error < 1e-10:
                print(f"redco-plan {' '.join(workload + words)}: off by {error:.1e}")
                failures += 1
        same += 1
print(f"{same} plans with stages, {failures} are not one rank's; losses and norms within {worst:.1e}; {refused} questions without")
sys.exit(failures > 0 or same < count)
