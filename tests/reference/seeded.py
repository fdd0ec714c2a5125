"""The format of seeded fixtures (tests/README.md): weights by a formula, and rows of logits in short.

Only the standard library, in double precision.
"""

import heapq
import json
import math
import struct

MASK = (1 << 64) - 1
PROJECTIONS = 8


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def elements(entry, salt):
    """The elements of a tensor, by the formula of tests/reference/seeded_weights.h."""
    start = fnv1a64(entry["name"] + "#" + salt if salt else entry["name"])
    base, amplitude = as_float32(entry["base"]), as_float32(entry["amplitude"])
    for i in range(math.prod(entry["shape"])):
        unit = (splitmix64((start + i) & MASK) >> 40) * 2.0**-24
        yield as_float32(base + as_float32(amplitude * (2 * unit - 1)))


def tensors(folder):
    description = json.loads((folder / "weights.json").read_text())
    result = {}
    for entry in description["tensors"]:
        values = list(elements(entry, description["salt"]))
        columns = entry["shape"][-1]
        if len(entry["shape"]) > 1:
            values = [values[i : i + columns] for i in range(0, len(values), columns)]
        result[entry["name"]] = values
    return result


def summary(logits):
    """A row of expected.json."""
    ids = heapq.nlargest(16, range(len(logits)), key=lambda i: logits[i])
    highest = max(logits)
    signs = [splitmix64(0xABCD + i) for i in range(len(logits))]
    return {
        "ids": ids,
        "values": [logits[i] for i in ids],
        "projections": [
            math.fsum(value if sign >> j & 1 else -value for value, sign in zip(logits, signs, strict=True))
            for j in range(PROJECTIONS)
        ],
        "logsumexp": highest + math.log(math.fsum(math.exp(value - highest) for value in logits)),
    }


def computed(model, prompt, greedy_tokens):
    """The contents of expected.json. `model`: called with the next token, it returns the logits after it;
    `model.config` is config.json."""
    rows = [summary(model(token)) for token in prompt]
    greedy = [rows[-1]]
    while len(greedy) < greedy_tokens:
        greedy.append(summary(model(greedy[-1]["ids"][0])))
    return {
        "vocab": model.config["vocab_size"],
        "prompt": [{"position": i, **row} for i, row in enumerate(rows)],
        "greedy_ids": [row["ids"][0] for row in greedy],
        "greedy": greedy,
    }


def rounded(value):
    if isinstance(value, list):
        return [rounded(element) for element in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def row_text(row):
    return json.dumps({key: rounded(value) for key, value in row.items()}, separators=(",", ":"))


def write_expected(folder, found):
    rows = {key: ",\n".join(row_text(row) for row in found[key]) for key in ("prompt", "greedy")}
    ids = json.dumps(found["greedy_ids"], separators=(",", ":"))
    (folder / "expected.json").write_text(
        f'{{"vocab":{found["vocab"]},\n"prompt":[\n{rows["prompt"]}\n],\n'
        f'"greedy_ids":{ids},\n"greedy":[\n{rows["greedy"]}\n]}}\n'
    )


def smallest_margin(found):
    """Between the best and the second token of a greedy step."""
    return min(row["values"][0] - row["values"][1] for row in found["greedy"])
