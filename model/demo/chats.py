"""A seeded generator of conversations about the stories of stories.py.

A conversation is a list of (role, text).  Its wordings are in chats.txt.

Run this file to print a few:  python3 chats.py [count] [seed]
"""

import json
import random
import re
import sys

import stories

WORDS = stories.WORDS
stories.WORDS.update(stories.read_words("chats.txt"))

# Things that a request may ask for, and their frequencies.
TOPICS = [(("hero", "animal"), 56), (("hero",), 10), (("animal",), 12),
          (("hero", "animal", "place"), 12), (("place",), 3), ((), 7)]
ENDINGS = ["", ".", ".", "!", " please"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SYLLABLES = ["ba", "ko", "zu", "ri", "mel", "dra", "xi", "vo", "tha", "gro",
             "ny", "quo", "ish", "ark", "ul", "fen", "je", "pla", "or", "wyn"]


def weighted(rng, choices):
    """Choose from pairs (value, weight)."""
    return rng.choices([value for value, _ in choices],
                       [weight for _, weight in choices])[0]


class Chat:
    """A conversation that is being made.

    `brief` is for the first part of the training: every story in it is told
    in a sentence or two, so that what has to be copied is near.  `held_out`
    is for measuring: only reserved pairs of hero and animal are asked for.
    """

    def __init__(self, rng, brief=False, held_out=False):
        self.rng = rng
        self.brief = brief
        self.held_out = held_out
        self.story = None           # the story told last
        self.turns = []             # (role, text)
        self.facts = []             # the request of each turn, for measurements
        if rng.random() < 0.15:
            self.turns.append(("system", rng.choice(WORDS["system"])))

    # -- wording

    def say(self, text, answer, fact):
        """Add a question and its answer; some users type in lower case."""
        text = stories.polish(text.replace(" ,", ",").replace("  ", " "))
        text = text.strip()
        if self.rng.random() < 0.1:
            text = text.lower()
        elif self.rng.random() < 0.1:
            text = text[0].lower() + text[1:]
        self.turns += [("user", text), ("assistant", answer)]
        self.facts.append(fact)

    def word(self, name, **slots):
        """Expand a line of chats.txt, with the slots of the last story."""
        story = self.story or stories.Story(self.rng)
        slots = {"mark": self.rng.choice(ENDINGS), "quality": "", **slots}
        lines = WORDS[name] if isinstance(name, str) else [name[0]]
        text = self.rng.choice(lines)
        while "[" in text:
            text = re.sub(r"\[([^\[\]]*)\]", lambda m: self.rng.choice(
                m.group(1).split("|")), text)

        def fill(match):
            slot = match.group(1)
            if slot == "*number":
                return str(self.rng.randrange(
                    10 ** self.rng.randrange(1, 5)))
            if slot == "*noise":
                return self.noise()
            if slot[0] == "*":
                return self.word(slot[1:])
            return slots[slot] if slot in slots else story.fill(slot)
        return re.sub(r"\{([^{}]*)\}", fill, text)

    def noise(self):
        """Return a word that means nothing."""
        if self.rng.random() < 0.5:
            return "".join(self.rng.choices(LETTERS,
                                            k=self.rng.randrange(1, 9)))
        return "".join(self.rng.choices(SYLLABLES,
                                        k=self.rng.randrange(1, 4)))

    def topic(self, wish, parts):
        """Word what a story shall be about."""
        story = stories.Story(self.rng, wish)
        bare = story.beast()
        name = "topic_" + "_".join(p for p in parts if p != "place")
        if parts == ("place",):
            name = "topic_place"
        text = self.word(name, hero=story.hero, animal=story.animal,
                         beast="a " + bare, bare=bare, kind=story.kind,
                         his=story.texts["his"],
                         **{"place.name": story.place["name"]})
        if "place" in parts and len(parts) > 1:
            text += " " + story.place["at"]
        return text

    def wish(self, parts):
        """Draw what is asked for."""
        wish, pair = {}, "hero" in parts and "animal" in parts
        while not wish or pair and self.held_out != stories.reserved(
                wish["hero"], wish["animal"]):
            kind = self.rng.choice(["girl", "boy"])
            wish = {"hero": self.rng.choice(WORDS[kind]),
                    "animal": self.rng.choice(WORDS["animal"]),
                    "place": self.rng.choice(WORDS["place"])}
        wish = {part: wish[part] for part in parts}
        if "animal" in parts and self.rng.random() < 0.5:
            wish["adjective"] = self.rng.choice(WORDS["adjective"])
        return wish

    # -- turns

    def tell(self):
        """Return the story as long as this conversation wants it."""
        return self.story.shorter() if self.brief else self.story.tell()

    def ask_story(self):
        """Ask for a story and tell it."""
        parts = weighted(self.rng, TOPICS)
        wish = self.wish(parts)
        quality = ""
        if self.rng.random() < (0.15 if parts else 0.6):
            quality = wish["mood"] = self.rng.choice(WORDS["mood"])
        short = self.rng.random() < 0.1
        if short:
            quality = "short " + quality
        if parts:
            text = self.word("ask", topic=self.topic(wish, parts),
                             quality=quality)
        else:
            text = self.word("ask_anything", quality=quality)
        if quality and quality.split()[0] not in text:
            short = False
            wish.pop("mood", None)
        self.story = stories.Story(self.rng, wish)
        self.say(text, self.story.shorter() if short else self.tell(),
                 ("story", wish))

    def ask_json(self):
        """Ask for hero, animal and place as JSON."""
        parts = self.rng.choice([("hero", "animal", "place"),
                                 ("hero", "animal", "place"),
                                 ("hero", "animal"), ("hero",), ("animal",)])
        wish = self.wish(parts)
        text = self.word("json", topic=self.topic(wish, parts))
        self.story = stories.Story(self.rng, wish)
        self.say(text, self.json(), ("json", wish))

    def json(self):
        """Return the last story's hero, animal and place as JSON."""
        return json.dumps({"hero": self.story.hero,
                           "animal": self.story.animal,
                           "place": self.story.place["name"]})

    def small_talk(self):
        """Exchange a greeting or the like."""
        entry = self.rng.choice(WORDS["talk"])
        self.say(self.word([entry["ask"]]), entry["answer"],
                 ("talk", entry["answer"]))

    def refuse(self):
        """Ask for something that is no story."""
        answer = WORDS["refuse"][0]
        self.say(self.word("beyond"), answer, ("refuse", answer))

    def unknown(self):
        """Ask for a story about somebody nobody knows."""
        wish = self.wish(("hero", "animal"))
        story = stories.Story(self.rng, wish)
        hero, bare = story.hero, story.beast()
        if self.rng.random() < 0.55:
            answer, parts = WORDS["unknown_name"][0], ("hero", "animal")
            if self.rng.random() < 0.3:
                hero = self.noise().capitalize() + self.rng.choice(SYLLABLES)
            else:
                hero = self.rng.choice(WORDS["stranger"])
            if self.rng.random() < 0.3:
                parts = ("hero",)
        else:
            answer, parts = WORDS["unknown_animal"][0], ("hero", "animal")
            beast = self.rng.choice(WORDS["beyond_animal"])
            bare = " ".join(filter(None, [story.adjective, beast]))
            if self.rng.random() < 0.3:
                parts = ("animal",)
        topic = self.word("topic_" + "_".join(parts), hero=hero, bare=bare,
                          beast="a " + bare, kind=story.kind,
                          his=story.texts["his"])
        self.say(self.word("ask", topic=topic), answer, ("unknown", answer))

    def follow_up(self):
        """Say something about the story that has been told."""
        kind = weighted(self.rng, [
            ("question", 30), ("go_on", 18), ("shorter", 12), ("another", 12),
            ("json_after", 12), ("ask_story", 16)])
        if kind == "ask_story":
            self.ask_story()
        elif kind == "question":
            entry = self.rng.choice(WORDS["question"])
            answer = stories.polish(self.word([entry["answer"]]))
            self.say(self.word([entry["ask"]]), answer, ("question", answer))
        elif kind == "json_after":
            self.say(self.word(kind), self.json(), ("json", self.facts_of()))
        elif kind == "another":
            text = self.word(kind)
            self.story = stories.Story(self.rng)
            self.say(text, self.tell(), ("another", {}))
        elif kind == "shorter":
            self.say(self.word(kind), self.story.shorter(),
                     ("shorter", self.facts_of()))
        elif not self.brief:
            self.say(self.word(kind), self.story.go_on(),
                     ("go on", self.facts_of()))
        else:
            self.ask_json()

    def facts_of(self):
        """Return hero, animal and place of the last story."""
        return {"hero": self.story.hero, "animal": self.story.animal,
                "place": self.story.place}

    def turn(self):
        """Add one exchange."""
        if self.story and self.rng.random() < 0.75:
            return self.follow_up()
        kind = weighted(self.rng, [
            (self.ask_story, 60), (self.ask_json, 30 if self.brief else 12),
            (self.small_talk, 11),
            (self.refuse, 10), (self.unknown, 7)])
        kind()
        offers = self.turns[-1][1].endswith("story?")
        if offers and self.rng.random() < 0.4:
            self.story = stories.Story(self.rng)
            self.say(self.word("yes"), self.tell(), ("another", {}))
        return None

    def talk(self, turns):
        """Make a conversation of about so many exchanges."""
        for _ in range(turns):
            self.turn()
        return self.turns


TURNS = ((1, 45), (2, 25), (3, 15), (5, 10), (8, 5))    # (exchanges, weight)


def chats(seed, brief=False, turns=TURNS, held_out=False):
    """Yield Chats without end; every seed is a stream of its own."""
    rng = random.Random(seed)
    while True:
        chat = Chat(rng, brief, held_out)
        chat.talk(weighted(rng, turns))
        yield chat


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    stream = chats(sys.argv[2] if len(sys.argv) > 2 else "print")
    for _ in range(count):
        for role, text in next(stream).turns:
            print("%s: %s" % (role, text))
        print()


if __name__ == "__main__":
    main()
