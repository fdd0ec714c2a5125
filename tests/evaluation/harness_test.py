#!/usr/bin/env python3
"""Log-likelihoods and texts as EleutherAI's lm-evaluation-harness gets them from `tp-infer serve`, on two ranks. Each score is
computed a second time from the logits that `tp-infer logits` writes on one rank.

  tests/evaluation/harness_test.py build/bin/tp-infer mpirun [HARNESS]   HARNESS: a folder with the harness's package lm_eval
  tests/evaluation/harness_test.py build/bin/tp-infer mpirun HARNESS --record   writes requests.json again

Without the harness, the requests that it sent are sent again, and their answers are read as it reads them. Needs Python 3
alone; the harness needs aiohttp, jinja2, numpy, requests, tenacity, tqdm, typing_extensions and yaml."""

import json
import math
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from importlib.util import find_spec
from pathlib import Path

RECORDED = Path(__file__).resolve().parent / "requests.json"
BOS, EOS = 0, 1  # the demo model's
PREFIX = EOS  # prefix of texts without a context: the harness would use BOS, but it mistakes the id 0 for a missing token
EXACT = ["--weights", "f32", "--kv-type", "f32"]
CONTEXT = 128  # tokens of the server's longest sequence
START = "Once upon a time"
PAIRS = [(START, ", there was a little girl"), ("The cat was", " happy."), ("The cat was ", "happy."),
         ("Tom saw a ball.", " zzzz"), ("", "One day"), (START + ", there", " was")]

program, mpirun = str(Path(sys.argv[1]).resolve()), sys.argv[2]
harness = Path(sys.argv[3]) if len(sys.argv) > 3 else None
missing = [name for name in ("aiohttp", "jinja2", "numpy", "requests", "tenacity", "tqdm",
                               "typing_extensions", "yaml") if not find_spec(name)]


def run(*arguments, text=""):
    return subprocess.run([program, *arguments], input=text, capture_output=True, text=True, check=True).stdout


class Reference:
    """Scores from the logits of one rank."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.known = {}

    def ids(self, text):
        return json.loads(run("tokenize", "--model", model(), "--jsonl", "--no-special", text=json.dumps(text)))

    def logprobs(self, ids):
        """The log-probability of each token but the first, and whether it is the likeliest."""
        if tuple(ids) not in self.known:
            self.write_logits(ids)
            self.known[tuple(ids)] = [score(row, token) for row, token in zip(self.rows(), ids[1:])]
        return self.known[tuple(ids)]

    def write_logits(self, ids):
        (self.folder / "ids.json").write_text(json.dumps(ids))
        run("logits", *EXACT, "--tokens", str(self.folder / "ids.json"), "--output", str(self.folder / "logits.npy"))

    def rows(self):
        data = (self.folder / "logits.npy").read_bytes()
        begin = 10 + struct.unpack("<H", data[8:10])[0]
        rows, columns = map(int, re.search(rb"\((\d+), (\d+)\)", data[:begin]).groups())
        return [struct.unpack_from(f"<{columns}f", data, begin + 4 * columns * row) for row in range(rows)]

    def continuation(self, ids, context):
        """The sum of the log-probabilities after `context` tokens, and whether each of them is the likeliest."""
        scores = self.logprobs(ids)[context - 1 :]
        return sum(one for one, _ in scores), all(greedy for _, greedy in scores)


    def greedy(self, ids, count):
        """The text of the likeliest tokens."""
        begin = len(ids)
        while len(ids) < begin + count:
            self.write_logits(ids)
            row = self.rows()[-1]
            ids = [*ids, row.index(max(row))]
        return run("detokenize", "--model", model(), "--skip-special", text=json.dumps(ids[begin:])).rstrip("\n")


def score(row, token):
    largest = max(row)
    return row[token] - largest - math.log(sum(math.exp(x - largest) for x in row)), row[token] == largest


def model():
    return str(Path(program).parent.parent / "share/tp-infer/demo")


class Server:
    def __init__(self, folder, has_gateway):
        command = [mpirun, "--oversubscribe", "-np", "2", program, "serve", "--max-length", str(CONTEXT), *EXACT]
        if has_gateway:
            command, ready = [program, "gateway", "--port", "0", "--", *command], r"listening at (http://[^/]+)[^$]*is ready"
        else:
            command, ready = [*command, "--port", "0"], r"API\s+(http://\S+)/v1"
        log = Path(folder) / "log"
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        while not (place := re.search(ready, log.read_text())):
            if self.process.poll() is not None:
                raise RuntimeError("the server ended: " + log.read_text())
            time.sleep(0.05)
        self.url = place.group(1)

    def post(self, path, body):
        head = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, json.dumps(body).encode(), head)) as reply:
            return json.load(reply)

    def close(self):
        self.process.terminate()
        self.process.wait()


class Case(unittest.TestCase):
    has_gateway = False

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.reference = Reference(cls.folder.name)
        cls.server = Server(cls.folder.name, cls.has_gateway)
        cls.addClassCleanup(cls.server.close)

    def expect(self, found, expected):
        self.assertAlmostEqual(found[0], expected[0], delta=2e-4 * max(1, -expected[0]))
        self.assertEqual(found[1], expected[1])


class Recorded(Case):
    """Replays recorded requests of the harness. It sums token_logprobs[context:-1], because the last entry belongs to a generated token."""

    def test_scores(self):
        recorded = json.loads(RECORDED.read_text())
        for request in recorded["scores"]:
            answer = self.server.post("/v1/completions", request["body"])
            choices = sorted(answer["choices"], key=lambda choice: choice["index"])
            for ids, context, choice in zip(request["body"]["prompt"], request["contexts"], choices):
                lists = choice["logprobs"]
                self.assertEqual({len(lists[name]) for name in lists}, {len(ids) + 1})
                greedy = all(one == max(top.values()) for one, top in
                             zip(lists["token_logprobs"][context:-1], lists["top_logprobs"][context:-1]))
                self.expect((sum(lists["token_logprobs"][context:-1]), greedy), self.reference.continuation(ids, context))
                self.assertTrue(all(0 <= place <= len(choice["text"]) for place in lists["text_offset"]))

    def test_an_end_token_after_an_improbable_token_is_scored(self):
        requests = json.loads(RECORDED.read_text())["scores"]
        self.assertTrue(any(self.ends(ids) for request in requests for ids in request["body"]["prompt"]))

    def ends(self, ids):
        """Whether the end token is the likeliest one after these ids, whose last one is not."""
        scores = self.reference.logprobs(ids)
        answer = self.server.post("/v1/completions", {"prompt": ids, "max_tokens": 1, "temperature": 0})
        return answer["choices"][0]["finish_reason"] == "stop" and scores[-1][0] < -5


class RecordedThroughGateway(Recorded):
    has_gateway = True


@unittest.skipUnless(harness, "the harness is not on this machine: give its folder, or set TP_LM_EVAL for CMake")
@unittest.skipIf(harness and missing, f"Python's modules {', '.join(missing)} are missing")
class Harness(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        sys.path.insert(0, str(harness))
        from lm_eval.api.instance import Instance
        from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI
        cls.instance, cls.completions, cls.chats = Instance, LocalCompletionsAPI, LocalChatCompletion
        text = cls.story()
        cls.pairs = [*PAIRS, (text[:60], text[60:])]
        cls.sent = []

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        if "--record" in sys.argv:
            scores = [one for one in cls.sent if "contexts" in one and isinstance(one["body"]["prompt"][0], list)]
            lines = ",\n".join(json.dumps(one) for one in scores)
            RECORDED.write_text(f'{{"scores": [\n{lines}\n]}}\n')

    @classmethod
    def story(cls):
        """A story to the end token, and an ending that the model does not expect, after which it ends again."""
        answer = cls.server.post("/v1/completions", {"prompt": "Tom had a red ball.", "max_tokens": 110, "temperature": 0})
        return "Tom had a red ball." + answer["choices"][0]["text"] + " The end."

    def api(self, kind=None, path="/v1/completions", **options):
        kind = kind or self.completions
        options = {"tokenizer_backend": "remote", "max_length": CONTEXT, "max_retries": 1, **options}
        api = kind(base_url=self.server.url + path, model="demo", **options)
        parse = api.parse_logprobs
        create = api._create_payload

        def noted(messages, **keywords):
            self.sent.append({"body": create(messages, **keywords)})
            return self.sent[-1]["body"]

        def parsed(outputs, tokens=None, ctxlens=None, **keywords):
            self.sent[-1]["contexts"] = ctxlens
            return parse(outputs, tokens=tokens, ctxlens=ctxlens, **keywords)

        if options.get("num_concurrent", 1) == 1:
            api._create_payload, api.parse_logprobs = noted, parsed
        return api

    def requests(self, kind, arguments):
        return [self.instance(request_type=kind, doc={}, arguments=one, idx=i) for i, one in enumerate(arguments)]

    def expected(self, context, continuation):
        """The harness puts the spaces at the end of a context into the continuation, and a control token into an empty one."""
        ids = self.reference.ids(context + continuation)
        if not context:
            return self.reference.continuation([PREFIX, *ids], 1)
        return self.reference.continuation(ids, len(self.reference.ids(context.rstrip())))

    def test_loglikelihood(self):
        for options in [{"batch_size": 1}, {"batch_size": 4}, {"batch_size": 2, "num_concurrent": 3}]:
            with self.subTest(**options):
                found = self.api(**options).loglikelihood(self.requests("loglikelihood", self.pairs))
                for one, pair in zip(found, self.pairs, strict=True):
                    self.expect(one, self.expected(*pair))

    def test_loglikelihood_of_texts(self):
        """The server begins texts with BOS, for which the harness does not allow: it sums one token too many."""
        pairs = [pair for pair in self.pairs if pair[0]]
        found = self.api(tokenized_requests=False).loglikelihood(self.requests("loglikelihood", pairs))
        for one, (context, continuation) in zip(found, pairs, strict=True):
            ids = self.reference.ids(context + continuation)
            self.expect(one, self.reference.continuation([BOS, *ids], len(self.reference.ids(context.rstrip()))))

    def test_rolling(self):
        """A text longer than the context. Windows overlap by one token, and nothing is scored twice."""
        text = " ".join([self.story()] * 3)
        ids = self.reference.ids(text)
        self.assertGreater(len(ids), 2 * CONTEXT)
        found = self.api(batch_size=4).loglikelihood_rolling(self.requests("loglikelihood_rolling", [(text,)]))
        size, expected = CONTEXT - 2, 0.0
        for begin in range(0, len(ids), size):
            end = min(begin + size, len(ids))
            window = [PREFIX, *ids[:end]] if begin == 0 else ids[end - size - 1 : end]
            expected += self.reference.continuation(window, len(window) - (end - begin))[0]
        self.assertAlmostEqual(found[0], expected, delta=2e-4 * -expected)

    def test_texts_until_a_stop(self):
        until = {"until": ["."], "max_gen_toks": 12}
        for ids in (True, False):
            found = self.api(tokenized_requests=ids).generate_until(self.requests("generate_until", [(START, until)]))
            begin = self.reference.ids(START)
            self.assertEqual(found, [self.reference.greedy(begin if ids else [BOS, *begin], 12).split(".")[0]])

    def test_chats(self):
        chat = [{"role": "user", "content": "Tell me a story."}]
        api = self.api(self.chats, "/v1/chat/completions", tokenizer_backend=None, eos_string="<|end|>")
        found = api.generate_until(self.requests("generate_until", [(api.apply_chat_template(chat), {"max_gen_toks": 8})]))
        messages = json.dumps({"messages": chat, "add_generation_prompt": True})
        ids = json.loads(run("render-chat", "--model", model(), "--messages", "-", "--ids", text=messages))
        self.assertEqual(found, [self.reference.greedy(ids, 8)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
