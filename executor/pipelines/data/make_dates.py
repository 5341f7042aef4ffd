#!/usr/bin/env python3
"""Writes dates-train.jsonl (COUNT lines, 4000 by default) and dates-test.jsonl (400 other dates) to the folder given."""
import datetime
import json
import pathlib
import random
import sys

random.seed(1)
MONTHS = ("January February March April May June July August September October November December").split()
FORMS = (
    lambda d: f"{MONTHS[d.month - 1]} {d.day}, {d.year}",
    lambda d: f"{d.day} {MONTHS[d.month - 1]} {d.year}",
    lambda d: f"{d.day}.{d.month}.{d.year}",
    lambda d: f"{MONTHS[d.month - 1][:3]} {d.day} {d.year}",
    lambda d: f"{d.day:02}/{d.month:02}/{d.year}",
)
folder = pathlib.Path(sys.argv[1])
count = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
days = random.sample(range(730120, 730120 + 18000), count + 400)  # 2000 to 2049, no day twice
for name, part in (("train", days[:count]), ("test", days[count:])):
    with open(folder / f"dates-{name}.jsonl", "w") as file:
        for day in part:
            date = datetime.date.fromordinal(day)
            print(json.dumps({"date": random.choice(FORMS)(date), "iso": date.isoformat()}), file=file)
