"""Measure how often the draft model guesses what the demo model says.

    python3 evaluate_draft.py

The demo answers held-out questions and goes on with held-out stories, most
probable token by most probable token, and with temperature 0.8.  There, the
draft draws with the noise that the demo drew with, as the runtime does: both
take the token with the largest logit / temperature + Gumbel noise.  Printed are
how often both take the same one, how many drafts of 4 and 8 a step accepts,
and the total variation distance d of both distributions.  With a temperature
two more shares are given, as means over the tokens: with the same noise at
least (1 - d) / (1 + d) are the same, and however two models draw, at most
1 - d.

    python3 evaluate_draft.py --texts ../../bench/demo_texts.jsonl \
        --program ../../build/bin/tp-infer

has the program write texts for `tp-infer bench --acceptance-trace` instead.
"""

import argparse
import json
import os
import subprocess

import torch

import bpe
import chats
import evaluate
import model as llama
import stories

HERE = os.path.dirname(os.path.abspath(__file__))


def prompts(tokenizer, count):
    """Return `count` held-out prompts: conversations of one to three
    questions, and the first words of a story in one of five."""
    talk = chats.chats(evaluate.HELD_OUT + " draft", held_out=True,
                       turns=((1, 3), (2, 2), (3, 1)))
    plain = stories.stories(evaluate.HELD_OUT + " draft")
    return [tokenizer.encode(" ".join(next(plain).split()[:4]))
            if i % 5 == 4 else tokenizer.encode_prompt(next(talk).turns[:-1])
            for i in range(count)]


def gumbel(seed, size):
    """Return the noise of one position; its tokens are those of a draw."""
    generator = torch.Generator().manual_seed(seed)
    return -torch.empty(size).exponential_(generator=generator).log()


def keys(logits, temperature, seed):
    """Return what the token of a position is the largest of.  [T, V]"""
    if temperature == 0:
        return logits
    noise = [gumbel(seed * 1000 + i, logits.shape[1])
             for i in range(len(logits))]
    return logits / temperature + torch.stack(noise)


@torch.no_grad()
def speak(model, ids, temperature, seed, limit=200):
    """Return the ids that the model says after some, and its logits [T, V]."""
    new, rows, cache = [], [], model.empty_cache()
    while len(new) < limit and not (new and new[-1] in evaluate.STOPS):
        rows.append(model(torch.tensor([new[-1:] or ids]), cache)[:, -1])
        row_seed = seed * 1000 + len(new)
        row = rows[-1][0]
        if temperature:
            row = row / temperature + gumbel(row_seed, len(row))
        new.append(row.argmax().item())
    return new, torch.cat(rows)


def steps(right, drafts):
    """Return how many steps a text takes of which these tokens are guessed
    right, with so many drafts per step: each adds a token of its own."""
    count, place = 0, 0
    while place < len(right):
        accepted = next((i for i, ok in enumerate(right[place:place + drafts])
                         if not ok), min(drafts, len(right) - place))
        place += accepted + 1
        count += 1
    return count


def total_variation(logits, others, temperature):
    """Return the total variation distances of two distributions.  [T]"""
    first, second = ((row / temperature).softmax(-1)
                     for row in (logits, others))
    return (first - second).abs().sum(-1) / 2


@torch.no_grad()
def measure(target, draft, starts, temperature):
    """Return tokens, right guesses, steps with 4 and 8 drafts, the sum of the
    distances (at temperature 1 for 0), and those of the least and the largest
    shares of right guesses that these allow."""
    totals = [0, 0, 0, 0, 0.0, 0.0, 0.0]
    for seed, ids in enumerate(starts):
        new, logits = speak(target, ids, temperature, seed)
        others = draft(torch.tensor([ids + new[:-1]]))[0, len(ids) - 1:]
        guesses = keys(others, temperature, seed).argmax(-1).tolist()
        right = [a == b for a, b in zip(new, guesses)]
        distance = total_variation(logits, others, temperature or 1.0)
        figures = (len(new), sum(right), steps(right, 4), steps(right, 8),
                   distance.sum().item(),
                   ((1 - distance) / (1 + distance)).sum().item(),
                   (1 - distance).sum().item())
        totals = [a + b for a, b in zip(totals, figures)]
    return totals


def report(folder, count=150):
    """Print a table of the figures of the draft model in a folder."""
    tokenizer = bpe.load(HERE)
    target = evaluate.load_model(HERE)
    draft = evaluate.load_model(folder, llama.DRAFT_CONFIG)
    starts = prompts(tokenizer, count)
    print("| Temperature | Right | At least | At most "
          "| Accepted of 4 | of 8 | Distance |")
    for temperature in (0, 0.8):
        tokens, right, four, eight, distance, least, most = measure(
            target, draft, starts, temperature)
        bounds = ["%.1f %%" % (100 * share / tokens) if temperature else ""
                  for share in (least, most)]
        print("| %s | %.1f %% | %s | %s | %.2f | %.2f | %.4f |" % (
            temperature, 100 * right / tokens, *bounds,
            (tokens - four) / four, (tokens - eight) / eight,
            distance / tokens), flush=True)


def write_texts(path, program, count):
    """Write the texts that the program writes behind `count` prompts, without
    randomness, and behind as many with temperature 0.8."""
    starts = prompts(bpe.load(HERE), 2 * count)
    requests = [{"id": "greedy" if i < count else "sampled", "ids": ids,
                 "temperature": 0 if i < count else 0.8, "top_p": 1,
                 "top_k": 0, "seed": i, "max_tokens": 200}
                for i, ids in enumerate(starts)]
    command = [program, "generate", "--model", HERE, "--batch", "-"]
    lines = subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE,
        input="".join(json.dumps(request) + "\n" for request in requests))
    texts = sorted(map(json.loads, lines.stdout.splitlines()),
                   key=lambda text: text["index"])
    with open(path, "w", encoding="utf-8") as file:
        for text in texts:
            line = {"name": "%s %d" % (text["id"], text["index"]),
                        "prompt_ids": requests[text["index"]]["ids"],
                        "sampling": text["sampling"],
                        "token_ids": text["token_ids"]}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", default=HERE + "/draft")
    parser.add_argument("--count", type=int, default=150, help="of texts")
    parser.add_argument("--texts", help="the file to write texts to")
    parser.add_argument("--program", default="tp-infer")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.texts:
        write_texts(options.texts, options.program, 16)
    else:
        report(options.folder, options.count)


if __name__ == "__main__":
    main()
