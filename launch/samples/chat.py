#!/usr/bin/env python3
"""Asks a tp-infer server a question, and prints the answer as it comes. Needs only Python's standard library.

    launch/samples/chat.py http://127.0.0.1:8080/v1 "Tell me a story."

A server with API keys needs one of them in the variable OPENAI_API_KEY.
"""

import json
import os
import sys
import urllib.error
import urllib.request


def stream(url, messages, **settings):
    """Yields the parts of an answer. `messages` and `settings` are those of OpenAI's API."""
    body = json.dumps({"messages": messages, "stream": True, **settings}).encode()
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(f"{url}/chat/completions", body, headers)
    with urllib.request.urlopen(request) as lines:
        for line in lines:
            data = line.decode().removeprefix("data: ").strip()
            if not data or data.startswith(":") or data == "[DONE]":
                continue
            chunk = json.loads(data)
            if "error" in chunk:
                raise RuntimeError(chunk["error"]["message"])
            for choice in chunk["choices"]:
                yield choice["delta"].get("content") or ""


def main():
    if len(sys.argv) != 3:
        sys.exit(f'usage: {sys.argv[0]} URL QUESTION, for example http://127.0.0.1:8080/v1 "Tell me a story."')
    url, question = sys.argv[1:]
    try:
        for text in stream(url, [{"role": "user", "content": question}], max_tokens=200):
            print(text, end="", flush=True)
        print(flush=True)
    except urllib.error.HTTPError as error:  # the body has the server's reason
        sys.exit(f"{url} answers with status {error.code}: {error.read().decode(errors='replace')}")
    except BrokenPipeError:  # the reader of the answer has ended, like `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except urllib.error.URLError as error:
        sys.exit(f"cannot reach {url}: {error.reason}; check the address, and whether the server runs")
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(f"cannot ask {url}: {error}")


if __name__ == "__main__":
    main()
