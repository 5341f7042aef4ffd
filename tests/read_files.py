#!/usr/bin/env python3
"""Trainers' files of a folder, read by redco-plan --read, against rows that were written before it ran.

    tests/read_files.py --tools BUILD/tools FOLDER

FOLDER/options.txt has a line for each question, as tests/data/read/options.txt has:
    FILES | arguments of redco-plan beside them | option=value ...
What is not named there is not compared. A key that --read neither understood nor called harmless is printed, as users
see it. Files of others stay out of this tree.
"""
import argparse
import json
import os
import subprocess
import sys


def read(tools, folder, files, more):
    words = [os.path.join(tools, "redco-plan"), "--cluster", "dgx-h100", "--json", "--quiet"] + more
    words += [w for f in files for w in ("--read", os.path.join(folder, f))]
    made = subprocess.run(words, capture_output=True, text=True)
    start = made.stdout.find("{")
    return (json.loads(made.stdout[start:])["read"] if start >= 0 else None), made.stderr.strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", required=True)
    parser.add_argument("folder")
    args = parser.parse_args()
    rows = equal = 0
    with open(os.path.join(args.folder, "options.txt"), encoding="utf-8") as table:
        for line in table:
            if line.startswith("#") or "|" not in line:
                continue
            files, more, wanted = (part.split() for part in line.split("|", 2))
            if len(more) == 1:  # GPUs, or "-"
                more = [] if more[0] == "-" else ["--gpus", more[0]]
            rows += 1
            answer, error = read(args.tools, args.folder, files, more)
            if answer is None:
                print(f"{files[0]}: {error}")
                continue
            got = {o["option"]: o["value"] for o in answer["options"]}
            pairs = [w.split("=", 1) for w in wanted]
            wrong = [f"{k} {got.get(k)}, not {v}" for k, v in pairs if got.get(k) != v]
            equal += not wrong
            unknown = [f"{i.get('key', '?')} ({i['what']})" if i["what"] else i.get("key", "?") for i in answer["not_understood"]]
            print(f"{files[0]}: {'; '.join(wrong) or 'equal'}" + (f" [not understood: {', '.join(unknown)}]" if unknown else ""))
    print(f"{rows} files, {equal} equal")
    return equal < rows


if __name__ == "__main__":
    sys.exit(main())
