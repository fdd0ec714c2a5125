#!/usr/bin/env python3
"""Starts a server, sends it random requests of all kinds for a long time, and checks every answer and what is left of it.

  bench/serve/soak.py                                       20,000 requests to three ranks: some minutes
  bench/serve/soak.py --requests 500 --seed 7
  bench/serve/soak.py --mpirun "" --program build/bin/tp-infer     without mpirun

Each request of a list is first answered alone. Then clients send them at the same time: as streams and as whole answers,
with readers that are slow, with clients that leave, and between them wrong bodies. With --same-bits every text must be the
one that was answered alone, and every wrong body must be refused. At the end no sequence runs, no block of the cache is in
use, no process has more descriptors than after the first tenth, and memory has grown by less than a twentieth and 8 MB since
then.
"""

import argparse
import asyncio
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from http_stream import HttpError, Server, events, pieces, read_head, request_json  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ["--same-bits", "--kv-store-min", "128", "--speculate", "ngram:4:always", "--max-sequences", "24",
           "--cache-tokens", "12000", "--prefill-chunk", "128", "--quiet"]  # fmt: skip

FIRST_USES = 8e6  # bytes that are allocated when something happens for the first time

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}}}  # fmt: skip
WRONG_BODIES = [
    b"",
    b"{",
    b"[]",
    b'{"prompt": "\xff"}',
    b'{"prompt": 3.5}',
    b'{"prompt": "a", "max_tokens": -1}',
    b'{"prompt": "a", "temperature": "hot"}',
    b'{"prompt": "a", "temperature": 1e999}',
    b'{"prompt": [1, 99999999]}',
    b'{"prompt": "a", "stop": [[]]}',
    b'{"prompt": "a", "n": 100000}',
    b'{"prompt": "' + b"word " * 5000 + b'"}',
    b'{"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 7}}}}',
    b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b"}",
]


def known_requests(source, count):
    """Endpoints and bodies without `stream`. Some prompts are long enough for the store, and have beginnings in common."""
    words = "once upon a time there was little girl boy dog who lived in the big house and liked to play with red ball".split()
    beginnings = [" ".join(source.choices(words, k=150)) for _ in range(4)]
    for number in range(count):
        text = " ".join(source.choices(words, k=source.randint(2, 60)))
        if number % 3 == 0:
            text = source.choice(beginnings) + " " + text
        sampling = {"temperature": source.choice([0, 0.7, 1.2]), "seed": number}
        messages = [{"role": "user", "content": text}]
        kind = number % 6
        if kind < 3:
            yield "/v1/completions", {"prompt": text, "max_tokens": source.randint(1, 60), "ignore_eos": number % 2 == 0, **sampling}
        elif kind == 3:
            # This API has no seed.
            yield "/v1/messages", {"model": "demo", "messages": messages, "max_tokens": source.randint(1, 60), "temperature": 0}
        elif kind == 4:
            yield "/v1/chat/completions", {"messages": messages, "max_tokens": 40, "n": 2, "logprobs": True, **sampling}
        else:
            shape = {"type": "object", "properties": {"name": {"enum": ["Tom", "Sue"]}, "old": {"type": "boolean"}},
                     "required": ["name", "old"], "additionalProperties": False}  # fmt: skip
            forms = [{"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": shape}}},
                     {"tools": [WEATHER], "tool_choice": "required"}]  # fmt: skip
            yield "/v1/chat/completions", {"messages": messages, "max_tokens": 60, **forms[number // 6 % 2], **sampling}


def texts_of(answer):
    """The texts and calls of a whole answer of each API, by choice."""
    if "content" in answer:
        return ["".join(part.get("text", "") for part in answer["content"])]
    result = []
    for choice in sorted(answer["choices"], key=lambda choice: choice["index"]):
        message = choice.get("message", choice)
        calls = [call["function"]["arguments"] for call in message.get("tool_calls") or []]
        result.append("".join([message.get("text") or message.get("content") or "", *calls]))
    return result


def add_event(texts, event):
    """Adds what a streamed event of any of the APIs brings."""
    if event.get("type") == "content_block_delta":
        texts[0] = texts.get(0, "") + event["delta"].get("text", "")
    for choice in event.get("choices", []):
        delta = choice.get("delta", choice)
        new = delta.get("text") or delta.get("content") or ""
        new += "".join(call["function"].get("arguments", "") for call in delta.get("tool_calls") or [])
        texts[choice["index"]] = texts.get(choice["index"], "") + new


class Processes:
    """The server's ranks: their memory and their open files."""

    def __init__(self, launched):
        self.launched = launched

    def ranks(self):
        family, found = {self.launched}, []
        for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda folder: int(folder.name)):
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                name = (folder / "comm").read_text().strip()
            except OSError:
                continue
            if parent in family or int(folder.name) == self.launched:
                family.add(int(folder.name))
                found += [folder] * (name == "tp-infer")
        return found

    def memory(self):
        """Bytes of its own, in all ranks."""
        return sum(1024 * int(re.search(r"^RssAnon:\s+(\d+)", (rank / "status").read_text(), re.M)[1]) for rank in self.ranks())

    def descriptors(self):
        return sum(len(list((rank / "fd").iterdir())) for rank in self.ranks())


class Soak:
    def __init__(self, options, server, processes):
        self.options, self.server, self.processes = options, server, processes
        self.source = random.Random(options.seed)
        self.known = list(known_requests(self.source, options.known))
        self.alone = []
        self.left = options.requests
        self.counts, self.faults = Counter(), []
        self.early, self.late = None, None

    async def run(self):
        for path, body in self.known:
            status, answer = await request_json(self.server, "POST", path, body)
            if status != 200:
                sys.exit(f"soak.py: {path}: status {status}: {answer}\nfor {json.dumps(body)}")
            self.alone.append(texts_of(answer))
        begin = time.monotonic()
        await asyncio.gather(self.watch(begin), *(self.client(random.Random(self.options.seed * 1000 + i)) for i in range(self.options.clients)))
        self.server.close()
        await self.check_rest()
        return time.monotonic() - begin

    async def client(self, source):
        while self.left > 0 and len(self.faults) < 20:
            self.left -= 1
            way = source.choices(["stream", "whole", "slow", "leaves", "wrong"], [5, 4, 1, 2, 1])[0]
            number = source.randrange(len(self.known))
            try:
                fault = await getattr(self, way)(number, source)
            except (HttpError, OSError) as error:
                fault = f"{type(error).__name__}: {error}"
            self.counts[way] += 1
            if fault:
                self.faults.append(f"{way}: {json.dumps(self.known[number])[:300]}: {fault}")

    async def whole(self, number, source):
        path, body = self.known[number]
        status, answer = await request_json(self.server, "POST", path, body)
        return self.difference(number, texts_of(answer)) if status == 200 else f"status {status}: {answer}"

    async def wrong(self, number, source):
        body = source.choice(WRONG_BODIES)
        connection = await self.server.connection()
        connection.writer.write(self.server.head("POST", "/v1/completions", body, {}) + body)
        try:
            status, headers = await read_head(connection.reader)
            text = b"".join([piece async for piece in pieces(connection, headers)])
        finally:
            connection.close()
        is_refused = 400 <= status < 500 and b'"error"' in text
        return "" if is_refused else f"expected a refusal of {body[:80]}, found {status}: {text[:200]}"

    async def stream(self, number, source, pause=0.0, events_to_read=None):
        path, body = self.known[number]
        content = json.dumps({**body, "stream": True}).encode()
        connection = await self.server.connection()
        texts = {}
        try:
            connection.writer.write(self.server.head("POST", path, content, {}) + content)
            status, headers = await read_head(connection.reader)
            if status != 200:
                return f"status {status}"
            read = 0
            async for data in events(pieces(connection, headers)):
                read += 1
                if read == events_to_read:
                    return ""
                if data != b"[DONE]":
                    add_event(texts, json.loads(data))
                if pause:
                    await asyncio.sleep(pause)
        finally:
            connection.close()
        return self.difference(number, [texts.get(index, "") for index in range(len(self.alone[number]))])

    def slow(self, number, source):
        return self.stream(number, source, pause=source.uniform(0.01, 0.1))

    def leaves(self, number, source):
        return self.stream(number, source, events_to_read=source.randint(1, 20))

    def difference(self, number, texts):
        return "" if texts == self.alone[number] else f"expected {self.alone[number]}, found {texts}"

    async def watch(self, begin):
        shown = time.monotonic()
        while self.left > 0 and len(self.faults) < 20:
            await asyncio.sleep(0.2)
            done = self.options.requests - self.left
            if self.early is None and done >= self.options.requests / 10:
                self.early = self.processes.memory(), self.processes.descriptors()
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                print(f"{done} of {self.options.requests} requests, {done / (shown - begin):.1f} a second, {len(self.faults)} faults, "
                      f"{self.processes.memory() / 1e6:.0f} MB", file=sys.stderr)  # fmt: skip

    async def gauges(self):
        connection = await self.server.connection()
        connection.writer.write(self.server.head("GET", "/metrics", b"", {}))
        _, headers = await read_head(connection.reader)
        text = b"".join([piece async for piece in pieces(connection, headers)]).decode()
        connection.close()
        return {match[1]: float(match[2]) for match in re.finditer(r"^tpinfer:(\w+)\{[^}]*\} (\S+)$", text, re.M)}

    async def check_rest(self):
        """Nothing is left of the requests."""
        for _ in range(100):
            gauges = await self.gauges()
            if gauges["num_requests_running"] == 0 and gauges.get("kv_store_waiting", 0) == 0:
                break
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)
        self.late = self.processes.memory(), self.processes.descriptors()
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_blocks_used", "kv_store_damaged_files_total"):
            if gauges.get(name, 0) != 0:
                self.faults.append(f"at the end {name} is {gauges[name]:g}, expected 0")
        if self.late[1] > self.early[1]:
            self.faults.append(f"at the end {self.late[1]} descriptors are open, {self.early[1]} were after a tenth")
        if not self.options.any_memory and self.late[0] > 1.05 * self.early[0] + FIRST_USES:
            self.faults.append(f"memory grew from {self.early[0] / 1e6:.1f} MB after a tenth to {self.late[0] / 1e6:.1f} MB")


async def wait_until_ready(server, launched, log):
    while launched.poll() is None:
        try:
            if (await request_json(server, "GET", "/health"))[0] == 200:
                return
        except OSError:
            pass
        await asyncio.sleep(0.2)
    sys.exit(f"soak.py: the server has ended with status {launched.returncode}:\n{Path(log).read_text()[-2000:]}")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20000, help="default %(default)s")
    parser.add_argument("--clients", type=int, default=16, help="requests under way at once (default %(default)s)")
    parser.add_argument("--known", type=int, default=120, help="different requests (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    parser.add_argument("--port", type=int, default=18081, help="default %(default)s")
    parser.add_argument("--program", default=str(ROOT / "build/bin/tp-infer"))
    parser.add_argument("--mpirun", default="mpirun -np 3 --oversubscribe --bind-to none --mca mpi_yield_when_idle 1")
    parser.add_argument("--any-memory", action="store_true", help="allow memory to grow: sanitizers keep what is freed")
    options = parser.parse_args()
    if min(options.requests, options.clients, options.known) < 1:
        parser.error("--requests, --clients and --known: expected at least 1")
    return options


def main():
    options = parse_options()
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    command = [*shlex.split(options.mpirun), options.program, "serve", *OPTIONS]
    with tempfile.TemporaryDirectory() as folder:
        log = f"{folder}/log"
        with open(log, "wb") as output:
            launched = subprocess.Popen([*command, "--port", str(options.port), "--kv-store", f"{folder}/store", "--pid-file", f"{folder}/pid"],
                                        stdout=output, stderr=output, stdin=subprocess.DEVNULL, env={**os.environ, **root})  # fmt: skip
        try:
            server = Server(f"http://127.0.0.1:{options.port}")
            soak = Soak(options, server, Processes(launched.pid))

            async def run():
                await wait_until_ready(server, launched, log)
                return await soak.run()

            seconds = asyncio.run(run())
        finally:
            if Path(f"{folder}/pid").exists():
                os.kill(int(Path(f"{folder}/pid").read_text()), signal.SIGTERM)
            try:
                launched.wait(60)
            except subprocess.TimeoutExpired:
                launched.kill()
                soak.faults.append("the server has not ended 60 s after SIGTERM")
    print(f"{sum(soak.counts.values())} requests in {seconds:.0f} s: {', '.join(f'{n} {way}' for way, n in sorted(soak.counts.items()))}")
    if soak.early and soak.late:
        print(f"memory of all ranks: {soak.early[0] / 1e6:.1f} MB after a tenth, {soak.late[0] / 1e6:.1f} MB at the end; "
              f"descriptors: {soak.early[1]} and {soak.late[1]}")  # fmt: skip
    for fault in soak.faults:
        print(fault)
    sys.exit(f"soak.py: {len(soak.faults)} faults (seed {options.seed})" if soak.faults else 0)


if __name__ == "__main__":
    main()
