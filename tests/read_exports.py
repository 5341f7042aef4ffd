#!/usr/bin/env python3
"""Exports of random plans, read back by redco-plan --read: they must be the plan as the framework runs it.

    tests/read_exports.py --tools BUILD/tools [--plans N] [--seed S]

What the framework cannot express is in the export's report (its "exported"): that is what must come back. Of sbatch come
back nodes and GPUs. Recomputation of single layers, and what is the model's own code, no export says: where the report
names them, they are not compared.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

KINDS = {"megatron": "sh", "megatron-bridge": "py", "torchtitan": "py", "deepspeed": "json", "internevo": "py"}
ENGINES = {k: k for k in KINDS} | {"megatron": "megatron-lm"}  # those that run the export: nothing is priced otherwise
MODELS = ["llama-7b", "llama-3.1-8b", "llama-2-13b", "qwen2.5-7b"]


def run(tools, words):
    return subprocess.run([os.path.join(tools, "redco-plan")] + words, capture_output=True, text=True)


def question(draw, kind):
    gpus = draw.choice([8, 16, 32, 64])
    words = ["--gpus", str(gpus), "--cluster", "dgx-h100", "--model", draw.choice(MODELS), "--seq", draw.choice(["2048", "4096"]),
             "--global-batch", str(gpus * draw.choice([4, 8, 16])), "--micro-batch", draw.choice(["1", "2"])]
    tp = draw.choice([1, 2, 4])
    words += ["--tp", str(tp), f"--sequence-parallel={draw.choice(['on', 'off'])}" if tp > 1 else "--sequence-parallel=off"]
    pp = draw.choice([1, 1, 2, 4]) if gpus >= 16 else 1
    words += ["--pp", str(pp), "--pp-layout", "equal"] + (["--pp-chunks", draw.choice(["1", "2"])] if pp > 1 else [])
    words += ["--engine", ENGINES[kind], "--strategy", draw.choice(["ddp", "zero1", "zero2", "zero3"]), "--recompute", draw.choice(["none", "full"])]
    return words, gpus


def mesh(one):
    return one["gpus"] * one["nodes"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", required=True)
    parser.add_argument("--plans", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    tools, draw = os.path.abspath(args.tools), random.Random(args.seed)
    plans = compared = failures = priced = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        while plans < args.plans:
            kind = draw.choice(sorted(KINDS))
            words, gpus = question(draw, kind)
            path = f"plan.{KINDS[kind]}"
            made = run(tools, words + ["--export", f"{kind}={path}", "--json", "--quiet"])
            plans += 1
            if made.returncode != 0:
                continue
            report = json.loads(made.stdout)["exports"][0]
            exported, block = report["exported"], [r for r in report["exported"]["sharding"] if r["class"] == "block"]
            model = words[words.index("--model") + 1]
            back = run(tools, ["--read", path, "--model", model, "--gpus", str(gpus), "--cluster", "dgx-h100", "--json", "--quiet"]
                       + (["--seq", words[words.index("--seq") + 1]] if kind == "deepspeed" else [])
                       + (["--recompute", block[0]["recompute"], "--engine", "deepspeed"] if kind == "deepspeed" else []))
            if kind == "deepspeed" and len(block) > 1:
                continue  # layers that differ are the model's own code
            compared += 1
            if back.returncode not in (0, 1) or not back.stdout:
                print(f"{kind} {' '.join(words)}: {back.stderr.strip()}")
                failures += 1
                continue
            plan = json.loads(back.stdout)
            if plan.get("mesh") is None:
                continue  # does not fit as the framework's engine runs it
            got = {"tp": plan["mesh"]["tp"], "pp": plan["mesh"]["pp"], "cp": plan["mesh"]["cp"], "pp_chunks": plan["mesh"]["pp_chunks"],
                   "micro_batch": plan["workload"]["micro_batch"], "sequence_parallel": plan["mesh"]["sequence_parallel"]}
            wrong = [f"{k} {v}, not {exported[k]}" for k, v in got.items() if k in exported and exported[k] != v]
            mine = next(r for r in plan["sharding"] if r["class"] == "block")
            for part in ("parameters", "gradients", "optimizer"):
                if mesh(mine[part]) != mesh(block[0][part]):
                    wrong.append(f"{part} over {mesh(mine[part])}, not {mesh(block[0][part])}")
            if mine["recompute"] != block[0]["recompute"] and len(block) == 1:
                wrong.append(f"recompute {mine['recompute']}, not {block[0]['recompute']}")
            as_run = report["as_run"]
            wanted = as_run["step_s"] if as_run else exported["predicted"]["step_s"]
            same = (as_run or {}).get("engine", plan["engine"]["name"]) == plan["engine"]["name"]
            if same:
                priced += 1
                if abs(plan["predicted"]["step_s"] / wanted - 1) > 0.001:
                    wrong.append(f"{plan['predicted']['step_s']:.4g} s, not {wanted:.4g}")
            if wrong:
                failures += 1
                print(f"{kind} {' '.join(words)}: " + "; ".join(wrong))
        made = run(tools, ["--gpus", "64", "--cluster", "dgx-h100", "--model", "llama-7b", "--export", "sbatch=job.sh", "--quiet"])
        back = run(tools, ["--read", "job.sh", "--cluster", "dgx-h100", "--model", "llama-7b", "--json", "--quiet"])
        got = [o["value"] for o in json.loads(back.stdout or '{"read": {"options": []}}')["read"]["options"] if o["option"] == "gpus"]
        if got != ["64"]:
            failures += 1
            print(f"sbatch: GPUs {got}: {back.stderr.strip()}")
    print(f"{plans} plans, {compared} exports read back, {priced} prices, {failures} failures")
    return failures > 0 or compared == 0


if __name__ == "__main__":
    sys.exit(main())
