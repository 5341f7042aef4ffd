#!/usr/bin/env python3
"""Puts the questions of ../shared/field to redco and holds the answers against the truth.

    tests/field.py --tools BUILD/tools [--field FOLDER] [--list]

cases.json says what its owner would type, and what is true: `check` names a value and `tolerance` how near it must be.
Where the right words are others than what its owner typed, because the trainer has an engine now, tests/field_words.txt
has them: one set for each trainer. Questions that redco answers wrongly today stand in tests/field.txt, with why; the test fails where another is wrong,
and where one of these is right, so that the list only gets shorter.
"""
import argparse
import json
import os
import re
import subprocess
import sys

WORDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "field_words.txt")
KNOWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "field.txt")
SECONDS = 120


def run(tools, folder, command, json_wanted):
    words = [os.path.join(tools, command[0])] + command[1:] + (["--json"] if json_wanted else [])
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    return done.returncode, done.stdout, done.stdout + done.stderr


def pointer(document, path):
    for part in path.strip("/").split("/"):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def number(document, kind):
    """The value of a plan that people measured, in their unit."""
    predicted = document["predicted"]
    memory = predicted["memory_bytes"]
    values = {
        "step": lambda: predicted["step_s"],
        "tok": lambda: predicted["tokens_per_s_per_gpu"],
        "mfu": lambda: predicted["mfu"],
        "alloc": lambda: memory["allocated"] / 1e9,
        "total": lambda: memory["total"] / 1e9,
        "states": lambda: (memory["parameters"] + memory["gradients"] + memory["optimizer"]) / 1e9,
        "params": lambda: document["model"]["params"],
        "hours": lambda: document["run"]["gpu_hours"]["value"],
    }
    return values[kind]()


def check_one(kind, wanted, case, code, out, everything):
    """@return what is wrong, or None"""
    if kind == "rc":
        return None if code == wanted else f"exit code {code}, not {wanted}"
    if kind == "fit":
        return None if code == (0 if wanted else 1) else f"exit code {code}: {'fits' if code == 0 else 'does not'}"
    if kind == "text":
        return None if re.search(wanted, everything) else f"nothing like {wanted!r}"
    if code not in (0, 1):
        return everything.strip().splitlines()[-1] if everything.strip() else f"exit code {code}"
    document = json.loads(out)
    if kind == "json":
        for path, value in wanted.items():
            got = pointer(document, path)
            if got != value:
                return f"{path} is {got}, not {value}"
        return None
    got = number(document, kind)
    if kind == "mfu":  # an upper bound
        return None if got <= wanted else f"MFU {got:.2f} above {wanted}"
    off = got / wanted - 1.0
    if case.get("at_least") or (kind == "step" and case["kind"] == "clamp"):
        return None if off >= -case.get("tolerance", 0.0) else f"{got:.4g}, below {wanted:.4g}"
    return None if abs(off) <= case.get("tolerance", 0.0) else f"{got:.4g}, {100 * off:+.1f} % of {wanted:.4g}"


def ask(tools, folder, case, words):
    kinds = [k for k in case["check"] if k not in ("rc", "fit", "text")]
    try:
        code, out, everything = run(tools, folder, command_of(case, words), bool(kinds) and case["cmd"][0] == "redco-plan")
    except subprocess.TimeoutExpired:
        return f"no answer in {SECONDS} s"
    for kind, wanted in case["check"].items():
        try:
            wrong = check_one(kind, wanted, case, code, out, everything)
        except (KeyError, IndexError, TypeError, ValueError) as missing:
            wrong = f"no such value: {missing!r}"
        if wrong:
            return wrong
    return None


def trainers_words():
    """id: options of its trainer, of each line of field_words.txt: trainer | options | ids."""
    words = {}
    for line in open(WORDS):
        if line.strip() and not line.startswith("#"):
            _, options, ids = [part.strip() for part in line.split("|")]
            words.update({case: options.split() for case in ids.split()})
    return words


def command_of(case, words):
    """The typed command, its engine in the words of the trainer."""
    command = list(case["cmd"])
    options = words.get(case["id"], [])
    for at in range(0, len(options), 2):
        if options[at] in command:
            command[command.index(options[at]) + 1] = options[at + 1]
        else:
            command += options[at : at + 2]
    return command


def known_wrong():
    """id: why, of each line of field.txt."""
    lines = [line.strip() for line in open(KNOWN) if line.strip() and not line.startswith("#")]
    return dict(line.split(None, 1) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tools", required=True)
    parser.add_argument("--field", default=os.path.join(os.path.dirname(KNOWN), "../../shared/field"))
    parser.add_argument("--list", action="store_true", help="print what is wrong with each")
    args = parser.parse_args()
    tools = os.path.abspath(args.tools)
    if not os.path.exists(os.path.join(args.field, "cases.json")):
        print(f"skipped: there is no {args.field}")
        return 77
    known = known_wrong()
    words = trainers_words()
    failed = 0
    count = wrong_count = 0
    for name in ("cases.json", "right.json"):
        for case in json.load(open(os.path.join(args.field, name))):
            wrong = ask(tools, args.field, case, words)
            count += 1
            wrong_count += wrong is not None
            if args.list:
                print(f"{case['id']:22} {case['kind']:10} {wrong or 'right'}")
            if wrong and case["id"] not in known:
                failed += 1
                print(f"{case['id']}: {wrong}; {case['truth']}")
            if not wrong and case["id"] in known:
                failed += 1
                print(f"{case['id']}: is right now; strike it from tests/field.txt")
    print(f"{count} questions, {count - wrong_count} answered right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
