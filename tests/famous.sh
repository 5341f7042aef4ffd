#!/bin/sh
# tests/famous.sh TOOLS [EVERY]: of every EVERY-th published run (default 3; traces/data/famous and the tables of Narayanan
# and Korthikanti) redco's advice is at least as fast as the layout that ran, by redco's own model, and few are told not
# to fit; on all tables, the layout that redco ranks first loses little against the fastest measured one; the
# layouts of costmodel/presets/evidence are those of traces/data. EVERY 0: advice
# for every row of traces/data, too. Needs python3; skipped (77) without it.
set -u
tools=$(cd "$1" && pwd) || exit 2
cd "$(dirname "$0")/.." || exit 2
command -v python3 >/dev/null || { echo "skipped: python3 is not installed" && exit 77; }
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
PATH=$tools:$PATH
export PATH
tools/evidence --check || exit 1
python3 - "$scratch" "${2:-3}" <<'END'
import csv, glob, json, subprocess, sys

# Bars. Runs that are told not to fit: two of 83 at most; today none is.
MOST_REFUSED, MOST_MEAN_REGRET, MOST_REGRET = 2, 0.030, 0.285
scratch, every = sys.argv[1], int(sys.argv[2])
failures = 0


def check(good, text):
    global failures
    if not good:
        print(text)
        failures += 1


def ask(mode, tables):
    done = subprocess.run(["redco-validate", mode, *tables, "--json"], capture_output=True, text=True)
    check(done.stderr == "", done.stderr)
    return json.loads(done.stdout)


famous = "traces/data/famous/runs.csv"
rows = list(csv.reader(open(famous)))
check(len(rows) > 40, f"{famous} has {len(rows) - 1} rows")
tables = [famous, "traces/data/megatron_a100_narayanan_2021.csv", "traces/data/korthikanti_2022.csv"]
few = []
for number, table in enumerate(tables):
    lines = list(csv.reader(open(table)))
    few.append(f"{scratch}/{number}.csv")
    csv.writer(open(few[-1], "w"), lineterminator="\n").writerows(lines[:1] + lines[1 :: max(every, 1)])
if every == 0:
    few += sorted(glob.glob("traces/data/*.csv"))
found = ask("--famous", few)
for row in found["rows"]:
    check(not row.get("slower"), f"{row['source']}, {row['location']}: the advice is slower: {row.get('gain')}")
    check(row["skipped"] is None or every == 0, f"{row['source']}, {row['location']}: skipped: {row['skipped']}")
    check(row["assumed"] is not None and row["location"] != "", f"{row['source']}: no location")
check(found["without_advice"] == 0, f"{found['without_advice']} rows have no advice")
check(found["refused"] <= MOST_REFUSED or every == 0, f"{found['refused']} rows are told not to fit")
# Mixtures: a layout that ran with a set of modules, or with layers that its team laid out, is no faster either.
shares = []
for number, table in enumerate(sorted(glob.glob("traces/data/moe/*.csv"))):
    lines = list(csv.reader(open(table)))
    shares.append(f"{scratch}/moe-{number}.csv")
    csv.writer(open(shares[-1], "w"), lineterminator="\n").writerows(lines[:1] + lines[1 :: max(every, 1)])
mixtures = ask("--famous", shares)
check(mixtures["advised"] >= 180 // max(every, 1), f"{mixtures['advised']} mixtures are advised")
for row in mixtures["rows"]:
    check(not row.get("slower"), f"{row['source']}, {row['location']}: the advice is slower: {row.get('gain')}")
check(mixtures["without_advice"] == 0, f"{mixtures['without_advice']} rows of mixtures have no advice")
regret = ask("--regret", sorted(glob.glob("traces/data/*.csv")))
check(len(regret["groups"]) >= 80, f"{len(regret['groups'])} groups")
check(regret["mean"] <= MOST_MEAN_REGRET, f"mean regret {regret['mean']}")
check(regret["worst"] <= MOST_REGRET, f"worst regret {regret['worst']}: {regret['groups'][0]}")
print(f"{found['advised']} runs advised, {found['refused']} told not to fit; {mixtures['advised']} of "
      f"mixtures, {mixtures['refused']}; regret of {len(regret['groups'])} groups: "
      f"mean {100 * regret['mean']:.2f} %, worst {100 * regret['worst']:.1f} %")
sys.exit(1 if failures else 0)
END
