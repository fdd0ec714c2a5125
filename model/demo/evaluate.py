"""Measure the demo model and write what tests compare with.

    python3 evaluate.py

reads model.safetensors (whose weights are rounded to bfloat16), computes in
float32, prints the perplexity of held-out stories, how often answers are what
was asked for, and a few samples, and writes reference.json.
"""

import argparse
import collections
import itertools
import json
import math
import os
import re

import torch
import torch.nn.functional as F

import bpe
import chats
import model as llama
import stories

HERE = os.path.dirname(os.path.abspath(__file__))
HELD_OUT = "held out"     # the seed of everything that is never trained on
STOPS = (bpe.EOS_ID, bpe.END_ID)
MARGIN = 0.02             # the least difference of logits in reference.json

PROMPTS = ["Once upon a time", "One rainy morning", "There was once a small",
           "One day, Tom and a brown dog"]
CONVERSATIONS = [
    ["Tell me a story about Emma and a white hen."],
    ["Hi"],
    ["Can you write about Tom and a dog?"],
    ["A sad one, please"],
    ["What is 2 + 2?"],
    ["Emma and a hen in the garden, as JSON"],
    ["Tell me a story about Lily and a fox in the forest.",
     "What was her name?"],
    ["A funny story about Max and a goat, please.", "Shorter", "As JSON"],
]

# Wordings, names and questions that chats.txt does not have.
NEW_WORDINGS = [
    "Please make me a story with {0} and a {1} in it.",
    "My daughter wants to hear a story about {0} and a {1}.",
    "Could we have a story about {0} and the {1} today?",
    "Let me hear the story of {0} and a {1}.",
    "I love stories. Tell me one about {0} and a {1}.",
    "What about a story of {0} and her or his {1}?",
    "Please, a nice little story: {0} and a {1}.",
    "Give me a story where {0} meets a {1}.",
]
NEW_NAMES = ["Kermit", "Beatrix", "Sauron", "Ludmila", "Anakin", "Roberto",
             "Tatjana", "Merlin", "Odysseus", "Fritz", "Mercedes", "Gwen",
             "Ulrich", "Penelope", "Igor", "Scarlett"]
NEW_QUESTIONS = [
    "What is the square root of 144?", "Who won the world cup?",
    "How do magnets work?", "Write a loop in Fortran.", "7 * 8?",
    "Should I buy a house?", "What is quantum mechanics?",
    "Who is the mayor of Chicago?", "Explain inflation.",
    "Can you book a flight?", "What is the boiling point of water?",
    "How many legs has an insect?", "Debug this function for me.",
    "What is the best phone?", "When did the Roman empire fall?",
    "Convert 10 miles to kilometers.", "What should I eat tonight?",
    "Is there life on Mars?", "What is a haiku?", "Who are the democrats?",
]


def load_model(folder, config=llama.CONFIG):
    """Return the model in float32."""
    model = llama.Llama(config)
    model.load_state_dict(llama.load_safetensors(
        folder + "/model.safetensors"))
    return model.eval()


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


@torch.no_grad()
def copied(model, tokenizer, count=64):
    """Return how often hero and animal of a request are the most probable
    token where a held-out story names them for the first time."""
    right, total = [0, 0], 0
    for chat in chats.chats(HELD_OUT, turns=((1, 1),), held_out=True):
        kind, wish = chat.facts[0]
        if kind != "story" or "hero" not in wish or "animal" not in wish:
            continue
        *context, (_, answer) = chat.turns
        prompt = tokenizer.encode_prompt(context)
        ids = prompt + tokenizer.encode_text(answer)
        best = model(torch.tensor([ids]))[0].argmax(-1).tolist()
        for i, word in enumerate((wish["hero"], wish["animal"])):
            token, = tokenizer.encode_text(" " + word)
            if token in ids[len(prompt):]:
                place = ids.index(token, len(prompt))
                right[i] += best[place - 1] == token
        total += 1
        if total == count:
            return right[0] / total, right[1] / total


# ------------------------------------------------------------- generation

@torch.no_grad()
def greedy(model, ids, count=64):
    """Return up to `count` most probable next ids (up to and including the
    one that stops), and the smallest difference of the two best logits."""
    new, margin, cache = [], float("inf"), model.empty_cache()
    while len(new) < count and not (new and new[-1] in STOPS):
        step = [new[-1:] or ids]
        best = model(torch.tensor(step), cache)[0, -1].topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        new.append(best.indices[0].item())
    return new, margin


def draw(logits, generator, temperature=0.7, top_p=0.95):
    """Sample ids [B] from the smallest sets with probability `top_p`."""
    chances, order = (logits / temperature).softmax(-1).sort(descending=True)
    chances[chances.cumsum(-1) - chances >= top_p] = 0
    return order.gather(1, torch.multinomial(chances, 1, generator=generator))


@torch.no_grad()
def sample(model, prompts, generator, limit=300, batch=32):
    """Return sampled continuations (lists of ids) of prompts (lists of ids).

    Prompts of the same length are continued together.
    """
    lengths, results = collections.defaultdict(list), [None] * len(prompts)
    for i, prompt in enumerate(prompts):
        lengths[len(prompt)].append(i)
    for places in lengths.values():
        for i in range(0, len(places), batch):
            some = places[i:i + batch]
            ids = torch.tensor([prompts[place] for place in some])
            cache, rows = model.empty_cache(), []
            ended = torch.zeros(len(some), dtype=torch.bool)
            while len(rows) < limit and not ended.all():
                ids = draw(model(ids, cache)[:, -1], generator)
                rows.append(ids[:, 0])
                for stop in STOPS:
                    ended |= rows[-1] == stop
            for place, row in zip(some, torch.stack(rows, 1).tolist()):
                end = next((k for k, token in enumerate(row)
                            if token in STOPS), len(row) - 1)
                results[place] = row[:end + 1]
    return results


def reply(model, tokenizer, conversations, generator):
    """Return the texts that answer conversations that end with a user."""
    prompts = [tokenizer.encode_prompt(turns) for turns in conversations]
    return [tokenizer.decode(ids)
            for ids in sample(model, prompts, generator)]


# ----------------------------------------------------- requests in a text

def named(text, words):
    """Return which of some words a text has."""
    return set(words) & set(re.findall(r"\w+", text))


def heroes(text):
    """Return the names in a text."""
    return named(text, stories.WORDS["girl"] + stories.WORDS["boy"])


def animals(text):
    """Return the animals in a text; one plot has a cow of its own."""
    text = text.replace("on a cow. The cow looked", "")
    return named(text, stories.WORDS["animal"])


def check_story(text, wish):
    """Return what of a wish a story keeps: {part: bool}."""
    kept = {}
    if "hero" in wish:
        kept["hero"] = heroes(text) == {wish["hero"]}
    if "animal" in wish:
        kept["animal"] = animals(text) == {wish["animal"]}
    if len(kept) == 2:
        kept["hero and animal"] = all(kept.values())
    if wish.get("adjective"):
        kept["adjective"] = " %s %s" % (
            wish["adjective"], wish["animal"]) in text
    if "place" in wish:
        kept["place"] = " " + wish["place"]["name"] in text
    return kept


def check_json(text, wish):
    """Return whether an answer is JSON, and what was asked for."""
    try:
        value = json.loads(text)
        valid = list(value) == ["hero", "animal", "place"]
    except (ValueError, TypeError):
        return {"valid": False, "right": False}
    return {"valid": valid, "right": valid and all(
        value[part] == (wish[part]["name"] if part == "place" else wish[part])
        for part in ("hero", "animal", "place") if part in wish)}


def check(kind, fact, text):
    """Return {what is measured: whether it is right} for an answer."""
    if kind in ("story", "shorter", "go on"):
        if kind != "story":     # neither names an adjective again
            fact = {key: fact[key] for key in ("hero", "animal")}
        return check_story(text, fact)
    if kind == "json":
        return check_json(text, fact)
    return {"right": text == fact}


def cases(kind, count, turn=0):
    """Return (conversation, kind, fact) of held-out conversations whose last
    question is of a kind; before it are `turn` stories."""
    found = []
    for chat in chats.chats("%s %s" % (HELD_OUT, kind),
                            turns=((turn + 1, 1),), held_out=True):
        asked = len(chat.facts) - 1
        told = all(fact[0] == "story" for fact in chat.facts[:asked])
        if asked == turn and chat.facts[asked][0] == kind and told:
            found.append((chat.turns[:-1], kind, chat.facts[asked][1]))
        if len(found) == count:
            return found


def own_cases():
    """Return the cases made of what chats.txt does not have."""
    words, found = stories.WORDS, []
    pairs = [pair for pair in itertools.product(
        words["girl"] + words["boy"], words["animal"])
        if stories.reserved(*pair)]
    for i, (hero, animal) in enumerate(pairs):
        text = NEW_WORDINGS[i % len(NEW_WORDINGS)].format(hero, animal)
        found.append(("story, new wordings", [("user", stories.polish(text))],
                      "story", {"hero": hero, "animal": animal}))
    for i, name in enumerate(NEW_NAMES):
        animal = words["animal"][i]
        text = stories.polish("Tell me a story about %s and a %s."
                              % (name, animal))
        found.append(("unknown, new names", [("user", text)], "unknown",
                      words["unknown_name"][0]))
    for text in NEW_QUESTIONS:
        found.append(("refuse, new questions", [("user", text)], "refuse",
                      words["refuse"][0]))
    return found


def measure(model, tokenizer, count=200):
    """Return {(what, measure): (right, of)} of sampled answers."""
    tasks = own_cases()
    for kind, turn in [("story", 0), ("json", 0), ("talk", 0), ("refuse", 0),
                       ("unknown", 0), ("question", 1), ("go on", 1),
                       ("shorter", 1), ("json", 1), ("story", 1)]:
        name = kind + (", second turn" if turn else "")
        tasks += [(name, *case) for case in cases(kind, count, turn)]
    texts = reply(model, tokenizer, [turns for _, turns, _, _ in tasks],
                  torch.Generator().manual_seed(1))
    figures, wrong = collections.defaultdict(lambda: [0, 0]), []
    for (name, turns, kind, fact), text in zip(tasks, texts):
        result = check(kind, fact, text)
        for what, right in result.items():
            figures[name, what][0] += right
            figures[name, what][1] += 1
        if not all(result.values()):
            wrong.append((name, turns[-1][1], text))
    return figures, wrong


# -------------------------------------------------------------- reference

@torch.no_grad()
def reference(model, tokenizer, ids, count=64):
    """Return what a correct runtime computes for a prompt."""
    logits = model(torch.tensor([ids]))[0, -1]
    new, margin = greedy(model, ids, count)
    return {
        "prompt_ids": ids,
        "continuation_ids": new,
        "continuation": tokenizer.decode(new),
        "logits_last_prompt_position_first_8":
            [round(value, 5) for value in logits[:8].tolist()],
        "min_margin": round(margin, 5),
    }


def reference_chat(model, tokenizer, questions):
    """Return a conversation with its last answer, both as the model's own
    greedy answers make it."""
    messages = []
    for question in questions:
        messages.append(("user", question))
        ids = tokenizer.encode_prompt(messages)
        result = reference(model, tokenizer, ids, 256)
        messages.append(("assistant", result["continuation"]))
    return {"messages": [{"role": role, "content": text}
                         for role, text in messages[:-1]], **result}


def write_reference(folder, model, tokenizer, value):
    """Write reference.json: greedy continuations and the perplexity.  What
    comes too near to a tie is left out."""
    prompts = [{"prompt": prompt, **reference(model, tokenizer,
                                              tokenizer.encode(prompt))}
               for prompt in PROMPTS]
    talks = [reference_chat(model, tokenizer, c) for c in CONVERSATIONS]
    bpe.write_json(folder + "/reference.json", {
        "dtype": "float32 arithmetic with the bfloat16 weights",
        "prompts": [p for p in prompts if p["min_margin"] >= MARGIN],
        "chats": [c for c in talks if c["min_margin"] >= MARGIN],
        "perplexity": round(value, 4),
    })


# ----------------------------------------------------------------- report

def report(folder, count=200, samples=3, failures=None):
    """Print perplexities, figures and samples; write reference.json."""
    model, tokenizer = load_model(folder), bpe.load(folder)
    value, bits = perplexity(model, tokenizer, read_held_out(folder))
    print("held_out.jsonl: perplexity %.4f, %.4f bits per byte"
          % (value, bits), flush=True)
    more = itertools.islice(stories.stories(HELD_OUT), 500)
    print("500 held-out stories: perplexity %.4f, %.4f bits per byte"
          % perplexity(model, tokenizer, more), flush=True)
    write_reference(folder, model, tokenizer, value)
    figures, wrong = measure(model, tokenizer, count)
    for (name, what), (right, total) in figures.items():
        print("| %s | %s | %d of %d | %.1f %% |" % (
            name, what, right, total, 100 * right / total))
    if failures:
        with open(failures, "w", encoding="utf-8") as file:
            for case in wrong:
                file.write("%s\n  user: %s\n  assistant: %s\n" % case)
    generator = torch.Generator().manual_seed(1)
    start = tokenizer.encode("Once upon a time")
    for new in sample(model, [start] * samples, generator):
        print("\n" + tokenizer.decode(start + new), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", default=HERE)
    parser.add_argument("--count", type=int, default=200,
                        help="of conversations of every kind")
    parser.add_argument("--failures", help="a file for answers that are wrong")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report(options.folder, options.count, options.samples,
           options.failures)


if __name__ == "__main__":
    main()
