#!/usr/bin/env python3
"""exec-faults.py TOOLS [full]: runs that are ended while they write weights, full disks under output
files, data that changed before a resumption, secrets that are none, pipes in place of files, ranks
of redco-profile that are killed. Each ends by itself in one message, with the right exit code, and
nothing unfinished stays."""
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

TOOLS, FULL = os.path.abspath(sys.argv[1]), sys.argv[2:] == ["full"]
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
CONFIG = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4,
          "num_attention_heads": 4, "vocab_size": 16000}
failures = faults = 0


def check(what, good, done=None):
    global failures, faults
    faults += 1
    if not good:
        failures += 1
        print(f"{what}: {done.returncode if done else ''}\n{done.stderr[-600:] if done else ''}")


def run(words, limit_s=100, **options):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL, **options)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, "none: it does not end", "", "")


def refused(what, done, code, text=""):
    check(what, done.returncode == code and done.stderr.count("\n") == 1 and text in done.stderr, done)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def ended(number, how):
    """A run that writes weights is ended once it has begun to, by a signal or with one of its ranks."""
    shutil.rmtree("weights", ignore_errors=True)
    child = subprocess.Popen(["redco-exec", "large.json", "--steps", "0", "--save-weights", "weights", "--quiet"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while child.poll() is None and not (os.path.isdir("weights/.unfinished-weights") and
                                        os.listdir("weights/.unfinished-weights")):
        time.sleep(0.0005)
    time.sleep(random.random() * 0.02)
    ranks = children(child.pid)
    if how == "rank" and ranks:
        os.kill(ranks[number % len(ranks)], signal.SIGKILL)
    elif how != "rank":
        child.send_signal(how)
    said = child.communicate(timeout=60)[1]
    done = subprocess.CompletedProcess([], child.returncode, "", said)
    whole = os.path.exists("weights/config.json")
    if child.returncode == 0:  # it was faster
        check(f"{number}: {how}: whole", whole and not os.path.exists("weights/.unfinished-weights"), done)
        return
    one = said.count("\n") == 1 and child.returncode == 3 if how == "rank" else child.returncode == -how and said == ""
    check(f"{number}: {how}: {os.listdir('weights') if os.path.isdir('weights') else ''}",
          one and (whole or not os.path.exists("weights")) and not os.path.exists("weights/.unfinished-weights"), done)


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    os.environ["PATH"] = TOOLS + ":" + os.environ["PATH"]
    random.seed(7)
    with open("model.json", "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
    plan = ["redco-plan", "--quiet", "--pp", "1", "--cp", "1", "--tp", "1", "--cluster", DATA + "/exec/quad.json", "--seq", "8",
            "--global-batch", "4", "--micro-batch", "1", "--precision", "fp32", "--gpus", "2"]
    for name, model in (("large.json", "model.json"), ("small.json", DATA + "/models/oracle/llama.json")):
        subprocess.run(plan + ["--model", model, "-o", name], check=True, stdout=subprocess.DEVNULL)
    ways = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, "rank")
    for number in range(24 if FULL else 4):
        ended(number, ways[number % 4])

    # Output files on a full disk, and those that may not grow.
    full = [["redco-plan", "--gpus", "8", "-o"], ["redco-plan", "--gpus", "8", "--timeline"],
            ["redco-plan", "--gpus", "8", "--report"], ["redco-sim", "small.json", "--timeline"],
            ["redco-calibrate", "--measured", DATA + "/../../traces/data/amsp.csv", "-o"],
            ["redco-exec", "small.json", "--steps", "1", "--timeline"]]
    for words in full if FULL else full[:3]:
        refused(f"{words}: full disk", run(words + ["/dev/full"]), 3, "/dev/full: cannot write: No space left on device")
        done = run(words + ["out"], preexec_fn=small_files)
        refused(f"{words}: a file too large", done, 3, "out: cannot write: File too large")
        check(f"{words}: left", not [name for name in os.listdir(".") if name.startswith("out")])

    # Data that changed before a resumption.
    tokens = [i * 7 % 50 for i in range(2000)]
    changes = {"as it was": tokens, "a token": tokens[:1000] + [49 - tokens[1000]] + tokens[1001:],
               "the first": [1] + tokens[1:], "the last": tokens[:-1] + [tokens[-1] ^ 1],
               "two exchanged": tokens[:5] + [tokens[6], tokens[5]] + tokens[7:]}
    for what, changed in changes.items():
        with open(what, "wb") as file:
            file.write(b"".join(struct.pack("<H", token) for token in changed))
    train = ["redco-exec", "small.json", "--checkpoint", "ck", "--quiet", "--data"]
    subprocess.run(train + ["as it was", "--steps", "2"], check=True, stdout=subprocess.DEVNULL)
    for what in changes:
        done = run(train + [what, "--steps", "2", "--resume"])
        if what == "as it was":
            check(what, done.returncode == 0, done)
        elif FULL or what == "a token":
            refused(what, done, 2, "is of a run on other data")

    # Secrets.
    secrets = {"zeros": bytes(32), "too long": os.urandom(4097), "one letter": b"a" * 64, "two": b"ab" * 20,
               "short": os.urandom(15), "none": b""}
    for what, secret in secrets.items():
        with open("secret", "wb") as file:
            file.write(secret)
        os.chmod("secret", 0o600)
        environment = {**os.environ, "REDCO_RANK": "0", "REDCO_RANKS": "2", "REDCO_ADDRESS": "127.0.0.1:45917",
                       "REDCO_SECRET_FILE": os.path.join(folder, "secret")}
        if FULL or what in ("zeros", "too long"):
            refused(f"secret: {what}", run(["redco-exec", "small.json", "--steps", "1"], env=environment), 2, "secret:")

    # Pipes that nobody reads or writes, in place of files.
    os.mkdir("log")
    for name in ("log/run.log", "log/metrics.jsonl"):
        os.mkfifo(name)
        refused(name, run(train + ["as it was", "--steps", "3", "--resume", "--log", "log"], 20), 2, "is no regular file")
        os.unlink(name)
    step = os.path.join("ck", sorted(name for name in os.listdir("ck") if name.startswith("step"))[-1])
    for name in sorted(os.listdir(step)) if FULL else []:
        os.rename(os.path.join(step, name), "kept")
        os.mkfifo(os.path.join(step, name))
        done = run(train + ["as it was", "--steps", "2", "--resume"], 20)
        check(f"{name} as a pipe", done.returncode in (0, 2) and done.stderr.count("\n") >= 1, done)
        for left in [entry for entry in os.listdir("ck") if not entry.startswith("step")]:
            pass
        if os.path.exists(os.path.join(step, name)):
            os.unlink(os.path.join(step, name))
        os.makedirs(step, exist_ok=True)
        os.rename("kept", os.path.join(step, name))

    # A rank of redco-profile.
    for number in range(4 if FULL else 1):
        child = subprocess.Popen(["redco-profile", "--ranks", "3", "--seconds", "60", "-o", "profile.json"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while len(children(child.pid)) < 2 and child.poll() is None:
            time.sleep(0.01)
        time.sleep(0.5 * number)
        os.kill(children(child.pid)[number % 2], signal.SIGKILL)
        began = time.monotonic()
        done = subprocess.CompletedProcess([], None, "", child.communicate(timeout=90)[1])
        done.returncode = child.returncode
        took = time.monotonic() - began
        refused("a rank of redco-profile", done, 3, f"rank {number % 2 + 1}")
        check(f"a rank of redco-profile: {took:.1f} s", took < 5.0 and not os.path.exists("profile.json"), done)
print(f"{faults} faults, {failures} failures")
sys.exit(failures > 0)
