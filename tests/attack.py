#!/usr/bin/env python3
"""attack.py TOOLS CASES: commands on hostile and odd files that others made, as CASES/cases.json
lists them: right exit code, in time and memory, nothing printed that a terminal would obey. Skipped
where the folder is not there."""
import json
import os
import subprocess
import sys
import tempfile
import threading

tools, folder = (os.path.abspath(path) for path in sys.argv[1:3])
if not os.path.exists(os.path.join(folder, "cases.json")):
    print(f"skipped: no {os.path.basename(folder)}/cases.json beside the sources")
    sys.exit(77)
MARKS = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *map(chr, range(0x202A, 0x202F))} - {"\n", "\t"}
LONGEST_S, broken = 60, 0
cases = json.load(open(os.path.join(folder, "cases.json"), encoding="utf-8"))
with tempfile.TemporaryDirectory() as scratch:
    for case in cases:
        places = {"@": os.path.join(folder, case["file"]), "%": os.path.join(scratch, "out")}
        words = [places.get(word, word) for word in case["cmd"]]
        words[0] = os.path.join(tools, words[0])
        wrong = []
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=scratch)
            limit = case.get("s", LONGEST_S)
            end = threading.Timer(max(LONGEST_S, 2 * limit), child.kill)
            end.start()
            _, status, used = os.wait4(child.pid, 0)
            end.cancel()
            code = os.waitstatus_to_exitcode(status)
            out.seek(0), err.seek(0)
            printed, said = out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace")
        spent = used.ru_utime + used.ru_stime  # a busy machine is slower, not wrong
        if code not in case["expect"]:
            wrong.append(f"exit {code}")
        if spent > limit:
            wrong.append(f"{spent:.1f} s")
        if used.ru_maxrss / 1024 > case.get("rss", 4096):
            wrong.append(f"{used.ru_maxrss // 1024} MB")
        if case.get("says", "") not in said:
            wrong.append(f"does not say {case['says']}")
        if code != 0 and len(said.splitlines()) != 1:
            wrong.append("not one message")
        wrong += [f"prints U+{ord(mark):04X}" for mark in sorted(MARKS & set(printed + said))]
        if wrong:
            broken += 1
            print(f"{', '.join(wrong)}: {' '.join(case['cmd'])} {case['file']}: {case['note']}")
print(f"{len(cases) - broken} of {len(cases)}")
sys.exit(broken > 0)
