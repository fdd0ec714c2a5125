#!/usr/bin/env python3
"""Tests load.py: its definitions on times made up here, and the whole program against tests/page/mock_server.mjs. Nothing
depends on how fast this machine is: measured times are compared with lower bounds and with each other."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from load import arrival_times, parse_options  # noqa: E402
from statistics_of_load import Answer, max_at_once, meets, percentile, summary, table, wrong_lengths  # noqa: E402

MOCK = HERE.parent.parent / "tests/page/mock_server.mjs"
NODE = shutil.which("node") or shutil.which("nodejs")
FIRST_MS, TOKEN_MS = 30, 4
EARLY = 1e-3  # by which a timer may be early


def answer(sent, chunks, tokens, **more):
    return Answer(sent=sent, chunks=chunks, finished=chunks[-1], output_tokens=tokens, expected_tokens=tokens, **more)


class Definitions(unittest.TestCase):
    def test_times_of_one_answer(self):
        one = answer(10.0, [10.5, 10.6, 10.8, 10.9], 4)
        self.assertAlmostEqual(one.ttft, 0.5)
        self.assertAlmostEqual(one.e2el, 0.9)
        self.assertAlmostEqual(one.tpot, 0.4 / 3)
        self.assertAlmostEqual(sum(one.gaps), 0.4)

    def test_an_answer_of_one_token_has_no_time_per_token(self):
        one = answer(0.0, [0.5], 1)
        self.assertIsNone(one.tpot)
        self.assertNotIn("mean_tpot_ms", summary([one], 1.0))
        self.assertTrue(meets(one, {"tpot": 1}))

    def test_chunks_of_several_tokens_do_not_change_the_time_per_token(self):
        self.assertAlmostEqual(answer(0.0, [1.0, 3.0], 5).tpot, answer(0.0, [1.0, 1.5, 2.0, 2.5, 3.0], 5).tpot)

    def test_percentiles_are_interpolated(self):
        self.assertEqual(percentile([4, 1, 3, 2], 50), 2.5)
        self.assertAlmostEqual(percentile(list(range(11)), 99), 9.9)
        self.assertEqual(percentile([7], 90), 7)

    def test_throughput_is_over_the_whole_run(self):
        run = [answer(0.0, [1.0, 2.0], 2, prompt_tokens=10), answer(1.0, [3.0, 4.0], 2, prompt_tokens=30)]
        result = summary(run, 8.0)
        self.assertEqual(result["request_throughput"], 0.25)
        self.assertEqual(result["output_throughput"], 0.5)
        self.assertEqual(result["total_token_throughput"], 5.5)
        self.assertEqual(result["mean_ttft_ms"], 1500)
        self.assertEqual(result["median_e2el_ms"], 2500)

    def test_goodput_counts_answers_that_meet_every_objective(self):
        run = [answer(0.0, [0.1, 0.2], 2), answer(0.0, [0.1, 0.9], 2), answer(0.0, [0.8, 0.9], 2)]
        self.assertEqual(summary(run, 2.0, {"ttft": 500, "tpot": 500})["request_goodput"], 0.5)
        self.assertNotIn("request_goodput", summary(run, 2.0))

    def test_failures_are_counted_and_do_not_enter_the_times(self):
        run = [answer(0.0, [1.0, 2.0], 2), Answer(failure="429"), Answer(failure="429"), Answer(failure="timeout")]
        result = summary(run, 2.0)
        self.assertEqual(result["completed"], 1)
        self.assertEqual(result["failed"], {"429": 2, "timeout": 1})
        self.assertEqual(result["mean_ttft_ms"], 1000)
        self.assertIn("Failed requests", table(result))

    def test_requests_at_once(self):
        spans = [Answer(sent=0, finished=2), Answer(sent=1, finished=3), Answer(sent=2, finished=4)]
        self.assertEqual(max_at_once(spans), 2)

    def test_other_lengths_than_asked_for_are_found(self):
        short = Answer(output_tokens=3, expected_tokens=4)
        self.assertEqual(wrong_lengths([short, answer(0.0, [1.0], 1), Answer(failure="500")]), [short])

    def test_arrivals(self):
        constant = arrival_times(parse_options(["--rate", "4", "--arrivals", "constant"]), 3)
        self.assertEqual(constant, [0.0, 0.25, 0.5])
        poisson = arrival_times(parse_options(["--rate", "4"]), 4001)
        self.assertEqual(poisson, arrival_times(parse_options(["--rate", "4"]), 4001))
        self.assertEqual(poisson, sorted(poisson))
        self.assertAlmostEqual(poisson[-1], 1000, delta=100)  # six standard deviations of the sum
        self.assertNotEqual(poisson, arrival_times(parse_options(["--rate", "4", "--seed", "1"]), 4001))


@unittest.skipUnless(NODE, "node is not installed (apt-get install nodejs)")
class AgainstMock(unittest.TestCase):
    def setUp(self):
        command = [NODE, MOCK, "--first-ms", str(FIRST_MS), "--token-ms", str(TOKEN_MS)]
        self.mock = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self.mock.stdout.readline().strip()
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.mock.kill()
        self.mock.wait()
        self.mock.stdout.close()
        self.folder.cleanup()

    def load(self, *arguments):
        self.file = Path(self.folder.name) / "result.json"
        command = [sys.executable, HERE / "load.py", "--url", self.url, "--json", self.file, *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def result(self, *arguments):
        done = self.load(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(self.file.read_text(encoding="utf-8"))

    def records(self):
        with urllib.request.urlopen(f"{self.url}/mock/records") as response:
            return [record for record in json.load(response) if not record["id"].startswith("load-warmup")]

    def test_times_are_those_of_the_server(self):
        result = self.result("--requests", "6", "--clients", "2", "--output-tokens", "20", "--prompt-tokens", "30")
        self.assertEqual(result["completed"], 6)
        self.assertLessEqual(result["max_concurrent_requests"], 2)
        self.assertEqual(result["total_output_tokens"], 6 * 20)
        self.assertEqual(result["total_input_tokens"], 6 * 30)
        for request in result["requests"]:
            ttft = request["chunks"][0] - request["sent"]
            e2el = request["chunks"][-1] - request["sent"]
            self.assertGreaterEqual(ttft, FIRST_MS / 1000 - EARLY)
            self.assertGreaterEqual(e2el, (FIRST_MS + 20 * TOKEN_MS) / 1000 - 21 * EARLY)
            self.assertEqual(len(request["chunks"]), 21)  # a token each, and the finish reason
            self.assertLessEqual(request["chunks"][-1], request["finished"])
        self.assertEqual([len(record["chunks"]) for record in self.records()], [20] * 6)
        mean = sum(request["chunks"][0] - request["sent"] for request in result["requests"]) / 6
        self.assertAlmostEqual(result["mean_ttft_ms"], 1000 * mean, places=6)

    def test_prompts_share_a_prefix_and_nothing_else(self):
        self.result("--requests", "4", "--output-tokens", "2", "--prompt-tokens", "40", "--shared-prefix-tokens", "25")
        prompts = [record["prompt"] for record in self.records()]
        self.assertEqual({len(prompt) for prompt in prompts}, {40})
        self.assertEqual(len({tuple(prompt[:25]) for prompt in prompts}), 1)
        self.assertEqual(len({tuple(prompt[25:]) for prompt in prompts}), 4)

    def test_a_constant_rate_sends_no_request_early(self):
        result = self.result("--requests", "5", "--rate", "20", "--arrivals", "constant", "--output-tokens", "2", "--chat")
        for number, request in enumerate(result["requests"]):
            self.assertGreaterEqual(request["sent"], number / 20 - EARLY)

    def test_refused_requests_are_counted_by_status(self):
        prompts = Path(self.folder.name) / "prompts.jsonl"
        lines = [{"prompt": "a story"}, {"prompt": "refuse this"}, {"prompt": "break off"}]
        prompts.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        result = self.result("--prompts", prompts, "--output-tokens", "30", "--warmup", "0")
        self.assertEqual(result["completed"], 1)
        self.assertEqual(result["failed"], {"400": 1, "connection lost": 1})

    def test_answers_of_another_length_are_not_reported(self):
        prompts = Path(self.folder.name) / "prompts.jsonl"
        prompts.write_text('{"messages": [{"role": "user", "content": "markdown"}]}\n', encoding="utf-8")
        done = self.load("--prompts", prompts, "--output-tokens", "3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("another length than the 3 tokens", done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertFalse(self.file.exists())

    def test_a_server_that_is_not_there_is_an_error_in_words(self):
        self.mock.kill()
        self.mock.wait()
        done = self.load("--requests", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is the server running?", done.stderr)


if __name__ == "__main__":
    unittest.main()
