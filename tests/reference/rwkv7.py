#!/usr/bin/env python3
"""Computes the logits of RWKV-7 fixtures, one token and one number at a time, in double precision.

    tests/reference/rwkv7.py FIXTURE...            compares with expected.json
    tests/reference/rwkv7.py --write 16 FIXTURE    writes expected.json with 16 greedy tokens

A fixture is a folder of tests/data/seeded/logits. Written from the formulas of Peng et al., RWKV-7 "Goose"
(2025), not from the runtime.
"""

import json
import math
import sys

import nemotron_h
import seeded
from nemotron_h import dot, matmul, parts, sigmoid


def layer_norm(x, weights, name, eps):
    mean = math.fsum(x) / len(x)
    variance = math.fsum((value - mean) ** 2 for value in x) / len(x)
    scale = 1 / math.sqrt(variance + eps)
    gains = zip(x, weights[name + ".weight"], weights[name + ".bias"], strict=True)
    return [(value - mean) * scale * gain + bias for value, gain, bias in gains]


def mixed(x, before, shares):
    return [own + (other - own) * share for own, other, share in zip(x, before, shares, strict=True)]


def vector(values):
    """A tensor [1, 1, n] as a vector."""
    return values[0] if isinstance(values[0], list) else values


class TimeMix:
    def __init__(self, config, weights, prefix):
        self.config = config
        self.weight = lambda name: weights[prefix + name]
        self.weights, self.prefix = weights, prefix
        self.before = [0.0] * config["hidden_size"]
        size = config["head_dim"]
        heads = config["hidden_size"] // size
        self.states = [[[0.0] * size for _ in range(size)] for _ in range(heads)]  # [values][keys]

    def shares(self, index, name):
        """Early checkpoints have the vectors of all inputs in one tensor."""
        if self.prefix + "x_x" in self.weights:
            return self.weight("x_x")[index]
        return vector(self.weight("x_" + name))

    def low_rank(self, name, x, function):
        inner = [function(value) for value in matmul(self.weight(name + "_lora.lora.0.weight"), x)]
        return matmul(self.weight(name + "_lora.lora.2.weight"), inner)

    def with_bias(self, name, values):
        return [a + b for a, b in zip(values, self.weight(name + "_lora.lora.2.bias"), strict=True)]

    def __call__(self, x, first):
        """The output, and the first layer's values: `first`, or this layer's."""
        inputs = {name: mixed(x, self.before, self.shares(i, name)) for i, name in enumerate("rwkvag")}
        self.before = x
        r, k, v = (matmul(self.weight(name + "_proj.weight"), inputs[name]) for name in "rkv")
        w = self.with_bias("w", self.low_rank("w", inputs["w"], math.tanh))
        w = [math.exp(-math.exp(-0.5) * sigmoid(value)) for value in w]
        a = [sigmoid(value) for value in self.with_bias("a", self.low_rank("a", inputs["a"], lambda i: i))]
        g = self.low_rank("g", inputs["g"], sigmoid)
        if first is None:
            first = v
        else:
            shares = self.with_bias("v", self.low_rank("v", inputs["v"], lambda i: i))
            v = mixed(v, first, [sigmoid(share) for share in shares])
        kk = [value * gain for value, gain in zip(k, self.weight("k_k"), strict=True)]
        k = [value * (1 + (s - 1) * gain) for value, s, gain in zip(k, a, self.weight("k_a"), strict=True)]
        size = self.config["head_dim"]
        by_head = zip(*(parts(values, size) for values in (r, w, k, v, a, kk)), strict=True)
        outs = []
        for state, weight, inputs_of_head in zip(self.states, self.weight("r_k"), by_head, strict=True):
            outs.append(self.head(state, weight, *inputs_of_head))
        normed, bonus = (sum((out[i] for out in outs), []) for i in range(2))
        y = [(n + b) * gate for n, b, gate in zip(self.head_norm(normed), bonus, g, strict=True)]
        return matmul(self.weight("o_proj.weight"), y), first

    def head(self, state, weight, r, w, k, v, a, kk):
        length = math.sqrt(dot(kk, kk))
        kk = [value / length for value in kk]
        out = []
        for value, row in zip(v, state, strict=True):
            read = dot(row, kk)
            for j, decay in enumerate(w):
                row[j] = row[j] * decay - read * kk[j] * a[j] + value * k[j]
            out.append(dot(row, r))
        product = math.fsum(a * b * c for a, b, c in zip(r, k, weight, strict=True))
        return out, [product * value for value in v]

    def head_norm(self, values):
        size = self.config["head_dim"]
        result = []
        for head, part in enumerate(parts(values, size)):
            own = {
                end: parts(self.weight("g_norm" + end), size)[head] for end in (".weight", ".bias")
            }
            result += layer_norm(part, own, "", size * self.config["norm_eps"])
        return result


class ChannelMix:
    def __init__(self, config, weights, prefix):
        self.weight = lambda name: weights[prefix + name]
        self.before = [0.0] * config["hidden_size"]

    def __call__(self, x):
        shifted = mixed(x, self.before, vector(self.weight("x_k")))
        self.before = x
        inner = [max(value, 0.0) ** 2 for value in matmul(self.weight("key.weight"), shifted)]
        return matmul(self.weight("value.weight"), inner)


class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = seeded.tensors(folder)
        prefixes = [f"model.layers.{i}." for i in range(self.config["num_hidden_layers"])]
        self.layers = [
            (
                prefix,
                TimeMix(self.config, self.weights, prefix + "attn."),
                ChannelMix(self.config, self.weights, prefix + "ffn."),
            )
            for prefix in prefixes
        ]

    def norm(self, x, name):
        return layer_norm(x, self.weights, "model." + name, self.config["norm_eps"])

    def __call__(self, token):
        """The logits after the next token."""
        x = self.norm(self.weights["model.embeddings.weight"][token], "layers.0.pre_norm")
        first = None
        for i, (_, time_mix, channel_mix) in enumerate(self.layers):
            out, first = time_mix(self.norm(x, f"layers.{i}.attn_norm"), first)
            x = [a + b for a, b in zip(x, out, strict=True)]
            out = channel_mix(self.norm(x, f"layers.{i}.ffn_norm"))
            x = [a + b for a, b in zip(x, out, strict=True)]
        return matmul(self.weights["lm_head.weight"], self.norm(x, "norm"))


if __name__ == "__main__":
    nemotron_h.Model = Model
    sys.exit(nemotron_h.main())
