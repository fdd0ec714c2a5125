"""A seeded generator of little stories about a child and an animal.

A story is a plot (plots.txt) told with words (words.txt).  The notation of
both files is small:

    {slot}      the word chosen for `slot`; the same all through a story
    {*slot}     a new choice every time
    {tab.col}   column `col` of the record chosen from table `tab`
    [a|b|c]     one of the alternatives (which may be empty)

Run this file to print a few stories:  python3 stories.py [count] [seed]
"""

import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

PRONOUNS = {
    "girl": {"he": "she", "him": "her", "his": "her", "him_self": "herself"},
    "boy": {"he": "he", "him": "him", "his": "his", "him_self": "himself"},
}


# ---------------------------------------------------------------- reading

def read_lines(name):
    """Yield the lines of a data file without comments."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                yield line.rstrip("\n")


def read_words(name):
    """Return {list name: entries}; the entries of a table are dicts."""
    lists, kind, entries, columns = {}, None, None, None
    for line in read_lines(name):
        header = re.fullmatch(r"(words|lines|table) (\w+)(?:: (.*))?", line)
        if header:
            kind, entries = header.group(1), []
            columns = (header.group(3) or "").split()
            lists[header.group(2)] = entries
        elif not line:
            continue
        elif kind == "words":
            entries.extend(word.strip() for word in line.split(","))
        elif kind == "lines":
            entries.append(line)
        else:
            fields = line.split(" / ")
            if len(fields) != len(columns):
                raise ValueError("wrong number of fields: " + line)
            entries.append(dict(zip(columns, fields)))
    return lists


class Plot:
    """A plot: its mood, its beats (optional?, variants), its short forms."""

    def __init__(self, name):
        self.name = name
        self.mood = None
        self.beats = []
        self.short = []


def read_plots(name="plots.txt"):
    """Return the list of plots."""
    plots, variants = [], None
    for line in read_lines(name):
        word, _, rest = line.partition(" ")
        if word == "plot":
            plots.append(Plot(rest))
        elif word == "mood":
            plots[-1].mood = rest
        elif word in ("beat", "beat?"):
            variants = []
            plots[-1].beats.append((word == "beat?", variants))
        elif word == "short":
            variants = plots[-1].short
        elif word == "-":
            variants.append(rest)
        elif line:
            raise ValueError("cannot read: " + line)
    return plots


WORDS = read_words("words.txt")
PLOTS = read_plots()


def reserved(hero, animal):
    """Whether this pair is kept for measuring: no story has it unless it is
    asked for, and the training never asks."""
    names = WORDS["girl"] + WORDS["boy"]
    return (names.index(hero) + WORDS["animal"].index(animal)) % 12 == 0


# ---------------------------------------------------------------- telling

class Story:
    """A story that is being told: who, where, and the choices made so far.

    What is given in `wish` (hero, animal, adjective, place, mood) is kept,
    the rest is drawn.  An adjective of None means that there is none.
    """

    def __init__(self, rng, wish=None):
        wish = wish or {}
        self.rng = rng
        self.draw(wish)
        self.adjective = wish.get("adjective")
        if "animal" not in wish and rng.random() < 0.6:
            self.adjective = rng.choice(WORDS["adjective"])
        self.place = wish.get("place") or rng.choice(WORDS["place"])
        self.plot = rng.choice([plot for plot in PLOTS if not wish.get("mood")
                                or plot.mood == wish["mood"]])
        self.begun = False
        self.records = {"place": self.place}    # table -> record
        self.texts = {"hero": self.hero, "animal": self.animal,
                      "kind": self.kind, "beast": "a " + self.beast()}
        for key, word in PRONOUNS[self.kind].items():
            self.texts[key] = word
            self.texts[key.capitalize()] = word.capitalize()

    def draw(self, wish):
        """Choose a hero and an animal that are not a reserved pair."""
        while True:
            kind = self.rng.choice(["girl", "boy"])
            self.hero = wish.get("hero") or self.rng.choice(WORDS[kind])
            self.animal = (wish.get("animal")
                           or self.rng.choice(WORDS["animal"]))
            if "hero" in wish and "animal" in wish or not reserved(
                    self.hero, self.animal):
                break
        self.kind = "girl" if self.hero in WORDS["girl"] else "boy"

    def beast(self):
        """Return the animal with its adjective."""
        return " ".join(filter(None, [self.adjective, self.animal]))

    def fill(self, slot):
        """Return the text for the slot with this name."""
        if slot == "Time":
            self.begun, later = True, self.begun
            return self.expand("{*time_%s}" % ("later" if later else "first"))
        if slot == "Place.at":
            return self.place["at"].capitalize()
        if slot == "way":
            return self.expand("{*way}")
        if slot[0] == "*":
            return self.expand(self.rng.choice(WORDS[slot[1:]]))
        if slot not in self.texts:
            name, _, column = slot.partition(".")
            if name not in self.records:
                self.records[name] = self.rng.choice(WORDS[name])
            entry = self.records[name]
            self.texts[slot] = self.expand(entry[column] if column else entry)
        return self.texts[slot]

    def expand(self, text):
        """Replace choices (innermost first) and then slots, left to right."""
        while "[" in text:
            text = re.sub(
                r"\[([^\[\]]*)\]",
                lambda m: self.rng.choice(m.group(1).split("|")), text)
        return re.sub(r"\{([^{}]*)\}", lambda m: self.fill(m.group(1)), text)

    def beats(self):
        """Return the beats of the plot and an ending."""
        parts = [self.expand(self.rng.choice(variants))
                 for optional, variants in self.plot.beats
                 if not optional or self.rng.random() < 0.5]
        mood = self.plot.mood
        ending = "end_" + mood if mood in ("sad", "bedtime") else "end"
        return parts + [self.expand("{*%s}" % ending)]

    def tell(self):
        """Return the text of the story."""
        opening = self.expand("{*open}")
        self.begun = opening.startswith("One ")
        return polish(" ".join([opening] + self.beats()))

    def go_on(self):
        """Return what happened to the same two next."""
        self.begun = True
        last = self.plot
        while self.plot is last or self.plot.mood == "sad":
            self.plot = self.rng.choice(PLOTS)
        return polish(" ".join(self.beats()))

    def shorter(self):
        """Return the plot in a sentence or two."""
        return polish(self.expand(self.rng.choice(self.plot.short)))


def polish(text):
    """Capitalize sentences and quotations and choose between a and an."""
    text = re.sub(r" +", " ", text).strip()
    text = re.sub(r"\b([Aa]) (?=[aeiou]|honest)(?!one|use)", r"\1n ", text)
    return re.sub(r'(^|[.!?] )("?[a-z])',
                  lambda m: m.group(1) + m.group(2).upper(), text)


def stories(seed):
    """Yield stories without end; every seed is a stream of its own."""
    rng = random.Random(seed)
    while True:
        yield Story(rng).tell()


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    stream = stories(sys.argv[2] if len(sys.argv) > 2 else "print")
    for _ in range(count):
        print(next(stream) + "\n")


if __name__ == "__main__":
    main()
