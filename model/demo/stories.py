"""A seeded generator of little stories.

A story is a plot (plots.txt) told with words (words.txt).  The notation of
both files is small:

    {slot}      the word chosen for `slot`; the same all through a story
    {*slot}     a new choice every time
    {slot#2}    a second choice for the story, different from the first
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
    "girl": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
    "boy": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
}


# ---------------------------------------------------------------- reading

def read_lines(name):
    """Yield the lines of a data file without comments."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                yield line.rstrip("\n")


def read_words(name="words.txt"):
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
    """A plot: its options and its beats (optional?, variants)."""

    def __init__(self, name):
        self.name = name
        self.cast = "any"
        self.traits = None
        self.day_opening = True
        self.friend_known = False
        self.beats = []


def read_plots(name="plots.txt"):
    """Return the list of plots."""
    plots = []
    for line in read_lines(name):
        word, _, rest = line.partition(" ")
        if word == "plot":
            plots.append(Plot(rest))
        elif word == "cast":
            plots[-1].cast = rest
        elif word == "trait":
            plots[-1].traits = rest.split(", ")
        elif word == "open":
            plots[-1].day_opening = False
        elif word == "known":
            plots[-1].friend_known = True
        elif word in ("beat", "beat?"):
            plots[-1].beats.append((word == "beat?", []))
        elif word == "-":
            plots[-1].beats[-1][1].append(rest)
        elif line:
            raise ValueError("cannot read: " + line)
    return plots


WORDS = read_words()
PLOTS = read_plots()

# How many entries of a list a plot uses; of the others, all. A plot has a hero
# of its own, with a home, a hobby, a friend: all that must stay the same in a
# story then belongs to its subject, which a small model keeps in mind, and
# need not be looked up where it was first said, which takes far more training.
ENTRIES_OF_A_PLOT = {"home": 1, "hobby": 1, "place": 1, "elder": 1, "sage": 1,
                     "person": 1, "trait": 3}
RECORDS_OF_A_PLOT = 4       # of a table


def entries_of(plot, name, base):
    """Return the entries of list `name` that a plot uses."""
    entries = plot.traits if base == "trait" and plot.traits else WORDS[name]
    table = isinstance(entries[0], dict) and base != "weather"
    count = ENTRIES_OF_A_PLOT.get(base, RECORDS_OF_A_PLOT if table else None)
    if count is None or count >= len(entries):
        return entries
    return random.Random(plot.name + " " + base).sample(entries, count)


# ---------------------------------------------------------------- telling

class Story:
    """The state of one story: its characters and the choices made so far."""

    def __init__(self, rng, plot):
        self.rng = rng
        self.plot = plot
        self.records = {}   # slot -> record or entry chosen from a list
        self.texts = {}     # slot -> final text
        self.named = set()  # side characters that have been introduced
        self.cast()

    # -- characters

    def cast(self):
        """Look up the plot's hero, friend and third character."""
        place = PLOTS.index(self.plot)
        rng = random.Random("cast " + self.plot.name)
        beasts = self.plot.cast != "child" and rng.random() < 0.45
        self.world = "beast" if beasts else "child"
        other = ("girl", "boy")[place % 2]
        sexes = [("boy", "girl")[place % 2], other, rng.choice(["girl", "boy"])]
        kinds = rng.sample(WORDS["beast"], 3) if beasts else sexes
        names = [WORDS[sexes[0]][place // 2],
                 WORDS[sexes[1]][-1 - place // 2],
                 WORDS[sexes[2]][len(PLOTS) // 2 + 1 + place // 4]]
        self.set_hero(names[0], kinds[0], sexes[0])
        self.set_friend(names[1], kinds[1], sexes[1])
        self.third = names[2] + (" the " + kinds[2] if beasts else "")
        self.third_name = names[2]
        if self.plot.friend_known:
            self.named.add("friend")

    def set_hero(self, name, kind, sex):
        """Define {hero}, {kind}, {he}, {He}, ... and what hangs on the world."""
        beasts = self.world == "beast"
        self.texts.update(hero=name, kind=kind)
        for key, word in PRONOUNS[sex].items():
            self.texts[key] = word
            self.texts[key.capitalize()] = word.capitalize()
        self.texts["hand"] = "paw" if beasts else "hand"
        self.texts["hands"] = "paws" if beasts else "hands"

    def set_friend(self, name, kind, sex):
        """Define {fkind}, {fhe}, {Fhe}, ... and the friend's introduction."""
        beasts = self.world == "beast"
        self.friend_name = name
        self.friend_full = name + (" the " + kind if beasts else "")
        self.texts["fkind"] = kind
        for key, word in PRONOUNS[sex].items():
            self.texts["f" + key] = word
            self.texts["F" + key] = word.capitalize()

    def friend(self, key):
        """Name a friend; the first time, say who that is."""
        if key == "third":
            full, name = self.third, self.third_name
        else:
            full, name = self.friend_full, self.friend_name
        if key in self.named:
            return name
        self.named.add("third" if key == "third" else "friend")
        if key == "friend_plain":
            return full
        bonds = ["friend", "friend", "friend", "neighbor"]
        if self.world == "child" and key != "third":
            bonds.append("cousin")
        return "%s %s %s" % (self.texts["his"], self.rng.choice(bonds), full)

    # -- slots

    def pick(self, slot):
        """Choose (once) the entry for a slot such as `place` or `place#2`."""
        if slot not in self.records:
            base = slot.split("#")[0]
            taken = [self.records[key] for key in self.records
                     if key.split("#")[0] == base]
            name = base
            if base + "_" + self.world in WORDS:
                name = base + "_" + self.world
            choices = [entry for entry in entries_of(self.plot, name, base)
                       if entry not in taken]
            choices = choices or [entry for entry in WORDS[name]
                                  if entry not in taken]
            self.records[slot] = self.rng.choice(choices)
        return self.records[slot]

    def fill(self, slot):
        """Return the text for the slot with this name."""
        lower = slot.lower()
        if lower in ("friend", "friend_intro", "friend_plain", "third"):
            known = "third" if lower == "third" else "friend"
            return self.friend(known if known in self.named else lower)
        if slot == "Time":
            first = "day" not in self.records
            self.records["day"] = True
            return self.expand("{*time_%s}" % ("first" if first else "later"))
        if slot == "Detail":
            if "weather.detail" in self.texts:
                return ""
            return self.expand("{weather.detail}.")
        if slot[0] == "*":
            return self.expand(self.rng.choice(WORDS[slot[1:]]))
        if slot not in self.texts:
            name, _, column = slot.partition(".")
            entry = self.pick(name)
            self.texts[slot] = self.expand(entry[column] if column else entry)
        return self.texts[slot]

    def expand(self, text):
        """Replace choices (innermost first) and then slots, left to right."""
        while "[" in text:
            text = re.sub(
                r"\[([^\[\]]*)\]",
                lambda m: self.rng.choice(m.group(1).split("|")), text)
        return re.sub(r"\{([^{}]*)\}", lambda m: self.fill(m.group(1)), text)

    # -- the story

    def opening(self):
        """Introduce the hero, sometimes in the middle of a day."""
        if self.plot.day_opening and self.rng.random() < 0.2:
            self.records["day"] = True
            return [self.expand("{*daybreak}")]
        parts = [self.expand("{*intro}")]
        if self.rng.random() < 0.4:
            parts.append(self.looks())
        if self.rng.random() < 0.5:
            parts.append(self.expand("{*liking}"))
        return parts

    def looks(self):
        """Say something about the hero."""
        lines = WORDS["looks_" + self.world]
        if self.plot.friend_known:
            lines = [line for line in lines if "friend" not in line]
        return self.expand(self.rng.choice(lines))

    def tell(self):
        """Return the text of the story."""
        parts = self.opening()
        beats = len(self.plot.beats)
        aside = self.rng.randrange(3, 2 * beats)  # often too late: no aside
        for optional, variants in self.plot.beats:
            if not optional or self.rng.random() < 0.5:
                parts.append(self.expand(self.rng.choice(variants)))
            if len(parts) == aside < beats - 1:
                parts.append(self.expand("{*aside}"))
        return polish(" ".join(parts))


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
        yield Story(rng, rng.choice(PLOTS)).tell()


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    stream = stories(sys.argv[2] if len(sys.argv) > 2 else "print")
    for _ in range(count):
        print(next(stream) + "\n")


if __name__ == "__main__":
    main()
