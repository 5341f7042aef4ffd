#!/usr/bin/env python3
"""Exports of random plans, read back by redco-plan --read: they must be the plan as the framework runs it.

    tests/read_exports.py --tools BUILD/tools [--plans N] [--seed S] [--mixtures]

--mixtures: plans of mixtures of experts alone, which Megatron-LM and Megatron-Bridge take.

What the framework cannot express is in the export's report (its "exported"): that is what must come back, with every
dimension and the price. Of sbatch come back nodes and GPUs. A question without a plan that fits is drawn again.
Recomputation of single layers, and what is the model's own code, no export says: where the report names them, the
command line does.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

KINDS = {"megatron": "sh", "megatron-bridge": "py", "torchtitan": "py", "deepspeed": "json", "internevo": "py", "fsdp": "json"}
ENGINES = {k: k for k in KINDS} | {"megatron": "megatron-lm", "fsdp": "fsdp2"}  # those that run the export: nothing is priced otherwise
STAGES = {"schedule", "layers of stages", "group of micro-batches", "model chunks", "pp"}  # a framework that lacks one says so
MIXTURES = ["qwen3-30b-a3b", "deepseek-v2-lite", "olmoe-1b-7b", "granite-3.0-3b-a800m", "mixtral-8x7b", "gpt-oss-20b", "glm-4.5-air", "qwen2-57b-a14b"]
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
    words += ["--pp", str(pp)] + draw.choice([[], ["--pp-layout", "equal"]]) + (["--pp-chunks", draw.choice(["1", "2"])] if pp > 1 else [])
    cp = draw.choice([1, 1, 2]) if kind in ("megatron", "megatron-bridge", "torchtitan", "fsdp") else 1
    words += ["--cp", str(cp), "--precision", draw.choice(["bf16", "bf16", "fp16" if kind in ("megatron", "deepspeed") else "bf16"])]
    words += ["--engine", ENGINES[kind], "--strategy", draw.choice(["ddp", "zero1", "zero2", "zero3"]), "--recompute", draw.choice(["none", "full"])]
    return words, gpus


def mixture(draw, kind):
    gpus = draw.choice([16, 32, 64, 128])
    tp, pp = draw.choice([1, 2, 4]), draw.choice([1, 1, 2, 4])
    words = ["--gpus", str(gpus), "--cluster", "dgx-h100", "--model", draw.choice(MIXTURES), "--seq", draw.choice(["2048", "4096"]),
             "--global-batch", str(gpus * draw.choice([4, 8, 16])), "--micro-batch", draw.choice(["1", "2"]), "--tp", str(tp),
             "--pp", str(pp), "--cp", draw.choice(["1", "1", "2"]), "--ep", str(draw.choice([1, 2, 4, 8, 16])),
             "--etp", str(draw.choice([1, tp])), f"--sequence-parallel={'on' if tp > 1 else 'off'}"]
    words += ["--pp-chunks", draw.choice(["1", "2"])] if pp > 1 else []
    traits = [f"dispatcher={draw.choice(['alltoall', 'deepep', 'hybridep'])}"] + draw.choice([[], ["ep_overlap=1"], ["capacity_factor=1.5"]])
    words += ["--engine", ",".join([ENGINES[kind]] + traits), "--strategy", draw.choice(["ddp", "zero1"])]
    return words + ["--recompute", draw.choice(["none", "full", "moe_act", "layernorm+moe_act", "core_attn"])], gpus


def mesh(one):
    return one["gpus"] * one["nodes"]


def read_sbatch(tools, words, gpus):
    """@return what is wrong with the nodes and GPUs of the plan's batch script"""
    made = run(tools, words + ["--export", "sbatch=job.sh", "--json", "--quiet"])
    if made.returncode != 0:
        return []
    plan = json.loads(made.stdout)["exports"][0]["config"]
    back = run(tools, ["--read", "job.sh", "--cluster", "dgx-h100", "--model", words[words.index("--model") + 1], "--json", "--quiet"])
    read = json.loads(back.stdout or '{"read": {"options": [], "understood": []}}')["read"]
    got = [o["value"] for o in read["options"] if o["option"] == "gpus"]
    nodes = {u["value"] for u in read["understood"] if u["key"] == "nodes"}
    wrong = [] if got == [str(gpus)] else [f"GPUs {got}, not {gpus}: {back.stderr.strip()}"]
    return wrong + ([] if nodes == {str(plan["nodes"])} else [f"nodes {nodes}, not {plan['nodes']}"])


def pipeline(plan):
    """The order of passes, the group of micro-batches and the layers of each position of a plan's stages."""
    stages = plan.get("pipeline")
    if stages is None:
        return None
    return stages["schedule"], stages.get("group", plan["mesh"]["pp"]), [s.get("layers") for s in stages["stages"]]


def differences(kind, report, plan, block, made):
    """@return what the plan that was read is not, of the exported one, which was made from a plan"""
    exported, as_run = report["exported"], report["as_run"]
    got = {"tp": plan["mesh"]["tp"], "pp": plan["mesh"]["pp"], "cp": plan["mesh"]["cp"], "pp_chunks": plan["mesh"]["pp_chunks"],
           "ep": plan["mesh"]["ep"], "etp": plan["mesh"]["etp"],
           "micro_batch": plan["workload"]["micro_batch"], "sequence_parallel": plan["mesh"]["sequence_parallel"]}
    wrong = [f"{k} {v}, not {exported[k]}" for k, v in got.items() if k in exported and exported[k] != v]
    said = {d["what"] for d in report["differences"]}
    if not said & STAGES and pipeline(plan) != pipeline(made):
        wrong.append(f"stages {pipeline(plan)}, not {pipeline(made)}")
    mine = next(r for r in plan["sharding"] if r["class"] not in ("embedding", "head"))
    for part in ("parameters", "gradients", "optimizer"):
        if mesh(mine[part]) != mesh(block[0][part]):
            wrong.append(f"{part} over {mesh(mine[part])}, not {mesh(block[0][part])}")
    if mine["recompute"] != block[0]["recompute"] and len(block) == 1:
        wrong.append(f"recompute {mine['recompute']}, not {block[0]['recompute']}")
    if (as_run or {}).get("engine", plan["engine"]["name"]) == plan["engine"]["name"]:
        wanted = as_run["step_s"] if as_run else exported["predicted"]["step_s"]
        if abs(plan["predicted"]["step_s"] / wanted - 1) > 0.001:
            wrong.append(f"{plan['predicted']['step_s']:.4g} s, not {wanted:.4g}")
    else:
        wrong.append(f"priced as {plan['engine']['name']}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", required=True)
    parser.add_argument("--plans", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mixtures", action="store_true")
    args = parser.parse_args()
    tools, draw = os.path.abspath(args.tools), random.Random(args.seed)
    drawn = compared = failures = 0
    of_kind = dict.fromkeys(sorted(KINDS), 0)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        while compared < args.plans and drawn < 4 * args.plans:
            kind = draw.choice(["megatron", "megatron-bridge"] if args.mixtures else sorted(KINDS))
            words, gpus = (mixture if args.mixtures else question)(draw, kind)
            path = f"plan.{KINDS[kind]}"
            drawn += 1
            made = run(tools, words + ["--export", f"{kind}={path}", "--json", "--quiet"])
            if made.returncode != 0:
                continue
            report = json.loads(made.stdout)["exports"][0]
            block = [r for r in report["exported"]["sharding"] if r["class"] not in ("embedding", "head")]
            if kind == "deepspeed" and len(block) > 1:
                continue  # layers that differ are the model's own code
            model = words[words.index("--model") + 1]
            own = ["--seq", words[words.index("--seq") + 1], "--recompute", block[0]["recompute"], "--engine", "deepspeed"]
            back = run(tools, ["--read", path, "--model", model, "--gpus", str(gpus), "--cluster", "dgx-h100", "--json", "--quiet"]
                       + (own if kind == "deepspeed" else []))
            if back.returncode not in (0, 1) or not back.stdout:
                wrong = [back.stderr.strip()]
            else:
                plan = json.loads(back.stdout)
                wrong = ["does not fit"] if plan.get("mesh") is None else differences(kind, report, plan, block, json.loads(made.stdout))
            wrong += read_sbatch(tools, words, gpus)
            compared += 1
            of_kind[kind] += 1
            if wrong:
                failures += 1
                print(f"{kind} {' '.join(words)}: " + "; ".join(wrong))
    print(f"{compared} plans of {drawn} questions (" + ", ".join(f"{k} {n}" for k, n in of_kind.items()) + f"), each with sbatch: {failures} failures")
    return failures > 0 or compared < args.plans


if __name__ == "__main__":
    sys.exit(main())
