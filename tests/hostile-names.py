#!/usr/bin/env python3
"""hostile-names.py TOOLS SOURCE [full]: names of others in each text of each kind of file. None
reaches the terminal as it is: no ESC, C1, direction mark or CR, and no line of its own. Each text of
a sound file gets such characters in turn; the quick form takes those that are shown."""
import json
import os
import subprocess
import sys
import tempfile

TOOLS, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
FULL = sys.argv[3:] == ["full"]
HOSTILE = "\x1b[2J\u009b31m\u202e\u2066\u2028\r\nINJECTED"
CSV_HOSTILE = "x\r\nINJECTED"  # all that its reader lets through


def preset(path):
    return os.path.join(SOURCE, path)


RUN = ["redco-plan", "--gpus", "8", "--tokens", "1B", "--quiet"]
KINDS = [
    (RUN + ["--price", "@"], preset("planner/run/presets/prices/list-2026.json")),
    (RUN + ["--price", "@", "--gpus", "8,16"], preset("planner/run/presets/prices/list-2026.json")),
    (RUN + ["--failures", "@"], preset("planner/run/presets/failures/tuned-large.json")),
    (RUN + ["--grid", "@"], preset("planner/run/presets/grids/france.json")),
    (RUN + ["--critical-batch", "@"], preset("tests/fuzz/corpus/run_values/batches.json")),
    (["redco-plan", "--gpus", "8", "--run", "@"], preset("tests/fuzz/corpus/run_phases/terms.json")),
    (["redco-plan", "--gpus", "8", "--run", "@"], preset("tests/fuzz/corpus/run_phases/two.json")),
    (["redco-plan", "--gpus", "8", "--model", "@"], preset("costmodel/presets/models/llama-7b.json")),
    (["redco-plan", "--gpus", "8", "--cluster", "@"], preset("topology/presets/clusters/dgx-a100.json")),
    (["redco-plan", "--gpus", "8", "--engine", "@", "--explain"], preset("costmodel/presets/engines/fsdp2.json")),
    (["redco-plan", "--gpus", "8", "--calibration", "@"], preset("costmodel/presets/calibrations/a800-amsp.json")),
    (["redco-plan", "--gpus", "8", "--profile", "@"], preset("tests/fuzz/corpus/profile_json/own-v3.json")),
    (["redco-sim", "@"], "plan"),
    (["redco-plan", "--check", "@"], "plan"),
    (["redco-plan", "--from", "@", "--export", "megatron"], "plan"),
    (["redco-plan", "--from", "@", "--export", "sbatch"], "plan"),
    (["redco-plot", "overlap", "@", "-o", "/dev/null"], "plan"),
    (["redco-validate", "PLAN", "@"], preset("tests/fuzz/corpus/trace/minimal.json")),
    (["redco-validate", "--measured", "@"], preset("traces/data/amsp.csv")),
    (["redco-validate", "--measured", "@", "--regret"], preset("traces/data/amsp.csv")),
    (["redco-validate", "--measured", "@", "--leave", "source"], preset("traces/data/amsp.csv")),
    (["redco-calibrate", "--measured", "@", "-o", "/dev/null"], preset("traces/data/amsp.csv")),
    (["redco-validate", "--profiles", "@"], preset("tests/fuzz/corpus/profile_csv/own.csv")),
    (["redco-rules", "--params", "@", "--shards", "2"], preset("tests/fuzz/corpus/params_json/bert.json")),
]
failures = runs = 0


def texts(value, at=()):
    """Places of all texts."""
    if isinstance(value, str):
        yield at
    elif isinstance(value, (dict, list)):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(inside, at + (key,))


def changed(document, places):
    copy = json.loads(json.dumps(document))
    for at in places:
        inside = copy
        for key in at[:-1]:
            inside = inside[key]
        marks = HOSTILE[:5] if at[-1] == "currency" else HOSTILE  # of at most 15 bytes
        inside[at[-1]] = inside[at[-1]][:1] + marks + inside[at[-1]][1:]
    return json.dumps(copy)


def damaged(path):
    """Texts of files to try, each with where it was changed."""
    with open(path, encoding="utf-8", newline="") as file:
        sound = file.read()
    if path.endswith(".csv"):
        lines = sound.splitlines()
        header = next(i for i, line in enumerate(lines) if not line.startswith("#"))
        names, row = lines[header].split(","), lines[header + 1].split(",")
        for i, name in enumerate(names[: len(row)]):
            cells = [f'"{CSV_HOSTILE}"' if i == j else cell for j, cell in enumerate(row)]
            if FULL or name in ("source", "location", "model", "framework", "software", "notes", "collective"):
                yield name, "\n".join(lines[: header + 1] + [",".join(cells)] + lines[header + 1 :]) + "\n"
        return
    document = json.loads(sound)
    places = list(texts(document))
    # Units, formats and words of a list are refused: one at a time finds those that are kept.
    chosen = places if FULL else [at for at in places if at[-1] in ("name", "currency", "about", "source", "title")]
    for at in chosen if FULL else chosen[:8]:
        yield "/".join(map(str, at)), changed(document, [at])


def bad(output):
    for mark in ("\x1b", "\r", *map(chr, range(0x80, 0xA0)), *map(chr, range(0x202A, 0x202F)), "\u2066", "\u2028"):
        if mark in output:
            return f"U+{ord(mark):04X} is printed"
    return "a name begins a line" if any(line.startswith("INJECTED") for line in output.split("\n")) else None


with tempfile.TemporaryDirectory() as folder:
    os.environ["PATH"] = TOOLS + ":" + os.environ["PATH"]
    plan, file = os.path.join(folder, "plan.json"), os.path.join(folder, "hostile")
    subprocess.run(["redco-plan", "--gpus", "8", "--model", "gpt2", "--seq", "512", "--quiet", "-o", plan], check=True,
                   stdout=subprocess.DEVNULL)
    for command, path in KINDS:
        for where, text in damaged(plan if path == "plan" else path):
            with open(file, "w", encoding="utf-8", newline="") as out:
                out.write(text)
            words = [file if word == "@" else plan if word == "PLAN" else word for word in command]
            for extra in ([], ["--json"]) if FULL and command[0] == "redco-plan" and "--export" not in words else ([],):
                done = subprocess.run(words + extra, capture_output=True, timeout=120)
                runs += 1
                wrong = f"exit {done.returncode}" if done.returncode not in (0, 1, 2) else None
                for output in (done.stdout, done.stderr):
                    wrong = wrong or bad(output.decode("utf-8", "replace"))
                if wrong and not (extra and "U+" in wrong and done.returncode == 0):  # JSON keeps names as they are
                    failures += 1
                    print(f"{' '.join(command)}: {os.path.basename(path)}: {where}: {wrong}")
print(f"{runs} runs, {failures} failures")
sys.exit(failures > 0)
