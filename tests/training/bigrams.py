"""bigrams.py KIND WEIGHTS DATA RUN...: what redco-exec says of the pipeline bigrams.c, against its loss and gradient by
hand: the mean of -log softmax(table[token])[target] over all targets that are not below 0.

first     the first step's loss and gradient norm of RUN, in the order of the file; further arguments: examples of a step
evaluation  the evaluation's loss and count of targets"""
import json, math, struct, sys

kind, weights, data, run = sys.argv[1:5]
raw = open(weights, "rb").read()
(size,) = struct.unpack_from("<Q", raw)
info = json.loads(raw[8 : 8 + size])["table.weight"]
at = 8 + size + info["data_offsets"][0]
table = [list(struct.unpack_from("<5f", raw, at + 20 * row)) for row in range(5)]
examples = [json.loads(line) for line in open(data)]
run = json.load(open(run))


def mean(examples):
    total, asked, gradient = 0.0, 0, [[0.0] * 5 for _ in range(5)]
    for e in examples:
        for token, target in zip(e["tokens"], e["targets"]):
            if target < 0:
                continue
            row = table[token]
            log_sum = math.log(sum(math.exp(x) for x in row))
            total += log_sum - row[target]
            asked += 1
            for i in range(5):
                gradient[token][i] += math.exp(row[i] - log_sum) - (1.0 if i == target else 0.0)
    norm = math.sqrt(sum(g * g for row in gradient for g in row)) / asked
    return total / asked, norm, asked


near = lambda a, b: abs(a / b - 1) < 1e-12
if kind == "first":
    loss, norm, _ = mean(examples[: int(sys.argv[5])])
    step = run["steps"][0]
    assert near(step["loss"], loss) and near(step["gradient_norm"], norm), (step, loss, norm)
else:
    loss, _, asked = mean(examples)
    e = run["evaluation"]
    assert near(e["loss"], loss) and e["targets"] == asked and e["examples"] == len(examples), (e, loss, asked)
