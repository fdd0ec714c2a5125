#!/usr/bin/env python3
"""Writes expected.json: what Jinja2 makes of every template here with every conversation.

Run it in this folder after a change of a template or conversation. It needs python3-jinja2, and configures it as
transformers' apply_chat_template does. The test ChatTemplateCorpus reads the result and needs no Python.
"""
import json
from pathlib import Path

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = Path(__file__).parent
NOW = "26 Jul 2024"


class Generation(Extension):
    """{% generation %}, which prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW
    return env


def rendered(env, source, variables):
    try:
        return env.from_string(source).render(**variables)
    except Exception as error:  # a template's refusal is a result, too
        return {"error": str(error)} if type(error) is TemplateError else {"error": ""}


def main():
    data = json.loads((FOLDER / "conversations.json").read_text())
    env = environment()
    conversations = [{**data["variables"], **c["variables"]} for c in data["conversations"]]
    for variables in conversations:
        if variables["tools"] == "all":
            variables["tools"] = data["tools"]
    lines = []
    for path in sorted(FOLDER.glob("*.jinja")):
        source = path.read_text()
        results = [rendered(env, source, variables) for variables in conversations]
        rows = ",\n".join("  " + json.dumps(result, ensure_ascii=False) for result in results)
        lines.append(f'"{path.stem}": [\n{rows}]')
    (FOLDER / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
