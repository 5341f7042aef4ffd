#!/usr/bin/env python3
"""tests/exec-executable.py TOOLS COUNT [SEED]: what a plan says about redco-exec is what redco-exec does. COUNT random plans of tiny
models, by random engines, degrees, recomputation, formats and strategies: a plan with "executable": true trains a step on
processors; one with false is refused before it begins, with the plan's first reason; and the same of CUDA, whose devices
are looked for only where the plan is executable."""
import json
import os
import random
import subprocess
import sys
import tempfile

tools, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
here = os.path.dirname(os.path.abspath(__file__))
models = sorted(os.listdir(os.path.join(here, "data/models/oracle")))
models = [os.path.join(here, "data/models/oracle", m) for m in models if m.endswith(".json")]
clusters = [os.path.join(here, "data/exec/quad.json"), os.path.join(here, "data/exec/pair.json"), "dgx-h100", "a800-hdr"]


def question():
    words = ["--model", draw.choice(models), "--cluster", draw.choice(clusters), "--gpus", str(draw.choice([1, 2, 2, 4, 4])),
             "--seq", str(draw.choice([8, 16])), "--global-batch", str(draw.choice([4, 8, 16])), "--micro-batch", "1"]
    for option, values in (
            ("--engine", ["redco-exec", "redco-exec", "megatron-lm", "fsdp", "deepspeed", "torchtitan"]),
            ("--tp", ["1", "2", "2", "auto"]), ("--pp", ["1", "1", "2", "4", "auto"]), ("--cp", ["1", "1", "1", "2"]),
            ("--pp-schedule", ["1f1b", "zb-h1", "dualpipev"]), ("--pp-chunks", ["1", "2"]),
            ("--recompute", ["none", "selective", "full", "half", "mlp", "layernorm", "modules"]),
            ("--precision", ["fp32", "bf16", "fp8"]), ("--strategy", ["ddp", "zero1", "zero2", "zero3", "amsp", "zeropp"]),
            ("--tp-placement", ["rules", "milp"]), ("--scheme", ["inter-tensor", "intra-tensor"]),
            ("--sequence-parallel=", ["on", "off"])):
        if draw.random() < 0.4:
            value = draw.choice(values)
            words += [option + value] if option.endswith("=") else [option, value]
    return words


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr.strip()


failures, runs, refused, unplanned = 0, 0, 0, 0
with tempfile.TemporaryDirectory() as scratch:
    plan = os.path.join(scratch, "plan.json")
    while runs + refused < count:
        words = question()
        code, _, said = run([os.path.join(tools, "redco-plan"), "--quiet", *words, "-o", plan])
        if code != 0:
            unplanned += 1
            if code > 2 or code < 0 or unplanned > 20 * count + 100:
                print(f"redco-plan {' '.join(words)}: exit {code}: {said}")
                sys.exit(1)
            continue
        with open(plan, encoding="utf-8") as file:
            execution = json.load(file)["execution"]
        problems = []
        for where in ("host", "cuda"):
            says = execution[where]
            if says["executable"] and where == "cuda":
                continue
            code, out, said = run([os.path.join(tools, "redco-exec"), plan, "--backend", where, "--steps", "1"])
            if says["executable"] and code != 0:
                problems.append(f"{where}: executable, but exit {code}: {said}")
            if not says["executable"] and (code != 2 or "step" in out or says["because"][0] not in said):
                problems.append(f"{where}: not executable ({says['because'][0]}), but exit {code}: {said}")
        runs += execution["host"]["executable"]
        refused += not execution["host"]["executable"]
        code, _, said = run([os.path.join(tools, "redco-plan"), "--check", plan])
        if code != 0:
            problems.append(f"--check: exit {code}: {said}")
        for problem in problems:
            print(f"redco-plan {' '.join(words)}\n    {problem}")
        failures += len(problems)
print(f"{runs} plans ran, {refused} were refused as they say, {unplanned} questions without a plan, {failures} contradictions")
sys.exit(failures > 0 or runs == 0 or refused == 0)
