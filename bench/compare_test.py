#!/usr/bin/env python3
"""Tests compare: what it reads, its interval on rates made up here, and the whole program with commands that print rates."""

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOADER = importlib.machinery.SourceFileLoader("compare", str(HERE / "compare"))
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", LOADER))
LOADER.exec_module(compare)


def rates(text, pattern=compare.DEFAULT_PATTERN):
    return compare.rates_of(text, pattern)


class Reading(unittest.TestCase):
    def test_rows_of_bench(self):
        text = ('{"phase": "prefill", "batch": 1, "prompt": 512, "tokens_per_s": 99.5}\n'
                '{"phase": "decode", "batch": 16, "prompt": 512, "tokens_per_s": 12}\n')
        self.assertEqual(rates(text), {"prefill:1:512": 99.5, "decode:16:512": 12})

    def test_rows_of_llama_bench(self):
        text = '[\n  {"n_prompt": 512, "n_gen": 0, "avg_ts": 10.5},\n  {"n_prompt": 0, "n_gen": 128, "avg_ts": 3.25}\n]\n'
        self.assertEqual(rates(text), {"pp512": 10.5, "tg128": 3.25})

    def test_the_median_of_rows_with_the_same_name(self):
        lines = "".join(json.dumps({"phase": "decode", "tokens_per_s": rate}) + "\n" for rate in (5, 100, 7))
        self.assertEqual(rates(lines), {"decode": 7})

    def test_texts(self):
        self.assertEqual(rates("generated 8 tokens: 12.5 tokens/s\n"), {"1": 12.5})
        self.assertEqual(rates("prompt: 100 t/s, then 7.25 tok/s"), {"1": 100, "2": 7.25})
        self.assertEqual(rates("( 31.2 ms per token, 32.05 tokens per second)"), {"1": 32.05})
        self.assertEqual(rates("speed=3.5;", r"speed=([0-9.]+)"), {"1": 3.5})
        self.assertEqual(rates("nothing here, {not JSON"), {})


class Interval(unittest.TestCase):
    def test_of_a_constant_ratio_has_no_width(self):
        ratio, least, most = compare.ratio_with_interval([10, 20, 40], [5, 10, 20])
        for value in (ratio, least, most):
            self.assertAlmostEqual(value, 2.0)

    def test_is_of_the_median_which_single_slow_runs_do_not_move(self):
        ratio, least, most = compare.ratio_with_interval([1.1, 1.2, 1.3, 1.4, 9.0], [1] * 5)
        self.assertEqual((ratio, least, most), (1.3, 1.1, 9.0))
        ratio, least, most = compare.ratio_with_interval([0.01, 0.98, 0.99, 1.0, 1.0, 1.01, 1.02, 50], [1] * 8)
        self.assertEqual((ratio, least, most), (1.0, 0.98, 1.02))

    def test_contains_the_median_with_a_probability_of_ninety_percent(self):
        # By the table of the sign test's critical values at 10 % on two sides.
        for turns, out in ((5, 0), (7, 0), (8, 1), (10, 1), (11, 2), (12, 2), (13, 3), (20, 5), (30, 10)):
            self.assertEqual(compare.left_out(turns), out, turns)


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def command(self, name, text):
        """One that prints this text, in which {n} is how often it has been run, and notes that it was."""
        script = Path(self.folder.name) / f"{name}.py"
        script.write_text(f"from pathlib import Path\nlog = Path({self.folder.name!r}) / 'log'\n"
                          f"with log.open('a') as file: file.write({name!r} + '\\n')\n"
                          f"n = log.read_text().split().count({name!r})\n{text}\n")
        return f"{sys.executable} {script}"

    def run_compare(self, *arguments):
        return subprocess.run([str(HERE / "compare"), *arguments], capture_output=True, text=True)

    def test_runs_both_in_turns_and_leaves_out_the_first(self):
        # The machine becomes faster with every run, and the first run of a program is very slow.
        first = self.command("one", "print(1 if n == 1 else 20 * 2 ** n, 'tokens/s')")
        second = self.command("two", "print(1000 if n == 1 else 10 * 2 ** n, 'tokens/s')")
        done = self.run_compare(first, second, "--turns", "3", "--names", "new,old", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)
        self.assertEqual((row["ratio"], row["least"], row["most"], row["turns"]), (2, 2, 2, 3))
        self.assertEqual((row["new"], row["old"]), (160, 80))
        log = (Path(self.folder.name) / "log").read_text().split()
        self.assertEqual(log, ["one", "two", "two", "one", "one", "two", "two", "one"])

    def test_compares_rows_of_other_names_if_told_to(self):
        first = self.command("one", "print('{\"phase\": \"decode\", \"batch\": 1, \"prompt\": 8, \"tokens_per_s\": 30}')")
        second = self.command("two", "print('[{\"n_gen\": 64, \"avg_ts\": 10}]')")
        done = self.run_compare(first, second, "--turns", "2", "--rows", "decode:1:8=tg64")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("decode:1:8 / tg64", done.stdout)
        self.assertIn("3.000  3.000 to 3.000", done.stdout)
        done = self.run_compare(first, second, "--turns", "2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no rows have the same name: the first has decode:1:8, the second tg64; give --rows A=B", done.stderr)

    def test_elapsed_measures_whole_runs(self):
        first = self.command("one", "print('1 tokens/s')")
        second = self.command("two", "import time; time.sleep(1.5)")
        done = self.run_compare(first, second, "--turns", "2", "--elapsed", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        row = json.loads(done.stdout)
        self.assertEqual(row["row"], "runs/s")
        self.assertLess(row["B"], 1 / 1.5)  # on a machine of any load

    def test_says_what_is_wrong(self):
        good = self.command("one", "print('5 tokens/s')")
        silent = self.command("two", "pass")
        failing = self.command("three", "raise SystemExit('out of memory')")
        for arguments, text in (((good, silent), "expected a rate in tokens/s in what it prints, found none; give --pattern"),
                                ((good, failing), "expected status 0, found 1; it says:\nout of memory"),
                                ((good, "/no/such/program"), "cannot run /no/such/program: No such file or directory"),
                                ((good, good, "--turns", "1"), "--turns: an interval needs at least 2 turns"),
                                ((good, good, "--pattern", "x"), "--pattern: expected one group, the tokens/s"),
                                ((good, good, "--turns", "2", "--rows", "9=1"), "there is no row 9; there are 1")):
            done = self.run_compare(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
