#!/bin/sh
# tests/row-commands.sh TOOLS [EVERY]: of every EVERY-th row of traces/data and traces/data/gpu that is priced (default 33: some fifty), the
# command that redco-validate --command prints, run as it stands: throughput and memory must be those that redco-validate
# says, to the last printed digit. Needs python3; skipped (77) without it.
set -u
tools=$(cd "$1" && pwd) || exit 2
cd "$(dirname "$0")/.." || exit 2
command -v python3 >/dev/null || { echo "skipped: python3 is not installed" && exit 77; }
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
PATH=$tools:$PATH
export PATH
python3 - "$scratch" "${2:-33}" <<'END'
import glob, json, subprocess, sys

scratch, every = sys.argv[1], int(sys.argv[2])
priced = compared = failures = 0


def run(words):
    return subprocess.run(words, capture_output=True, text=True)


for table in sorted(glob.glob("traces/data/*.csv")) + ["traces/data/gpu/runs.csv"]:
    rows = json.loads(run(["redco-validate", "--measured", table, "--json"]).stdout)["rows"]
    for number, row in enumerate(rows, 1):
        if row["skipped"] is not None:
            continue
        priced += 1
        if priced % every:
            continue
        command = run(["redco-validate", "--measured", table, "--row", str(number), "--command", scratch + "/it's a row"])
        plan = run(["sh", "-c", command.stdout])
        compared += 1
        try:
            said = json.loads(plan.stdout)["predicted"]
            got = said["tokens_per_s_per_gpu"], said["memory_bytes"]["total"]
        except (ValueError, KeyError, TypeError):
            got = (command.stderr + plan.stderr).strip()
        wanted = row["predicted_tgs"], row["predicted_memory_bytes"]
        if got != wanted:
            failures += 1
            print(f"{table}, row {number}: {got}, not {wanted}: {command.stdout}")
print(f"{compared} commands, {failures} failures")
sys.exit(failures > 0 or compared == 0)
END
