#!/usr/bin/env python3
"""Tests write_fixture.py: with a fixture whose numbers NVIDIA's code has computed, and with a model of one matrix."""

import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import seeded
import write_fixture

HERE = pathlib.Path(__file__).resolve().parent
FIXTURE = HERE.parent / "data/seeded/logits/nemotronh"

# A model whose logits are a multiple of a column of the LM head: fast, and with near ties for some salts.
ONE_MATRIX = """
import json
import seeded

class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = seeded.tensors(folder)

    @staticmethod
    def shapes(config):
        size = config["vocab_size"]
        return {"lm_head.weight": [size, size], "model.norm.weight": [size], "model.bias": [size]}

    def __call__(self, token):
        return [7 * row[token] for row in self.weights["lm_head.weight"]]
"""


class WriteFixture(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "fixture"
        self.folder.mkdir()

    def write(self, *arguments):
        command = [sys.executable, HERE / "write_fixture.py", self.folder, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def read(self, name):
        return json.loads((self.folder / name).read_text())

    def test_the_formula_is_that_of_the_guide(self):
        self.assertEqual(seeded.splitmix64(0), 0xE220A8397B1DCDAF)
        self.assertEqual(seeded.fnv1a64("lm_head.weight#1"), 0xABC6D7B144567EE1)
        entry = {"name": "lm_head.weight", "shape": [3], "base": 1, "amplitude": 0.25}
        for salt, expected in (("", [1.24638999, 0.881502569, 0.871455908]), ("1", [1.14945292, 1.01294863, 1.20422804])):
            for value, other in zip(seeded.elements(entry, salt), expected, strict=True):
                self.assertAlmostEqual(value, other, places=7)

    def test_a_fixture_is_written_as_it_is(self):
        for name in ("config.json", "weights.json"):
            shutil.copy(FIXTURE / name, self.folder)
        prompt = json.loads((FIXTURE / "prompt.json").read_text())["ids"]
        (self.folder / "prompt.json").write_text(json.dumps({"ids": prompt[:3]}))
        salt = self.read("weights.json")["salt"]
        done = self.write("--code", HERE / "nemotron_h.py", "--greedy", "1", "--salts", salt)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("weights.json"), json.loads((FIXTURE / "weights.json").read_text()))
        expected = json.loads((FIXTURE / "expected.json").read_text())
        found = self.read("expected.json")
        self.assertEqual(found["vocab"], expected["vocab"])
        self.assertEqual(len(found["prompt"]), 3)
        for row, other in zip(found["prompt"], expected["prompt"], strict=False):
            self.assertEqual(row["position"], other["position"])
            self.assertEqual(row["ids"][:4], other["ids"][:4])
            self.assertAlmostEqual(row["logsumexp"], other["logsumexp"], delta=1e-3)
            for value, sum_of_original in zip(row["projections"], other["projections"], strict=True):
                self.assertAlmostEqual(value, sum_of_original, delta=1.6e-2)

    def test_weights_follow_from_shapes_and_near_ties_are_avoided(self):
        (self.folder / "config.json").write_text(json.dumps({"vocab_size": 48}))
        (self.folder / "code.py").write_text(ONE_MATRIX)
        done = self.write("--code", self.folder / "code.py", "--source", "this test")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        margins = [float(line.split("margin ")[1].split(",")[0]) for line in lines]
        self.assertGreaterEqual(margins[-1], 0.05)
        self.assertTrue(all(margin < 0.05 for margin in margins[:-1]), margins)
        weights = self.read("weights.json")
        self.assertEqual(weights["salt"], ["", *map(str, range(1, 20))][len(lines) - 1])
        head, bias, gain = weights["tensors"]
        self.assertEqual([gain["base"], bias["base"]], [1.0, 0.0])
        self.assertAlmostEqual(head["amplitude"], 2.4 * math.sqrt(3 / 48), delta=2e-3)
        self.assertEqual(len(self.read("prompt.json")["ids"]), 16)
        found, meta = self.read("expected.json"), self.read("meta.json")
        self.assertEqual(len(found["greedy_ids"]), 16)
        self.assertEqual(meta["source"], "this test")
        # The rows by the formula of the guide.
        matrix = list(seeded.elements(head, weights["salt"]))
        first = self.read("prompt.json")["ids"][0]
        logits = [7 * matrix[row * 48 + first] for row in range(48)]
        self.assertAlmostEqual(found["prompt"][0]["values"][0], max(logits), places=6)
        self.assertAlmostEqual(found["prompt"][0]["logsumexp"], math.log(sum(map(math.exp, logits))), places=6)

    def test_numbers_have_nine_bits(self):
        for value in (0.3, 1.7320508, 123.456, 2.4 / 7):
            rounded = write_fixture.with_nine_bits(value)
            self.assertAlmostEqual(rounded / value, 1, delta=2**-9)
            mantissa = math.frexp(rounded)[0] * 2**9
            self.assertEqual(mantissa, int(mantissa))


if __name__ == "__main__":
    unittest.main()
