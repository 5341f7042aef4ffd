#!/usr/bin/env python3
"""Writes vectors.csv and expected.csv beside it. Made once with Python 3.11, numpy and scipy 1.17; the tests only read.

Errors by numpy (percentile: its default, linear). Kendall's tau-b of cases with one group by scipy.stats.kendalltau;
over several groups by counting all pairs that share one. Choices by definition, one group at a time.
"""
import csv, itertools, math, pathlib, random
import numpy, scipy.stats

random.seed(20231101)


def noisy(count, groups, spread, digits):
    rows = []
    for _ in range(count):
        measured = round(random.uniform(1, 9), digits)
        rows.append((random.randrange(groups), measured, round(measured * random.uniform(1 - spread, 1 + spread), digits)))
    return rows


cases = {
    "exact": [(0, 1, 1), (0, 2, 2), (0, 4, 4)],
    "reversed": [(0, 1, 4), (0, 2, 3), (0, 3, 2), (0, 4, 1)],
    "hand": [(0, 100, 110), (0, 200, 180), (0, 400, 400), (0, 500, 650)],
    "constant": [(0, 1, 3), (0, 2, 3), (0, 3, 3)],
    "single": [(7, 5, 4)],
    "ties": noisy(40, 1, 0.5, 0),
    "smooth": noisy(33, 1, 0.3, 6),
    "grouped": noisy(60, 7, 0.4, 1),
    "pairs": [(g, 3 + d, 5 - d) for g in range(5) for d in (0, 1)],
    "lone": [(g, 1 + g, 2 + g) for g in range(4)],
}


def tau(rows):
    agreement = differ_m = differ_p = pairs = 0
    for a, b in itertools.combinations(rows, 2):
        if a[0] != b[0]:
            continue
        m, p = (a[1] > b[1]) - (a[1] < b[1]), (a[2] > b[2]) - (a[2] < b[2])
        agreement, differ_m, differ_p, pairs = agreement + m * p, differ_m + abs(m), differ_p + abs(p), pairs + 1
    value = agreement / math.sqrt(differ_m * differ_p) if differ_m and differ_p else None
    if len({r[0] for r in rows}) == 1 and value is not None:
        scipy_value = scipy.stats.kendalltau([r[1] for r in rows], [r[2] for r in rows]).statistic
        assert abs(value - scipy_value) < 1e-12
        value = scipy_value
    return pairs, value


def choices(rows):
    losses, right = [], 0
    for group in sorted({r[0] for r in rows}):
        members = [r for r in rows if r[0] == group]
        if len(members) < 2:
            continue
        top = max(p for _, _, p in members)
        chosen = min(m for _, m, p in members if p == top)
        best = max(m for _, m, _ in members)
        losses.append(1 - chosen / best)
        right += chosen == best
    return len(losses), right, sum(losses) / len(losses) if losses else 0, max(losses, default=0)


folder = pathlib.Path(__file__).parent
with open(folder / "vectors.csv", "w", newline="") as vectors, open(folder / "expected.csv", "w", newline="") as expected:
    v, e = csv.writer(vectors, lineterminator="\n"), csv.writer(expected, lineterminator="\n")
    v.writerow(["case", "group", "measured", "predicted"])
    e.writerow("case count mape median p90 bias groups pairs tau_b choices right mean_loss worst_loss".split())
    for name, rows in cases.items():
        for row in rows:
            v.writerow([name, *row])
        error = numpy.array([p / m - 1 for _, m, p in rows])
        size = numpy.abs(error)
        pairs, value = tau(rows)
        groups, right, mean, worst = choices(rows)
        figures = [size.mean(), numpy.median(size), numpy.percentile(size, 90), error.mean()]
        e.writerow([name, len(rows), *(repr(float(f)) for f in figures), groups, pairs,
                    "" if value is None else repr(float(value)), groups, right, repr(float(mean)), repr(float(worst))])
