#!/usr/bin/env python3
"""Sends requests to an OpenAI-compatible server and reports latencies and throughput, as `vllm bench serve` defines them.

  bench/serve/load.py --requests 64 --clients 16                         # always 16 requests under way
  bench/serve/load.py --requests 64 --rate 2                             # 2 a second, at random times
  bench/serve/load.py --url http://localhost:8000 --prompts my.jsonl --chat
  bench/serve/load.py --requests 100 --rate 4 --goodput ttft:500 tpot:50 --json result.json

Every complete answer must have as many tokens as it was asked for (`ignore_eos`); otherwise nothing is reported, because
answers of different lengths do not compare.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from http_stream import HttpError, Server, events, pieces, read_head, request_json  # noqa: E402
from statistics_of_load import METRICS, Answer, summary, table, wrong_lengths  # noqa: E402
from workload import Workload  # noqa: E402


def objective(text):
    metric, _, limit = text.partition(":")
    try:
        value = float(limit)
    except ValueError:
        value = -1.0
    if metric not in METRICS or metric == "itl" or value <= 0:
        raise argparse.ArgumentTypeError(f"expected ttft:MS, tpot:MS or e2el:MS, found {text!r}")
    return metric, value


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, found {text}")
    return value


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the server (default %(default)s)")
    parser.add_argument("--key", help="its API key")
    parser.add_argument("--model", help="default: the first of /v1/models")
    parser.add_argument("--requests", type=positive, help="default: 32, or all lines of --prompts")
    arrivals = parser.add_argument_group("arrivals")
    arrivals.add_argument("--clients", type=positive, help="requests under way at once (default 8; with --rate: any number)")
    arrivals.add_argument("--rate", type=float, help="requests per second, whether or not earlier ones have ended")
    arrivals.add_argument("--arrivals", choices=["poisson", "constant"], default="poisson",
                          help="with --rate (default %(default)s)")
    prompts = parser.add_argument_group("prompts")
    prompts.add_argument("--prompt-tokens", type=positive, default=128, help="default %(default)s")
    prompts.add_argument("--shared-prefix-tokens", type=int, default=0, help="of the prompt tokens, the same in all requests")
    prompts.add_argument("--output-tokens", type=positive, default=64, help="of every answer (default %(default)s)")
    prompts.add_argument("--prompts", metavar="FILE", help='lines {"prompt": "..."} or {"messages": [...]}, and "output_tokens"')
    prompts.add_argument("--stop-at-eos", action="store_true", help="let answers end earlier; lengths are then not compared")
    form = prompts.add_mutually_exclusive_group()
    form.add_argument("--chat", action="store_true", help="/v1/chat/completions")
    form.add_argument("--completions", dest="chat", action="store_false", help="/v1/completions (default)")
    parser.add_argument("--temperature", type=float, default=0.0, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of prompts and arrivals (default %(default)s)")
    parser.add_argument("--warmup", type=int, default=1, metavar="N", help="requests before the clock starts (default %(default)s)")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S", help="of a request, and of all preparations (default %(default)s)")
    parser.add_argument("--goodput", nargs="+", type=objective, default=[], metavar="METRIC:MS", help="such as ttft:500 tpot:50")
    parser.add_argument("--json", metavar="FILE", help="writes the figures, and the times of every request")
    options = parser.parse_args(arguments)
    if options.shared_prefix_tokens > options.prompt_tokens:
        parser.error("--shared-prefix-tokens: expected at most --prompt-tokens")
    if options.rate is not None and options.rate <= 0:
        parser.error("--rate: expected more than 0 requests per second")
    if options.clients is None and options.rate is None:
        options.clients = 8
    return options


async def send(server, request, answer):
    """(connection, status, headers). Tries again if the server has closed a connection that was kept from an earlier request."""
    while True:
        connection = await server.connection()
        answer.sent = time.perf_counter()
        try:
            connection.writer.write(request)
            await connection.writer.drain()
            return connection, *await read_head(connection.reader)
        except (HttpError, OSError):
            connection.close()
            if not connection.used:
                raise
        except BaseException:
            connection.close()
            raise


async def stream_answer(server, path, body, answer, number):
    """Sends a request and notes when its chunks arrive. A status that is an error, or an error in the stream, is a failure."""
    content = json.dumps(body).encode()
    head = server.head("POST", path, content, {"X-Request-Id": f"load-{number}"})
    connection, status, headers = await send(server, head + content, answer)
    try:
        if status != 200:
            answer.failure = str(status)
            answer.detail = b"".join([piece async for piece in pieces(connection, headers)])[:500].decode(errors="replace")
        else:
            await read_chunks(pieces(connection, headers), answer)
    except BaseException:
        connection.close()
        raise
    server.put_back(connection)


async def read_chunks(body, answer):
    finished = False
    async for data in events(body):
        if data == b"[DONE]":
            finished = True
            continue
        now = time.perf_counter()
        chunk = json.loads(data)
        if "error" in chunk:
            answer.failure = "error in the stream"
            answer.detail = json.dumps(chunk["error"])[:500]
        if chunk.get("choices"):
            answer.chunks.append(now)
        if usage := chunk.get("usage"):
            answer.prompt_tokens = usage.get("prompt_tokens", 0)
            answer.output_tokens = usage.get("completion_tokens", 0)
            answer.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    if answer.failure:
        return
    if not finished or not answer.chunks:
        raise HttpError("the stream ended without [DONE]")
    if answer.output_tokens == 0:
        answer.failure = "no usage"
        answer.detail = "expected a chunk with `usage`, because of stream_options.include_usage, found none"


async def ask(server, options, item, number):
    """An Answer, whatever happens."""
    answer = Answer(expected_tokens=item.output_tokens)
    answer.sent = time.perf_counter()
    path = "/v1/chat/completions" if options.chat else "/v1/completions"
    body = {
        "model": options.model,
        **item.prompt,
        "max_tokens": item.output_tokens,
        "temperature": options.temperature,
        "ignore_eos": not options.stop_at_eos,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    try:
        await asyncio.wait_for(stream_answer(server, path, body, answer, number), options.timeout)
    except asyncio.TimeoutError:
        answer.failure = "timeout"
    except (HttpError, OSError, ValueError) as error:
        answer.failure = "connection lost" if answer.chunks else "no answer"
        answer.detail = str(error)
    answer.finished = time.perf_counter()
    return answer


def arrival_times(options, number):
    """Seconds after the start at which requests are sent; zeros without --rate."""
    if options.rate is None:
        return [0.0] * number
    if options.arrivals == "constant":
        return [i / options.rate for i in range(number)]
    draw = random.Random(f"arrivals {options.seed}")
    times = [0.0]
    while len(times) < number:
        times.append(times[-1] + draw.expovariate(options.rate))
    return times


async def run(server, options, workload):
    """(answers, start, duration), in seconds of time.perf_counter. The prompts are made before the clock starts."""
    for i in range(options.warmup):
        # With prompts of its own, so that it leaves nothing in the prefix cache that the others would find.
        answer = await ask(server, options, workload.item(-1 - i), f"warmup-{i}")
        if answer.failure:
            raise SystemExit(f"load.py: the first request failed: {answer.failure} {answer.detail}")
    items = [workload.item(i) for i in range(options.requests)]
    free = asyncio.Semaphore(options.clients or len(items))
    begun = time.perf_counter()

    async def one(number, at):
        await asyncio.sleep(max(begun + at - time.perf_counter(), 0))
        async with free:
            return await ask(server, options, items[number], number)

    answers = await asyncio.gather(*(one(i, at) for i, at in enumerate(arrival_times(options, len(items)))))
    return answers, begun, time.perf_counter() - begun


async def first_model(server):
    status, body = await request_json(server, "GET", "/v1/models")
    if status != 200 or not (body or {}).get("data"):
        raise SystemExit(f"load.py: GET /v1/models answered {status}; give --model")
    return body["data"][0]["id"]


async def prepare(server, options):
    options.model = options.model or await first_model(server)
    return await Workload.make(server, options)


async def measure(options):
    server = Server(options.url, options.key)
    try:
        workload = await asyncio.wait_for(prepare(server, options), options.timeout)
        return await run(server, options, workload)
    except (HttpError, OSError, asyncio.TimeoutError) as error:
        raise SystemExit(f"load.py: no answer from {options.url}: {str(error) or 'timeout'}; is the server running?") from error
    finally:
        server.close()


def write_json(options, result, answers, begun):
    per_request = [
        {
            "sent": answer.sent - begun,
            "chunks": [time - begun for time in answer.chunks],
            "finished": answer.finished - begun,
            "prompt_tokens": answer.prompt_tokens,
            "output_tokens": answer.output_tokens,
            "failure": answer.failure,
        }
        for answer in answers
    ]
    used = {name: value for name, value in vars(options).items() if name != "key"}
    everything = {**result, "options": used, "requests": per_request}
    Path(options.json).write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


def main():
    options = parse_options()
    answers, begun, duration = asyncio.run(measure(options))
    for detail in sorted({f"{answer.failure}: {answer.detail}" for answer in answers if answer.failure})[:5]:
        print(f"load.py: failed: {detail}", file=sys.stderr)
    wrong = [] if options.stop_at_eos else wrong_lengths(answers)
    if wrong:
        found = sorted({answer.output_tokens for answer in wrong})
        sys.exit(
            f"load.py: {len(wrong)} of {len(answers)} answers have another length than the {wrong[0].expected_tokens} "
            f"tokens they were asked for, such as {found[0]}, so their times would not compare. The server must accept "
            "`ignore_eos`, and prompt and answer must fit its context; or give --stop-at-eos"
        )
    result = summary(answers, duration, dict(options.goodput))
    if options.json:
        write_json(options, result, answers, begun)
    print(table(result))
    sys.exit(0 if result["completed"] > 0 else 1)


if __name__ == "__main__":
    main()
