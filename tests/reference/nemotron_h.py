#!/usr/bin/env python3
"""Computes the logits of Nemotron-H fixtures, one token and one number at a time, in double precision.

    tests/reference/nemotron_h.py FIXTURE...            compares with expected.json
    tests/reference/nemotron_h.py --write 16 FIXTURE    writes expected.json with 16 greedy tokens

A fixture is a folder of tests/data/seeded/logits. Written from the formulas, not from the runtime: Mamba-2
as Dao and Gu (2024) define it, and NVIDIA's latent experts, which read and write projections of the hidden
state: up(sum of experts(down(x))). The router and the shared expert read the hidden state itself.
"""

import argparse
import json
import math
import pathlib
import sys

import seeded

TOLERANCE = 1e-3  # float32 noise of the original code's logits


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def matmul(matrix, x):
    return [dot(row, x) for row in matrix]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def rms_norm(x, gain, eps):
    scale = 1 / math.sqrt(dot(x, x) / len(x) + eps)
    return [value * scale * factor for value, factor in zip(x, gain, strict=True)]


def parts(values, size):
    return [values[i : i + size] for i in range(0, len(values), size)]


class Mamba:
    def __init__(self, config, weights, prefix):
        self.config = config
        self.weight = lambda name: weights[prefix + name]
        self.inputs = []  # inputs of the convolution
        size = config["mamba_head_dim"], config["ssm_state_size"]
        self.states = [[[0.0] * size[1] for _ in range(size[0])] for _ in range(config["mamba_num_heads"])]

    def convolved(self, channels):
        self.inputs.append(channels)
        result = list(self.weight("conv1d.bias"))
        for channel, taps in enumerate(self.weight("conv1d.weight")):
            for age in range(min(len(taps), len(self.inputs))):
                result[channel] += taps[-1 - age] * self.inputs[-1 - age][channel]
        return [silu(value) for value in result]

    def __call__(self, x):
        heads, head_dim = self.config["mamba_num_heads"], self.config["mamba_head_dim"]
        groups, inner = self.config["n_groups"], heads * head_dim
        projected = matmul(self.weight("in_proj.weight"), x)
        z, channels, dts = projected[:inner], projected[inner:-heads], projected[-heads:]
        channels = self.convolved(channels)
        xs = parts(channels[:inner], head_dim)
        bs, cs = (parts(values, self.config["ssm_state_size"]) for values in halves(channels[inner:]))
        y = []
        for head in range(heads):
            group = head // (heads // groups)
            dt = softplus(dts[head] + self.weight("dt_bias")[head])
            decay = math.exp(-math.exp(self.weight("A_log")[head]) * dt)
            for value, row in zip(xs[head], self.states[head], strict=True):
                for j, b in enumerate(bs[group]):
                    row[j] = decay * row[j] + dt * value * b
                y.append(dot(row, cs[group]) + self.weight("D")[head] * value)
        gated = [value * silu(gate) for value, gate in zip(y, z, strict=True)]
        size = inner // groups
        gains = parts(self.weight("norm.weight"), size)
        eps = self.config["layer_norm_epsilon"]
        normed = [rms_norm(part, gain, eps) for part, gain in zip(parts(gated, size), gains, strict=True)]
        return matmul(self.weight("out_proj.weight"), sum(normed, []))


def halves(values):
    return values[: len(values) // 2], values[len(values) // 2 :]


class Attention:
    """Without RoPE, although the configuration has fields for it."""

    def __init__(self, config, weights, prefix):
        self.config = config
        self.weight = lambda name: weights[prefix + name + ".weight"]
        self.keys, self.values = [], []  # [tokens][KV heads]

    def __call__(self, x):
        size = self.config["head_dim"]
        queries = parts(matmul(self.weight("q_proj"), x), size)
        self.keys.append(parts(matmul(self.weight("k_proj"), x), size))
        self.values.append(parts(matmul(self.weight("v_proj"), x), size))
        result = []
        for head, query in enumerate(queries):
            kv = head * self.config["num_key_value_heads"] // len(queries)
            scores = [dot(query, keys[kv]) / math.sqrt(size) for keys in self.keys]
            highest = max(scores)
            weights = [math.exp(score - highest) for score in scores]
            for i in range(size):
                column = [values[kv][i] for values in self.values]
                result.append(dot(weights, column) / math.fsum(weights))
        return matmul(self.weight("o_proj"), result)


def mlp(weights, prefix, x):
    inner = [max(value, 0.0) ** 2 for value in matmul(weights[prefix + "up_proj.weight"], x)]
    return matmul(weights[prefix + "down_proj.weight"], inner)


class Mlp:
    def __init__(self, _, weights, prefix):
        self.apply = lambda x: mlp(weights, prefix, x)

    def __call__(self, x):
        return self.apply(x)


class Experts:
    smallest_gap = math.inf  # between a chosen and another expert

    def __init__(self, config, weights, prefix):
        self.config, self.weights, self.prefix = config, weights, prefix

    def choose(self, x):
        assert self.config["n_group"] == 1 and self.config["norm_topk_prob"]
        scores = [sigmoid(logit) for logit in matmul(self.weights[self.prefix + "gate.weight"], x)]
        bias = self.weights[self.prefix + "gate.e_score_correction_bias"]
        order = sorted(range(len(scores)), key=lambda i: -scores[i] - bias[i])
        count = self.config["num_experts_per_tok"]
        least, other = (scores[i] + bias[i] for i in order[count - 1 : count + 1])
        Experts.smallest_gap = min(Experts.smallest_gap, least - other)
        total = math.fsum(scores[i] for i in order[:count])
        factor = self.config["routed_scaling_factor"] / total
        return [(i, scores[i] * factor) for i in order[:count]]

    def routed(self, x, chosen):
        results = [(weight, mlp(self.weights, f"{self.prefix}experts.{i}.", x)) for i, weight in chosen]
        return [math.fsum(weight * result[i] for weight, result in results) for i in range(len(x))]

    def __call__(self, x):
        chosen = self.choose(x)
        if self.config.get("moe_latent_size"):
            latent = matmul(self.weights[self.prefix + "fc1_latent_proj.weight"], x)
            routed = matmul(self.weights[self.prefix + "fc2_latent_proj.weight"], self.routed(latent, chosen))
        else:
            routed = self.routed(x, chosen)
        shared = mlp(self.weights, self.prefix + "shared_experts.", x)
        return [a + b for a, b in zip(routed, shared, strict=True)]


class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = seeded.tensors(folder)
        kinds = {"M": Mamba, "*": Attention, "-": Mlp, "E": Experts}
        self.layers = [
            kinds[kind](self.config, self.weights, f"backbone.layers.{i}.mixer.")
            for i, kind in enumerate(self.config["hybrid_override_pattern"])
        ]

    def __call__(self, token):
        """The logits after the next token."""
        eps = self.config["layer_norm_epsilon"]
        x = self.weights["backbone.embeddings.weight"][token]
        for i, layer in enumerate(self.layers):
            normed = rms_norm(x, self.weights[f"backbone.layers.{i}.norm.weight"], eps)
            x = [a + b for a, b in zip(x, layer(normed), strict=True)]
        return matmul(self.weights["lm_head.weight"], rms_norm(x, self.weights["backbone.norm_f.weight"], eps))


def difference(row, expected):
    """Sums of all logits grow with the square root of their number."""
    values = dict(zip(row["ids"], row["values"], strict=True))
    logits = [abs(values.get(i, math.inf) - value) for i, value in zip(expected["ids"][:8], expected["values"])]
    sums = [abs(a - b) / 16 for a, b in zip(row["projections"], expected["projections"], strict=True)]
    return max(*logits, *sums, abs(row["logsumexp"] - expected["logsumexp"]))


def compare(folder):
    expected = json.loads((folder / "expected.json").read_text())
    found = computed(folder, len(expected["greedy_ids"]))
    pairs = zip(found["prompt"] + found["greedy"], expected["prompt"] + expected["greedy"], strict=True)
    largest = max(difference(row, other) for row, other in pairs)
    print(f"{folder.name}: differs by {largest:.2g}")
    return largest <= TOLERANCE and found["greedy_ids"] == expected["greedy_ids"]


def computed(folder, greedy_tokens):
    prompt = json.loads((folder / "prompt.json").read_text())["ids"]
    return seeded.computed(Model(folder), prompt, greedy_tokens)


def write(folder, greedy_tokens):
    found = computed(folder, greedy_tokens)
    seeded.write_expected(folder, found)
    print(f"{folder.name}: smallest greedy margin {seeded.smallest_margin(found)}, smallest routing gap {Experts.smallest_gap}")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", type=int, metavar="TOKENS", help="write expected.json")
    parser.add_argument("fixtures", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    are_right = [write(f, options.write) if options.write else compare(f) for f in options.fixtures]
    return 0 if all(are_right) else 1


if __name__ == "__main__":
    sys.exit(main())
