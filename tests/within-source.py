#!/usr/bin/env python3
"""How far two runs of one source lie apart: what one measured step leaves open of another one's prediction.

    tests/within-source.py TOOLS DATA

Of the measured tables, each source with five rows and more, each as heavy as another: of all pairs of its rows the
difference of ln(measured / predicted). The two quantiles must be those of planner/assemble/inputs.c within 0.01; those of
rows after their source's mean error is taken out are printed beside.
"""
import collections
import glob
import json
import math
import os
import re
import subprocess
import sys


def quantile(weighted, share):
    weighted.sort()
    left = share * sum(weight for _, weight in weighted)
    for value, weight in weighted:
        left -= weight
        if left <= 0:
            return value
    return weighted[-1][0]


def main():
    tools, data = sys.argv[1:3]
    tables = sorted(glob.glob(os.path.join(data, "*.csv")))
    done = subprocess.run([os.path.join(tools, "redco-validate"), "--json", "--quiet", "--measured"] + tables, capture_output=True, check=True)
    errors = collections.defaultdict(list)
    for row in json.loads(done.stdout)["rows"]:
        if not row["skipped"] and row["measured_tgs"] and row["predicted_tgs"]:
            errors[row["source"]].append(math.log(row["measured_tgs"] / row["predicted_tgs"]))
    pairs, centred = [], []
    for some in errors.values():
        if len(some) < 5:
            continue
        mean = sum(some) / len(some)
        apart = [abs(a - b) for i, a in enumerate(some) for b in some[:i]]
        pairs += [(value, 1 / len(apart)) for value in apart]
        centred += [(abs(value - mean), 1 / len(some)) for value in some]
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../planner/assemble/inputs.c")
    constants = re.search(r"rescaled_68 = ([0-9.]+), rescaled_90 = ([0-9.]+);", open(source).read())
    got = [quantile(pairs, 0.683), quantile(pairs, 0.9)]
    print(f"pairs {got[0]:.3f} {got[1]:.3f}, from the mean {quantile(centred, 0.683):.3f} {quantile(centred, 0.9):.3f}")
    wrong = [share for value, share in zip(got, constants.groups()) if abs(value - float(share)) > 0.01]
    for share in wrong:
        print(f"planner/assemble/inputs.c says {share}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
