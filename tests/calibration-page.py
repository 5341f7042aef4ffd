#!/usr/bin/env python3
"""tests/calibration-page.py TOOLS [--write]: costmodel/engines/CALIBRATION.md has the tables that redco-calibrate --constants prints.

--write puts them there, between the two lines of marks."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PAGE = os.path.join(ROOT, "costmodel/engines/CALIBRATION.md")
COMMAND = ["redco-calibrate", "--measured", "traces/data", "traces/data/moe/moe.csv", "--constants"]
BEGIN, END = f"<!-- {' '.join(COMMAND)} -->\n", "<!-- end -->\n"


def main():
    tool = os.path.join(os.path.abspath(sys.argv[1]), COMMAND[0])
    printed = subprocess.run([tool, *COMMAND[1:]], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    before, rest = page.split(BEGIN)
    held, after = rest.split(END)
    if "--write" in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(before + BEGIN + printed + END + after)
        return 0
    if held == printed:
        return 0
    for number, (a, b) in enumerate(zip(held.splitlines(), printed.splitlines())):
        if a != b:
            print(f"CALIBRATION.md, line {number + 1} of the tables:\n  {a}\nthe command prints\n  {b}")
            break
    print("costmodel/engines/CALIBRATION.md is not what the tool prints: tests/calibration-page.py build/release/tools --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
