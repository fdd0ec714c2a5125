"""Measure the demo model and write what tests compare with.

    python3 evaluate.py [--samples N] [--prompt TEXT]

reads model.safetensors (whose weights are rounded to bfloat16), computes in
float32, prints the perplexity of held-out stories and a few samples, and
writes reference.json.
"""

import argparse
import itertools
import json
import math
import os

import torch
import torch.nn.functional as F

import bpe
import model as llama
import stories

HERE = os.path.dirname(os.path.abspath(__file__))
HELD_OUT = "held out"     # the seed of the stories that are never trained on
PROMPTS = ["Once upon a time", "One rainy morning", "There was once a small"]


def load_model(folder):
    """Return the model in float32 and its tokenizer."""
    model = llama.Llama(llama.CONFIG)
    model.load_state_dict(llama.load_safetensors(
        folder + "/model.safetensors"))
    return model.eval(), bpe.load(folder)


# ------------------------------------------------------------- perplexity

def write_held_out(folder, size=24000):
    """Write about `size` bytes of held-out stories, one JSON per line."""
    with open(folder + "/held_out.jsonl", "w", encoding="utf-8") as file:
        for text in stories.stories(HELD_OUT):
            file.write(json.dumps({"text": text}) + "\n")
            size -= len(text)
            if size <= 0:
                break


def read_held_out(folder):
    """Return the texts of held_out.jsonl."""
    with open(folder + "/held_out.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


@torch.no_grad()
def perplexity(model, tokenizer, texts):
    """Return the perplexity per token and the bits per byte.

    Every story stands alone: BOS is its context, EOS its last target.
    """
    total, tokens, size = 0.0, 0, 0
    for text in texts:
        ids = torch.tensor(tokenizer.encode(text) + [bpe.EOS_ID])
        logits = model(ids[None, :-1])[0]                   # [T, V]
        total += F.cross_entropy(logits, ids[1:], reduction="sum").item()
        tokens += len(ids) - 1
        size += len(text.encode("utf-8"))
    return math.exp(total / tokens), total / math.log(2) / size


# ------------------------------------------------------------- generation

@torch.no_grad()
def greedy(model, ids, count=64):
    """Return up to `count` most probable next ids (up to and including the
    EOS), and the smallest difference of the two best logits on the way."""
    new, margin = [], float("inf")
    while len(new) < count and bpe.EOS_ID not in new:
        best = model(torch.tensor([ids + new]))[0, -1].topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        new.append(best.indices[0].item())
    return new, margin


@torch.no_grad()
def sample(model, ids, generator, temperature=0.7, top_p=0.95, limit=400):
    """Return ids sampled from the smallest set with probability `top_p`."""
    new = []
    while len(new) < limit and bpe.EOS_ID not in new:
        logits = model(torch.tensor([ids + new]))[0, -1] / temperature
        chances, order = logits.softmax(-1).sort(descending=True)
        chances[chances.cumsum(-1) - chances >= top_p] = 0
        choice = torch.multinomial(chances, 1, generator=generator)
        new.append(order[choice].item())
    return new


@torch.no_grad()
def reference(model, tokenizer, prompt):
    """Return what a correct runtime computes for a prompt."""
    ids = tokenizer.encode(prompt)
    logits = model(torch.tensor([ids]))[0, -1]
    new, margin = greedy(model, ids)
    return {
        "prompt": prompt,
        "prompt_ids": ids,
        "continuation_ids": new,
        "continuation": tokenizer.decode(new),
        "logits_last_prompt_position_first_8":
            [round(value, 5) for value in logits[:8].tolist()],
        "min_margin": round(margin, 5),
    }


# ----------------------------------------------------------------- report

def write_reference(folder, model, tokenizer, value):
    """Write reference.json: greedy continuations and the perplexity."""
    bpe.write_json(folder + "/reference.json", {
        "dtype": "float32 arithmetic with the bfloat16 weights",
        "prompts": [reference(model, tokenizer, p) for p in PROMPTS],
        "perplexity": round(value, 4),
    })


def report(folder, samples=3, prompt="Once upon a time"):
    """Print perplexities and samples; write reference.json."""
    model, tokenizer = load_model(folder)
    value, bits = perplexity(model, tokenizer, read_held_out(folder))
    print("held_out.jsonl: perplexity %.4f, %.4f bits per byte"
          % (value, bits), flush=True)
    more = itertools.islice(stories.stories(HELD_OUT), 1000)
    print("1000 held-out stories: perplexity %.4f, %.4f bits per byte"
          % perplexity(model, tokenizer, more), flush=True)
    write_reference(folder, model, tokenizer, value)
    generator = torch.Generator().manual_seed(1)
    for _ in range(samples):
        ids = tokenizer.encode(prompt)
        new = sample(model, ids, generator)
        print("\n%s%s" % (tokenizer.decode(ids + new), "" if
              bpe.EOS_ID in new else " [no end]"), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", default=HERE)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report(options.folder, options.samples, options.prompt)


if __name__ == "__main__":
    main()
