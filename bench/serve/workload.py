"""Prompts of a load test: random prompts of a given number of tokens, or the lines of a file."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

from http_stream import request_json

# Common words, most of them one token in most vocabularies.
WORDS = (
    "the of and to in is that it was for on are with as his they at be this from have or by one had not but what all were "
    "when we there can an your which their said if do will each about how up out them then she many some so these would "
    "other into has more her two like him see time could no make than first been its who now people my made over did down "
    "only way find use may water long little very after words called just where most know get through back much before go "
    "good new write our used me man too any day same right look think also around another came come work three word must "
    "because does part even place well such here take why things help put years different away again off went old number"
).split()


@dataclass
class Item:
    prompt: dict  # {"prompt": ...} or {"messages": [...]}
    output_tokens: int


class Workload:
    """item(i) is the same for the same seed, whatever else is asked for. Negative numbers are for the warm-up."""

    def __init__(self, options, ids, lines):
        self.options = options
        self.ids = ids  # token ids to draw from; empty: words
        self.lines = lines

    @staticmethod
    async def make(server, options):
        if options.prompts:
            lines = read_lines(options.prompts)
            options.requests = options.requests or len(lines)
            options.chat = options.chat or "messages" in lines[0]
            return Workload(options, [], lines)
        options.requests = options.requests or 32
        ids = [] if options.chat else await vocabulary(server, options.model)
        return Workload(options, ids, [])

    def item(self, number):
        if self.lines:
            return self.line(self.lines[number % len(self.lines)])
        shared = self.draw("shared", self.options.shared_prefix_tokens)
        own = self.draw(number, self.options.prompt_tokens - len(shared))
        tokens = shared + own
        prompt = tokens if self.ids else " ".join(tokens)
        return Item(self.in_form(prompt), self.options.output_tokens)

    def draw(self, name, number):
        source = random.Random(f"{self.options.seed} {name}")
        return source.choices(self.ids or WORDS, k=number)

    def line(self, line):
        tokens = line.get("output_tokens", self.options.output_tokens)
        if "messages" in line:
            return Item({"messages": line["messages"]}, tokens)
        return Item(self.in_form(line["prompt"]), tokens)

    def in_form(self, prompt):
        return {"messages": [{"role": "user", "content": prompt}]} if self.options.chat else {"prompt": prompt}


def read_lines(path):
    lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    form = "messages" if lines and "messages" in lines[0] else "prompt"
    for number, line in enumerate(lines, 1):
        if form not in line:
            raise SystemExit(f'load.py: {path}, line {number}: expected "{form}" as in the first line, found {", ".join(line)}')
    if not lines:
        raise SystemExit(f"load.py: {path} has no prompts")
    return lines


async def vocabulary(server, model):
    """Token ids of ordinary words, from the server's /tokenize. Empty if it has none: prompts are then words, whose number of
    tokens is only about what was asked for."""
    text = " ".join(WORDS)
    # llama.cpp's name and switch, and vLLM's.
    body = {"content": text, "prompt": text, "model": model, "add_special": False, "add_special_tokens": False}
    status, answer = await request_json(server, "POST", "/tokenize", body)
    ids = (answer or {}).get("tokens", []) if status == 200 else []
    return [token for token in ids if isinstance(token, int)]
