#!/bin/sh
# tests/mlperf-configs.sh DIR [TOOLS]: DIR is a checkout of a repository of MLPerf results (mlcommons/training_results_vX.Y), or
# a folder with several. Each priced row of ../shared/measured/mlperf.csv whose config_*.sh is found there is read by
# redco-plan --read, and must be the row: GPUs, degrees, batch, shards, schedule, recomputation, precision, overlap, and the
# step that redco-validate predicts for the row, within 0.1 %. Needs python3; 77 without it, without rows, or without files.
set -u
folder=$(cd "$1" && pwd) || exit 2
cd "$(dirname "$0")/.." || exit 2
tools=$(cd "${2:-build/release/tools}" && pwd) || exit 2
table=../shared/measured/mlperf.csv
command -v python3 >/dev/null || { echo 'skipped: python3 is not installed' && exit 77; }
[ -f "$table" ] || { echo "skipped: there is no $table" && exit 77; }
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
PATH=$tools:$PATH python3 - "$folder" "$table" "$scratch" <<'END'
import csv, json, os, re, shlex, subprocess, sys

folder, table, scratch = sys.argv[1:]
configs = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
           if name.startswith("config_") and name.endswith(".sh")]


def run(words):
    return subprocess.run(words, capture_output=True, text=True)


def found(row):
    """The file that the row's notes name: of its organisation, and where several are, of its system."""
    version, where = re.match(r"training_results_(v[\d.]+)@\w+ (\S+)", row["location"]).groups()
    organisation, _, system, benchmark = (where.split("/") + [""] * 4)[:4]
    name = re.search(r"config (config_\S+\.sh)", row["notes"])
    mine = [c for c in configs if ("/" + organisation + "/") in c and version in c] or \
           [c for c in configs if ("/" + organisation + "/") in c]
    mine = [c for c in mine if "/" + benchmark + "/" in c] or mine
    if name:
        mine = [c for c in mine if os.path.basename(c) == name.group(1)]
    else:
        mine = [c for c in mine if row["gpu"] in os.path.basename(c) and "/llama31_8b/" in c or row["gpu"] in os.path.basename(c)]
    return ([c for c in mine if system in c] or mine or [None])[0]


def mesh(text):
    gpus, nodes = text.split("x")
    return {"gpus": int(gpus), "nodes": int(nodes)}


# Runs whose log has another batch than the file that they name: MBS=4, MINIBS=192.
OTHER_BATCH = ("GigaComputing/results/G893-ZX1-AAX4_pytorch/llama31_8b", "NVIDIA/results/eos_n64_ngc23.09_nemo/gpt3")

rows = equal = other = 0
for number, row in enumerate(csv.DictReader(open(table)), 1):
    config = found(row) if not row["use"].startswith("no") else None
    if config is None:
        continue
    rows += 1
    wanted = run(["redco-validate", "--measured", table, "--row", str(number), "--command", scratch + "/row"])
    words = shlex.split(wanted.stdout)
    cluster = words[words.index("--cluster") + 1]
    priced = json.loads(run(words).stdout or "{}")
    common = []
    if "from NVIDIA's configuration" in row["notes"]:  # the submitter's folder lacks what its scripts source
        sourced = [os.path.basename(w) for w in re.findall(r"(?m)^source \S+ ?\S*/(config_common\S*\.sh)", open(config).read())]
        for name in sourced:
            there = [c for c in configs if "/NVIDIA/" in c and os.path.basename(c) == name and "v5.1" in c and "/llama31_8b/" in c]
            common += ["--read", there[0]] if there else []
    answer = run(["redco-plan"] + common + ["--read", config, "--cluster", cluster, "--quiet", "--json"])
    if answer.returncode not in (0, 1):
        print(f"row {number}: {answer.stderr.strip()}")
        continue
    plan = json.loads(answer.stdout)
    options = {o["option"]: o["value"] for o in plan["read"]["options"]}
    engine = dict(t.split("=") for t in options["engine"].split(",")[1:])
    block = next((s for s in plan.get("sharding", []) if s["class"] == "block"), {})
    pp = int(row["pp"])
    got = {"n_gpus": options.get("gpus"), "tp": options["tp"], "pp": options["pp"], "cp": options["cp"],
           "virtual_pp": options.get("pp-chunks", "1") if pp > 1 else "1", "seq_len": options["seq"],
           "micro_batch": options["micro-batch"], "global_batch": options["global-batch"],
           "sequence_parallel": "1" if options.get("sequence-parallel") == "on" else "0",
           "recompute": options["recompute"], "precision": options["precision"],
           "overlap": "+".join(k for k in ("ag_rs", "ar", "bc", "tp") if k in options["overlap"].split(",")
                               and not (k == "tp" and int(row["tp"]) == 1)) or "none",
           "cuda_graphs": "1" if engine.get("cuda_graphs") == "1" else "0",
           "framework": options["engine"].split(",")[0]}
    differ = [f"{k} {v}, not {row[k]}" for k, v in got.items() if row[k] != "" and str(v) != row[k]]
    for column, part in (("p_shard", "parameters"), ("g_shard", "gradients"), ("os_shard", "optimizer")):
        if block and block[part] != mesh(row[column]):
            a, b = block[part], mesh(row[column])
            if a["gpus"] * a["nodes"] != b["gpus"] * b["nodes"] * (int(row["cp"]) if column == "os_shard" else 1):
                differ.append(f"{column} {a}, not {row[column]}")
    mine, theirs = plan.get("predicted", {}).get("step_s"), priced.get("predicted", {}).get("step_s")
    if mine is None or theirs is None or abs(mine / theirs - 1) > 0.001:
        differ.append(f"step {mine} s, not {theirs}" + ("" if mine is None or theirs is None else f" ({100 * (mine / theirs - 1):+.2f} %)"))
    if differ and row["location"].split(" ")[1] in OTHER_BATCH:
        other += 1
        continue
    if differ:
        print(f"row {number} ({os.path.basename(config)}): " + "; ".join(differ))
    equal += not differ
print(f"{rows} configurations, {equal} equal to their rows, {other} of runs with another batch than their file")
sys.exit(77 if rows == 0 else equal + other != rows)
END
