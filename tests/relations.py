"""Relations between answers that their reader assumes, for tests/consistency.

A relation takes an Asker, a question and a random generator. It returns None where it says nothing
of this question, an empty text where it holds, and otherwise what is wrong; ask.shown are then the
commands that contradict one another. What a relation draws it draws from its generator alone, so
that it can be judged again of a smaller question.
"""
import json
import os
import re

TIE = 1e-3  # among layouts so near to each other the search takes the leanest
DIGITS = 1e-8  # rounding of numbers in JSON


class Silent(Exception):
    """The relation says nothing of this question."""


RELATIONS = {}  # name -> function


def relation(function):
    RELATIONS[function.__name__] = function
    return function


def step(doc):
    return doc["predicted"]["step_s"]


def value(doc, by=None):
    """What the search minimised, this one or that of `by`."""
    return doc["predicted"]["comm"]["amsp_total_s"] if (by or doc)["solver"]["minimises"] == "comm" else step(doc)


def within(doc):
    """How much faster than this answer another layout may be, as the answer says."""
    solver = doc["solver"]
    return max(solver.get("within") or 0.0, solver.get("gap") or 0.0)


def faster_engine(doc):
    """The engine that cannot be exported and is faster, as the answer says, and by how much; '' and 0."""
    said = re.search(r"([\w-]+), which no exporter writes, would take \S+ s(?: of communication)?, ([\d.]+) % less",
                     doc["engine"].get("source", ""))
    return (said[1], (float(said[2]) + 0.05) / 100) if said else ("", 0.0)


def percent(ratio):
    return f"{100 * ratio:+.3g} %"


def own(doc):
    """The options that say what the answer chose, one by one."""
    mesh, sharding = doc["mesh"], doc["sharding"]
    said = [("--tp", mesh["tp"]), ("--pp", mesh["pp"]), ("--cp", mesh["cp"]),
            ("--micro-batch", doc["workload"]["micro_batch"])]
    if len({x["recompute"] for x in sharding if x["class"] == "block"}) == 1:
        said.append(("--recompute", next(x["recompute"] for x in sharding if x["class"] == "block")))
    meshes = {tuple(f"{x[part]['gpus']}x{x[part]['nodes']}" for part in ("parameters", "gradients", "optimizer"))
              for x in sharding}
    if len(meshes) == 1 and not mesh.get("secondary"):
        said.append(("--fix", "p={},g={},os={}".format(*meshes.pop())))
    if mesh["ep"] > 1:
        said += [("--ep", mesh["ep"]), ("--etp", mesh["etp"])]
    if mesh["pp"] > 1:
        said.append(("--pp-chunks", mesh["pp_chunks"]))
    return [(option, str(value)) for option, value in said]


DEGREES = ("--tp", "--pp", "--cp")
TAKEN = DEGREES + ("--scheme", "--recompute")  # as given, by AMSP's own planner


def slower(ask, question, than, value=value):
    """Is the answer to `question`, whose space holds that of `than`, the slower one?"""
    b = ask(than)
    if b is None or "priced as if it had" in ask.any(than, json=False, quiet=False).err:
        return None  # what the engine lacks is in no free space, and a warning says so
    left_out = "leaves_out" in b.get("free_optimum", {}) or b["solver"]["minimises"] == "comm"
    for option in TAKEN if than.get("--strategy") == "amsp" else DEGREES if left_out else ():
        if than.has(option) and not question.has(option):
            return None  # nor are degrees that no measured row has, as the answer says, or whose traffic is not counted
    a = ask(question)
    if a is None:
        return f"does not fit, and the smaller space does: {step(b):.6g} s"
    mine, other, (name, share) = value(a, a), value(b, a), faster_engine(a)
    allowed = max(within(a), share if name == b["engine"]["name"] else 0.0)
    return "" if other >= mine * (1 - allowed - DIGITS) else \
        f"{mine:.6g} s within {100 * within(a):.2g} %; the smaller space has {other:.6g} s ({percent(mine / other - 1)})"


FREE = ("--tp", "--pp", "--cp", "--micro-batch", "--recompute", "--strategy", "--dims", "--pp-chunks", "--pp-schedule",
        "--sequence-parallel", "--fix", "--scheme")

NOT_EXPORTED = "has experts or latent attention, which are exported to"  # said of mixtures by the other frameworks

MESHES = ("--fix", "--strategy", "--scheme")


@relation
def larger(ask, question, random):
    """A free dimension is never slower than a given one, and fits where that fits."""
    given = [option for option in FREE if question.has(option)]
    if not given:
        return None
    return slower(ask, question.without(random.choice(given)), question)


@relation
def fixed(ask, question, random):
    """The answer's own value, given, gives the same answer."""
    a = ask(question)
    if a is None:
        return None
    choice = [pair for pair in own(a) if not question.has(pair[0])]
    if not choice or question.has("--layerwise"):
        return None
    pairs = random.sample(choice, random.randint(1, min(3, len(choice))))
    if any(p[0] == "--fix" for p in pairs) and question.has("--strategy"):
        return None
    b = ask.any(question.having(*pairs))
    if b.code != 0:
        return f"{step(a):.6g} s; with the answer's own values exit {b.code}: {b.error}"
    if question.get("--strategy") == "amsp" and b.doc["engine"]["name"] != a["engine"]["name"]:
        return None  # the least communication of each engine, of which the fastest step is taken
    change = step(b.doc) / step(a) - 1
    return "" if -within(a) - TIE <= change <= TIE else f"{step(a):.6g} s; with its own values {percent(change)}"


def chooses(question):
    """An engine is chosen by step time, also where a strategy minimises communication."""
    return value if question.has("--objective") else lambda doc, _: step(doc)


@relation
def engine(ask, question, _):
    """The engine taken for a question without one: the same when named, and no worse than the GPU's default."""
    if question.has("--engine"):
        return None
    rows = ask.rows(question.having(("--compare", "engines")))
    a = ask(question)
    fitting = [row for row in rows or [] if row.get("feasible")]
    if a is None:
        return f"does not fit, and with --engine {fitting[0]['engine']['name']} it does" if fitting else None
    same = ask(question.having(("--engine", a["engine"]["name"])))
    if same is None or abs(step(same) / step(a) - 1) > TIE:
        return f"{step(a):.6g} s; its engine named: {step(same) if same else 'does not fit'}"
    default = re.search(r"([\w-]+), this (?:GPU|cluster)'s default", a["engine"].get("source", ""))
    return slower(ask, question, question.having(("--engine", default[1])), chooses(question)) if default else ""


@relation
def auto(ask, question, _):
    """--engine auto is no slower than a row of --compare engines."""
    if question.has("--engine"):
        return None
    rows = [row for row in ask.rows(question.having(("--compare", "engines"))) or [] if row.get("feasible")]
    best = min(rows, key=step, default=None)
    return slower(ask, question.having(("--engine", "auto")),
                  question.having(("--engine", best["engine"]["name"])), chooses(question)) if best else None


@relation
def engines(ask, question, random):
    """A row of --compare engines is what --engine NAME gives."""
    if question.has("--engine"):
        return None
    rows = ask.rows(question.having(("--compare", "engines")))
    if not rows:
        return None
    row = random.choice(rows)
    if "engine" not in row:
        return None
    return same_row(ask, row, question.having(("--engine", row["engine"]["name"])), row["engine"]["name"])


def same_row(ask, row, question, name, tolerance=TIE):
    a = ask(question)
    if (a is not None) != bool(row.get("feasible")):
        return f"the row {name} {'fits' if row.get('feasible') else 'does not fit'}, alone it " + \
            ("fits" if a else "does not")
    if a is None:
        return ""
    change = step(row) / step(a) - 1
    return "" if abs(change) <= tolerance else f"the row {name} has {step(row):.6g} s, alone {step(a):.6g} s"


@relation
def strategies(ask, question, random):
    """A row of --compare of the engine's own strategies is what --strategy NAME gives."""
    if question.has("--strategy") or question.has("--fix") or question.has("--layerwise"):
        return None
    doc = ask(question.having(("--compare", None)))
    rows = [row for row in (doc or {}).get("plans", []) if row.get("engine_has_strategy", True)]
    if not rows:
        return None
    row = random.choice(rows)
    alone = question.having(("--strategy", row["strategy"]))
    if not question.has("--engine"):  # the rows have the optimum's engine
        alone = alone.having(("--engine", (doc["optimum"].get("engine") or row["engine"])["name"]))
    return same_row(ask, row, alone, row["strategy"])


@relation
def compare(ask, question, _):
    """No row of --compare that the engine has beats the optimum beyond what it says."""
    doc = ask(question.having(("--compare", None)))
    best = (doc or {}).get("optimum")
    if question.has("--objective") or not best or not best.get("feasible"):
        return None
    for row in doc["plans"]:
        if row.get("feasible") and row.get("engine_has_strategy", True) and \
                step(row) < step(best) * (1 - within(best) - DIGITS):
            return f"{row['strategy']} {step(row):.6g} s, optimum {step(best):.6g} s within {100 * within(best):.2g} %"
    return ""


@relation
def top(ask, question, _):
    """The first of the best is the answer, and none behind it is faster."""
    if question.has("--layerwise") or question.has("--tokens"):
        return None
    a, best = ask(question), ask.rows(question.having(("--top", "5")))
    if a is None:
        return None
    if not best:
        return "an answer, and no best five"
    if abs(step(best[0]) / step(a) - 1) > DIGITS:
        return f"the answer {step(a):.6g} s, the first of the best five {step(best[0]):.6g} s"
    for row in best[1:]:
        if value(row) < value(best[0]) * (1 - within(a) - TIE):
            return f"the first of five {step(best[0]):.6g} s, another {step(row):.6g} s"
    return ""


def explained(ask, question, by=False):
    """name -> per cent, of --explain's rows; with `by`, per cent and the name of another engine or None."""
    text = ask.text(question.having(("--explain", None)))
    if text is None:
        return {}
    rows = re.finditer(r"^  (\S.*?)\s{2,}([+-]?[\d.]+) %\s+[\d.,]+ (?:ms|s|us|µs|min|h)(?:.*, by ([\w-]+)$)?",
                       text[text.find("\nwhy not"):], re.M)
    return {re.sub(r"\s+", " ", m[1]): (float(m[2]), m[3]) if by else float(m[2]) for m in rows}


@relation
def explain(ask, question, _):
    """No neighbour of the answer is faster beyond what it says."""
    if question.has("--objective"):
        return None
    a = ask(question)
    for name, (change, engine) in (explained(ask, question, by=True) if a else {}).items():
        ruled = MESHES if name.split()[0] in ("parameters", "gradients", "optimizer") else ("--dims", "--" + name.split()[0])
        other, share = faster_engine(a)
        allowed = max(within(a), share if engine == other else 0.0)
        if change < -100 * allowed - 0.1 and not any(map(question.has, ruled)):
            return f"{name} {change:+.1f} %, the answer within {100 * within(a):.2g} %"
    return "" if a else None


@relation
def row(ask, question, random):
    """A row of --explain is what its option gives."""
    if question.has("--objective"):
        return None  # the rows are of what is minimised
    a = ask(question.having(("--explain", None)))  # which a neighbour may lead
    rows = {name: change for name, change in (explained(ask, question) if a else {}).items()
            if re.fullmatch(r"(tp|pp|cp|micro-batch|recompute) \S+", name) and not question.has("--" + name.split()[0])}
    if not rows:
        return None
    name = random.choice(sorted(rows))
    b = ask.any(question.having(("--" + name.split()[0], name.split()[1])))
    if b.code != 0:
        return f"{name} {rows[name]:+.1f} % in the row, exit {b.code} as option: {b.error}"
    got = 100 * (step(b.doc) / step(a) - 1)
    return "" if abs(got - rows[name]) <= 3 else f"{name} {rows[name]:+.1f} % in the row, {got:+.1f} % as option"


@relation
def layerwise(ask, question, _):
    """Layouts that may differ by layer are no slower."""
    return None if question.has("--layerwise") else slower(ask, question.having(("--layerwise", None)), question)


@relation
def checks(ask, question, random):
    """A written plan is read again by every reader, with the same seconds."""
    a = ask(question.having(("-o", ask.file("plan.json"))))
    if a is None:
        return None
    plan = ask.file("plan.json")
    for command in (["redco-plan", "--check", plan, "--json"], ["redco-sim", plan, "--json"]):
        b = ask.run(command)
        if b.code != 0:
            return f"{command[0]} {command[1]}: exit {b.code}: {b.error}"
        if abs(b.doc["step_s"] / step(a) - 1) > DIGITS:
            return f"{command[0]} says {b.doc['step_s']:.8g} s, the plan {step(a):.8g} s"
    kind = random.choice(["megatron", "megatron-bridge", "torchtitan", "deepspeed", "fsdp", "internevo", "sbatch"])
    b = ask.run(["redco-plan", "--from", plan, "--export", kind, "-q"], parse=False)
    return "" if b.code in (0, 1) or NOT_EXPORTED in b.error else f"--from PLAN --export {kind}: exit {b.code}: {b.error}"


def number(text):
    return float(text.replace(",", ""))


def near_text(text, value, slack=0.5):
    """Is the printed number the value, to `slack` of its last digit?"""
    decimals = len(text.split(".")[1]) if "." in text else 0
    return abs(number(text) - value) <= slack * 10 ** -decimals * (1 + 1e-6)


UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


@relation
def table(ask, question, _):
    """The table says what --json says."""
    a = ask(question)
    if a is None:
        return None
    text = ask.text(question) or ""
    found = re.search(r"^  \*.*?([\d.]+) / ([\d.]+) GB\s+([\d.,]+) (us|µs|ms|s|min|h)\s+([\d,.]+)(?: ± ([\d,.]+))?\s+([\d.]+)", text,
                      re.M)
    if not found:
        return "no line of the answer in the table"
    said = a["predicted"]
    for name, words, value in (("memory", found[1], said["memory_bytes"]["total"] / 1e9),
                               ("capacity", found[2], said["memory_bytes"]["capacity"] / 1e9),
                               ("step", found[3], said["step_s"] / UNITS[found[4]]),
                               ("tokens/s/GPU", found[5], said["tokens_per_s_per_gpu"]), ("MFU", found[7], said["mfu"])):
        if not near_text(words, value, 0.5 if value < 1e4 else 5):
            return f"{name} {words} in the table, {value:.9g} in JSON"
    return ""


@relation
def numbers(ask, question, _):
    """What an answer says adds up."""
    a = ask(question)
    if a is None:
        return None
    said, work, mesh = a["predicted"], a["workload"], a["mesh"]
    gpus = a["cluster"]["nodes"] * a["cluster"]["gpus_per_node"]
    memory = said["memory_bytes"]
    dp = mesh["dp"]["gpus"] * mesh["dp"]["nodes"]
    rate = work["global_batch"] * work["seq_len"] / said["step_s"] / gpus
    parts = sum(memory[k] for k in ("parameters", "gradients", "optimizer", "activations", "transient", "nccl_buffers"))
    for wrong, what in (
            (memory["total"] > memory["capacity"], f"memory {memory['total']} above the capacity {memory['capacity']}"),
            (abs(parts / memory["total"] - 1) > 1e-6, f"parts of memory are {parts}, all is {memory['total']}"),
            (abs(rate / said["tokens_per_s_per_gpu"] - 1) > 1e-6, f"tokens/s/GPU {said['tokens_per_s_per_gpu']}, by the step {rate}"),
            (mesh["tp"] * mesh["cp"] * mesh["pp"] * dp != gpus, f"degrees do not make {gpus} GPUs"),
            (work["micro_batch"] * work["micro_batches"] * dp != work["global_batch"], "micro-batches do not make the batch"),
            (abs(said["energy_j"] / (said["watts_per_gpu"] * gpus * said["step_s"]) - 1) > 1e-6, "energy is not power times time"),
            (said["mfu"] > 1 and not said.get("mfu_above_one"), f"MFU {said['mfu']:.4g}, without a word")):
        if wrong:
            return what
    return ""


@relation
def again(ask, question, random):
    """The same question has the same answer, whatever order its options are in."""
    a, b = ask(question), ask(question.shuffled(random))
    if a is None and b is None:
        return None
    if a is None or b is None:
        return "fits once"
    for doc in (a, b):
        doc["solver"].pop("seconds", None)
    return "" if a == b else f"{step(a):.9g} s and {step(b):.9g} s"


def machines(ask, question, changes):
    """Two questions: of the same cluster as a file, and of one whose values are multiplied by `changes`."""
    name = question.get("--cluster") or "a800-hdr"
    return tuple(question.having(("--cluster", ask.cluster(name, factors))) for factors in ({}, changes))


@relation
def memory(ask, question, random):
    """More memory: fits where less does, and is no slower."""
    if question.get("--strategy") == "amsp" and not question.has("--recompute"):
        return None  # it recomputes as little as fits at all: with more memory less, for which it communicates more
    less, more = machines(ask, question, {"memory": random.choice([1.05, 1.25, 2.0])})
    return slower(ask, more, less)


@relation
def nic(ask, question, random):
    """A faster NIC is not slower."""
    slow, fast = machines(ask, question, {"nic_rate": random.choice([1.1, 1.5, 4.0])})
    return slower(ask, fast, slow)


HELP = {"NIC": {"nic_rate": 1.1}, "memory rate": {"memory_bandwidth": 1.1}, "NVLink": {"scale_up": 1.1},
        "compute": {"fp16": 1.1, "bf16": 1.1, "fp8": 1.1, "fp4": 1.1, "tf32": 1.1, "fp32": 1.1}}


@relation
def help(ask, question, random):  # noqa: A001 (the word of the answer)
    """"10 % more NIC" is what the same layout gains on a machine that has it."""
    base = machines(ask, question, {})[0]
    text, a = ask.text(base), ask(base)
    if a is None or question.has("--layerwise") or question.has("--objective"):
        return None
    said = {name: re.search(rf"{name}: ([+-]?[\d.]+) %", text[text.find("10 % more"):]) for name in sorted(HELP)}
    name = random.choice([name for name in said if said[name]])
    pairs = [pair for pair in own(a) if not question.has(pair[0])]
    if not any(pair[0] == "--fix" for pair in pairs) or question.has("--strategy"):
        return None
    pairs.append(("--engine", a["engine"]["name"])) if not question.has("--engine") else None
    slow, fast = (machine.having(*pairs) for machine in machines(ask, question, HELP[name]))
    b, c = ask(slow), ask(fast)
    if b is None or c is None or abs(step(b) / step(a) - 1) > TIE:
        return None
    got, wanted = 100 * (step(b) / step(c) - 1), float(said[name][1])
    if any(a[part] != c[part] for part in ("mesh", "sharding", "pipeline")):  # what no option gives may differ there,
        return "" if got >= wanted - 0.5 - 100 * within(c) else \
            f"10 % more {name}: {wanted} %, is {got:+.2f} % within {100 * within(c):.2g} %"  # where it is no worse
    return "" if abs(got - wanted) <= 0.5 else f"10 % more {name}: {wanted} %, is {got:+.2f} %"


@relation
def remedy(ask, question, random):
    """What an answer that does not fit names, fits, and takes the time that is said."""
    a = ask.any(question)
    if a.code != 1 or not a.doc.get("remedies"):
        return None
    one = random.choice(a.doc["remedies"])
    change, changed = one["change"], None
    if re.search(r", | and ", change):
        return None
    for pattern, option in ((r"([\d,]+) GPUs? \(.*?\) instead of", "--gpus"),
                            (r"tensor parallelism of ([\d,]+)", "--tp"), (r"([\d,]+) pipeline stages", "--pp"),
                            (r"context parallelism of ([\d,]+)", "--cp"), (r"full (recomputation)", "--recompute"),
                            (r"a micro-batch of ([\d,]+)", "--micro-batch")):
        found = re.match(pattern, change)
        if found:
            value = "full" if option == "--recompute" else found[1].replace(",", "")
            changed = question.having((option, value))
    if change.startswith("other sharding (without --strategy)"):
        changed = question.without("--strategy")
    if changed is None:
        return None
    b = ask.any(changed)
    if b.code != 0:
        return f"{change}: exit {b.code}: {b.error}"
    return "" if step(b.doc) <= 1.05 * one["step_s"] else \
        f"{change}: {one['step_s']:.4g} s is said, {step(b.doc):.4g} s is so"


@relation
def sweep(ask, question, random):
    """A row of --sweep is what its size alone gives."""
    sizes = ask.sizes(question, random)
    rows = ask.rows(question.without("--gpus").having(("--sweep", "gpus=" + ",".join(sizes))))
    if not rows or len(rows) != len(sizes):
        return None
    at = random.randrange(len(sizes))
    return same_row(ask, rows[at], question.having(("--gpus", sizes[at])), sizes[at])


RUN = ("--tokens", "100B")


def run_of(question, *more):
    return question.having(*([] if question.has("--tokens") else [RUN]), *more)


@relation
def frontier(ask, question, random):
    """A row of several sizes is what its size alone gives."""
    sizes = ask.sizes(question, random)
    doc = ask(run_of(question, ("--gpus", ",".join(sizes))))
    rows = [r for r in (doc or {}).get("rows", []) if r.get("feasible")]
    if not rows:
        return None
    r = random.choice(rows)
    a = ask(run_of(question, ("--gpus", str(r["gpus"]))))
    if a is None:
        return f"{r['gpus']} GPUs fit in the list, alone they do not"
    listed, alone = r["run"]["days"]["value"], a["run"]["days"]["value"]
    return "" if abs(listed / alone - 1) <= 0.03 else f"{listed:.5g} days in the list, alone {alone:.5g}"


@relation
def band(ask, question, random):
    """No single cause leads out of a run's band, and the value lies in it."""
    a = ask(run_of(question, *random.choice([[], [("--checkpoint", "async,interval=10min"), ("--spares", "0")],
                                             [("--checkpoint", "blocking")], [("--fault-tolerant", None)],
                                             [("--failures", "grand-teton")], [("--spares", "2")]])))
    if a is None:
        return None
    run = a["run"]
    days = run["days"]
    for cause in run["causes"]:
        if cause["low_days"] < days["low"] * (1 - 1e-6) or cause["high_days"] > days["high"] * (1 + 1e-6):
            return f"{cause['cause']} alone: {cause['low_days']:.6g} to {cause['high_days']:.6g} days, all: " \
                f"{days['low']:.6g} to {days['high']:.6g}"
    for name in ("days", "ettr", "gpu_hours", "step_s", "mwh", "failures", "mttf_s"):
        v = run[name]
        if not v["low"] * (1 - DIGITS) <= v["value"] <= v["high"] * (1 + DIGITS):
            return f"{name} {v['value']:.6g} is not within {v['low']:.6g} to {v['high']:.6g}"
    return ""


def measured_mfu(root, architecture, software, bits):
    """The highest that was measured, of the nearest class that has some."""
    with open(os.path.join(root, "costmodel/presets/bands/dense.json"), encoding="utf-8") as f:
        measured = json.load(f)["mfu"]
    for begin, end in ((f"{architecture} {software} ", f" {bits} bits"), (f"{architecture} ", f" {bits} bits"),
                       ("", f" {bits} bits"), ("", " 16 bits")):
        found = [ratio for name, ratio in measured.items() if name.startswith(begin) and name.endswith(end)]
        if found:
            return max(found)
    return 0.0


@relation
def mfu(ask, question, _):
    """An MFU 15 % above those of measured runs, or above 0.75 on an A100, is marked."""
    a = ask(question)
    if a is None or "band" not in a["predicted"]:
        return None  # no band: nothing is claimed to be like measured runs
    gpu, predicted = a["cluster"]["description"]["node"]["gpu_types"][0], a["predicted"]
    bits = {"fp32": 32, "fp8": 8, "mxfp8": 8, "nvfp4": 4}.get(question.get("--precision"), 16)
    most = 1.15 * measured_mfu(ask.root, gpu["arch"], a["engine"]["software"], bits)
    if gpu["arch"] == "Ampere":
        most = min(most, 0.75)
    return f"MFU {predicted['mfu']:.3f} is not marked, and is above {most:.3f}" \
        if predicted["mfu"] > most and "beyond_evidence" not in predicted else ""


@relation
def best(ask, question, random):
    """No interval of checkpoints is better than the one that is taken for the best."""
    mode = random.choice(["memory", "async", "blocking"])
    a = ask(run_of(question, ("--checkpoint", mode)))
    if a is None:
        return None
    taken = a["run"]["checkpoint"]["interval_s"]
    for factor in (0.25, 0.7, 1.5, 4.0):
        b = ask(run_of(question, ("--checkpoint", f"{mode},interval={taken * factor:.0f}s")))
        if b and b["run"]["ettr"]["value"] > a["run"]["ettr"]["value"] + 1e-4:
            return f"ETTR {a['run']['ettr']['value']:.6f} at {taken:.0f} s, {b['run']['ettr']['value']:.6f} at " \
                f"{taken * factor:.0f} s"
    return ""


@relation
def longer(ask, question, random):
    """Faster storage or fewer failures never make a run longer."""
    mode = [("--checkpoint", random.choice(["memory", "async", "blocking"]))]
    name, bad, good = random.choice([("--storage", "100 GB/s", "1 TB/s"), ("--storage", "10 GB/s", "30 GB/s"),
                                     ("--failures", "12/30d", "6/30d"), ("--recovery", "restart=8min", "restart=2min"),
                                     ("--slow-rank", "1.1", "1.02")])
    a, b = (ask(run_of(question, *mode, (name, value))) for value in (bad, good))
    if a is None or b is None:
        return None
    change = b["run"]["days"]["value"] / a["run"]["days"]["value"] - 1
    return "" if change <= 1e-9 else f"{name} {good} is {percent(change)} longer than {bad}"


@relation
def money(ask, question, random):
    """Money is price times hours, days are steps times seconds over ETTR, and print as they round."""
    price = f"{random.uniform(0.5, 9):.2f}"
    asked = run_of(question, ("--price", price + "/gpu-hour"))
    a = ask(asked)
    if a is None:
        return None
    run = a["run"]
    for name in ("value", "low", "high"):
        wanted = float(price) * run["paid_gpu_hours"][name]
        if abs(run["money"][name] / wanted - 1) > 1e-6:
            return f"money {name} {run['money'][name]:.8g}, price times hours {wanted:.8g}"
    days = run["steps"] * run["step_s"]["value"] / run["ettr"]["value"] / 86400
    if abs(days / run["days"]["value"] - 1) > 1e-3:
        return f"{run['days']['value']:.6g} days, steps times seconds over ETTR {days:.6g}"
    amount = r"([\d.,]+)( [MBT])?"
    found = re.search(rf"^money +{amount} \({amount} to {amount}\)", ask.text(asked) or "", re.M)
    if not found:
        return "no line of the money"
    for at, name in ((1, "value"), (3, "low"), (5, "high")):
        if not near_text(found[at], run["money"][name] / {None: 1.0, " M": 1e6, " B": 1e9, " T": 1e12}[found[at + 1]]):
            return f"money {name} is {run['money'][name]:.8g}, printed {found[at]}{found[at + 1] or ''}"
    return ""


@relation
def timeline(ask, question, _):
    """redco-validate takes redco-sim's own timeline for what it is."""
    plan, trace = ask.file("plan.json"), ask.file("trace.json")
    if ask(question.having(("-o", plan))) is None:
        return None
    b = ask.run(["redco-sim", plan, "--timeline", trace, "-q"], parse=False)
    if b.code != 0:
        return f"redco-sim: exit {b.code}: {b.error}"
    c = ask.run(["redco-validate", plan, trace, "--max-error", "0.1"], parse=False)
    off = re.search(r"step time is off by [\d.]+ %", c.out)
    return "" if c.code == 0 else f"exit {c.code}: {off[0] if off else c.error}"


@relation
def comm(ask, question, _):
    """The least communication time is not above that of the fastest layout."""
    if question.has("--objective") or question.has("--layerwise") or question.has("--strategy") or \
            question.has("--fix"):
        return None
    fast = ask(question)
    pairs = dict(own(fast)) if fast else {}
    if "--recompute" not in pairs or "--fix" not in pairs:
        return None
    if any(pairs.get(option, "1") != "1" for option in ("--tp", "--pp", "--cp")):
        return None  # which the objective leaves at 1 unless they are given
    asked = question.having(("--objective", "comm"), ("--recompute", pairs["--recompute"]))
    b = ask(asked.having(*((o, v) for o, v in pairs.items() if o != "--pp-chunks")))
    if b is None:
        return None
    a = ask(asked)
    if a is None:
        return "does not fit, and its part of the space does"
    mine, other = a["solver"]["objective"], b["solver"]["objective"]
    return "" if mine <= other * (1 + within(a) + DIGITS) else f"least {mine:.6g} s, with given meshes {other:.6g} s"


@relation
def exports(ask, question, random):
    """An export says what the plan says, or that it cannot."""
    kind = random.choice(["megatron", "megatron-bridge", "deepspeed"])
    asked = question.having(("--export", kind))
    a = ask(question)
    if a is None:
        return None
    b = ask.any(asked, json=False, quiet=False)
    if b.code != 0:
        return None if b.code == 1 or NOT_EXPORTED in b.error else f"exit {b.code}: {b.error}"
    planned = re.search(r"planned for [^:]*: ([\d.]+) (us|ms|s|min|h) a step; as .*?, ([\d.]+) of ([\d.]+) GB", b.err)
    if planned and abs(number(planned[1]) * UNITS[planned[2]] / step(a) - 1) > 0.06:
        return f"planned for {planned[1]} {planned[2]}, the plan has {step(a):.6g} s"
    gpus = a["cluster"]["nodes"] * a["cluster"]["gpus_per_node"]
    if kind == "deepspeed":
        d = json.loads(b.out)
        if d["train_batch_size"] != a["workload"]["global_batch"]:
            return f"train_batch_size {d['train_batch_size']}, the batch is {a['workload']['global_batch']}"
        return "" if gpus % (d["train_batch_size"] // (d["train_micro_batch_size_per_gpu"] * d["gradient_accumulation_steps"])) == 0 \
            else "the micro-batches do not make the batch"
    keys = ("tensor.model.parallel.size", "pipeline.model.parallel.size", "context.parallel.size", "micro.batch.size",
            "global.batch.size")
    tp, pp, cp, micro, batch = (int(m[1]) if m else 1 for m in (re.search(rf"\b{key}(?: | = )(\d+)", b.out) for key in keys))
    if batch != a["workload"]["global_batch"]:
        return f"global batch {batch}, the question has {a['workload']['global_batch']}"
    if gpus % (tp * pp * cp) or batch % (micro * (gpus // (tp * pp * cp))):
        return f"tp {tp}, pp {pp}, cp {cp}, micro-batch {micro} do not divide {gpus} GPUs and the batch {batch}"
    mesh = a["mesh"]
    if "nearest that it can" not in b.err and (tp, pp, cp, micro) != (mesh["tp"], mesh["pp"], mesh["cp"], a["workload"]["micro_batch"]):
        return f"tp {tp}, pp {pp}, cp {cp}, micro-batch {micro}: not those of the plan, without a word"
    return ""


def cluster_file(root, folder, name, factors):
    """A preset's cluster with its GPU inside it, some values multiplied."""
    with open(os.path.join(root, "topology/presets/clusters", name + ".json"), encoding="utf-8") as f:
        cluster = json.load(f)
    if "gpu" not in cluster["node"]:
        raise Silent("a cluster that lists its GPUs one by one")
    gpu = cluster["node"]["gpu"]
    with open(os.path.join(root, "topology/presets/gpus", (gpu["value"] if isinstance(gpu, dict) else gpu) + ".json"),
              encoding="utf-8") as f:
        cluster["node"]["gpu"] = json.load(f)
    for part in (cluster["node"], cluster["node"]["gpu"]):
        for key in [key for key in part if key in factors]:
            text = part[key]["value"] if isinstance(part[key], dict) else part[key]
            amount, unit = text.split(" ")
            part[key] = f"{float(amount) * factors[key]:.12g} {unit}"
    tail = "".join(f"-{key}-{factors[key]:g}" for key in sorted(factors))
    path = os.path.join(folder, f"{name}{'-fp-1.1' if len(factors) > 1 else tail}.json")
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(cluster, f, indent=1)
    os.replace(path + ".new", path)
    return path
