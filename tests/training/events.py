"""events.py FOLDER METRICS: the files of events that TensorBoard would read say what the JSON lines say. Records, checksums
and messages are read here from their definitions alone: RFC 3720, appendix B.4 (CRC-32C, bit by bit); TensorFlow's
record_writer.h, event.proto and summary.proto. Where TensorBoard is installed, its own reader must say the same."""
import glob, json, struct, sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            top = (crc >> 31 & 1) ^ (byte >> bit & 1)  # most significant bit first, polynomial not reversed
            crc = (crc << 1 & 0xFFFFFFFF) ^ (0x1EDC6F41 if top else 0)
    return int(f"{crc ^ 0xFFFFFFFF:032b}"[::-1], 2)


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at : at + 8]), "checksum of a length"
        body = data[at + 12 : at + 12 + length]
        assert len(body) == length and struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), "checksum"
        yield body
        at += length + 16


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            length = {1: 8, 5: 4}.get(kind)
            if length is None:
                length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        yield number, value


assert crc32c(b"123456789") == 0xE3069283  # the check value that the literature gives
assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
folder, metrics = sys.argv[1:3]
got = {}
for name in sorted(glob.glob(folder + "/events.out.tfevents.*")):
    for i, record in enumerate(records(open(name, "rb").read())):
        event = dict(fields(record))
        if i == 0:
            assert event[3] == b"brain.Event:2", event
            continue
        step = event[2]
        if 7 in event:  # a session begins: later steps of older ones are void
            assert dict(fields(event[7]))[1] == 1
            got = {key: value for key, value in got.items() if key[1] < step}
            continue
        for number, value in fields(event[5]):
            scalar = dict(fields(value))
            got[scalar[1].decode(), step] = struct.unpack("<f", scalar[2])[0]
single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
want = {}
for line in map(json.loads, open(metrics)):
    if "evaluation" in line:
        want["evaluation/loss", line["step"]] = single(line["evaluation"]["loss"])
        if line["evaluation"]["metric"] is not None:
            want["evaluation/metric", line["step"]] = single(line["evaluation"]["metric"])
        continue
    for tag, key in (("train/loss", "loss"), ("train/gradient_norm", "gradient_norm"), ("speed/step_s", "time_s"),
                     ("train/learning_rate", "learning_rate"), ("train/clip_factor", "clip_factor"), ("speed/tokens_per_s", "tokens_per_s"), ("speed/mfu", "mfu")):
        if line[key] is not None:
            want[tag, line["step"]] = single(line[key])
assert got == want, sorted(set(got.items()) ^ set(want.items()))[:6]
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util
except ImportError:
    print(len(want), "scalars; TensorBoard is not installed")
    sys.exit()
accumulator = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
accumulator.Reload()
read = {(tag, e.step): e.value for tag in accumulator.Tags()["scalars"] for e in accumulator.Scalars(tag)}
read.update({(tag, e.step): float(tensor_util.make_ndarray(e.tensor_proto))
             for tag in accumulator.Tags()["tensors"] for e in accumulator.Tensors(tag)})
assert read == want, sorted(set(read.items()) ^ set(want.items()))[:6]
print(len(want), "scalars, TensorBoard reads the same")
