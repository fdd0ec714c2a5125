"""Byte-level BPE: training, encoding, and the files transformers reads.

A text is cut into words with the GPT-2 pattern, every byte of a word becomes
one printable character, and pairs of neighbors are merged in the order in
which training found them.  The special tokens have the ids 0 to 5, the 256
bytes the ids 6 to 261, and every merge adds one more token.
"""

import collections
import json
import re

BOS, EOS, END = "<|bos|>", "<|eos|>", "<|end|>"
SPECIAL = [BOS, EOS, "<|system|>", "<|user|>", "<|assistant|>", END]
BOS_ID, EOS_ID, SYSTEM_ID, USER_ID, ASSISTANT_ID, END_ID = range(6)
ROLES = {"system": SYSTEM_ID, "user": USER_ID, "assistant": ASSISTANT_ID}

# Every message is its role's token, its text and <|end|>.
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ '<|assistant|>' }}"
    "{% elif message['role'] == 'system' %}{{ '<|system|>' }}"
    "{% else %}{{ '<|user|>' }}{% endif %}"
    "{{ message['content'] | trim }}{{ '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")

# The GPT-2 pattern in the notation of Python's re: [^\W\d_] is \p{L} and \d
# is \p{Nd}.  The texts made here have no other kind of number, so that both
# cut them in the same way.
WORD = re.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d"
    r"| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def byte_characters():
    """Return the list of the 256 characters that stand for the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {byte: chr(byte) for byte in plain}
    table.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return [table[byte] for byte in range(256)]


BYTES = byte_characters()


def to_symbols(word):
    """Return the characters for the UTF-8 bytes of a word."""
    return [BYTES[byte] for byte in word.encode("utf-8")]


def merge(symbols, pair):
    """Join every occurrence of a pair of neighbors, left to right."""
    out, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i:i + 2]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


def train(texts, vocab_size, whole=()):
    """Return the merges, most frequent pair first, for a vocabulary size.

    The words in `whole` become one token each, however rare they are: the
    last merges are kept for what the frequent pairs leave of them.
    """
    counts = collections.Counter(
        word for text in texts for word in WORD.findall(text))
    words = [(to_symbols(word), n) for word, n in sorted(counts.items())]
    rest = [to_symbols(word) for word in whole]
    merges = []
    while len(merges) < vocab_size - len(SPECIAL) - 256:
        rest = [symbols for symbols in rest if len(symbols) > 1]
        needed = sum(len(r) - 1 for r in set(map(tuple, rest)))
        if needed < vocab_size - len(SPECIAL) - 256 - len(merges):
            pairs = collections.Counter()
            for symbols, n in words:
                for pair in zip(symbols, symbols[1:]):
                    pairs[pair] += n
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
        else:
            best = tuple(rest[0][:2])
        merges.append(best)
        words = [(merge(symbols, best), n) if best[0] in symbols
                 else (symbols, n) for symbols, n in words]
        rest = [merge(symbols, best) for symbols in rest]
    return merges


class Tokenizer:
    """Text to ids and back, given the merges."""

    def __init__(self, merges):
        self.merges = [tuple(pair) for pair in merges]
        self.tokens = SPECIAL + sorted(BYTES)
        self.tokens += [left + right for left, right in self.merges]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        if len(self.ids) != len(self.tokens):
            raise ValueError("two merges make the same token")
        self.ranks = {pair: i for i, pair in enumerate(self.merges)}
        self.cache = {}

    def encode_word(self, word):
        """Return the ids of one word of the pattern."""
        if word not in self.cache:
            symbols = to_symbols(word)
            while len(symbols) > 1:
                pair = min(zip(symbols, symbols[1:]),
                           key=lambda p: self.ranks.get(p, len(self.ranks)))
                if pair not in self.ranks:
                    break
                symbols = merge(symbols, pair)
            self.cache[word] = [self.ids[symbol] for symbol in symbols]
        return self.cache[word]

    def encode_text(self, text):
        """Return the ids of a text and nothing else."""
        return [i for word in WORD.findall(text) for i in self.encode_word(word)]

    def encode(self, text):
        """Return the ids of a text, with the BOS and without an EOS."""
        return [BOS_ID] + self.encode_text(text)

    def encode_message(self, role, text):
        """Return the ids of one message as CHAT_TEMPLATE writes it."""
        return [ROLES[role]] + self.encode_text(text) + [END_ID]

    def encode_prompt(self, messages):
        """Return the ids of a conversation whose next turn is the model's."""
        ids = [BOS_ID]
        for role, text in messages:
            ids += self.encode_message(role, text)
        return ids + [ASSISTANT_ID]

    def decode(self, ids):
        """Return the text of the ids, without special tokens."""
        values = {char: byte for byte, char in enumerate(BYTES)}
        chars = "".join(self.tokens[i] for i in ids if i >= len(SPECIAL))
        return bytes(values[c] for c in chars).decode("utf-8", "replace")


def special(content, index):
    """Return the entry of added_tokens for a special token."""
    return {"id": index, "content": content, "single_word": False,
            "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def byte_level(**options):
    """Return a ByteLevel component in the notation of `tokenizers`."""
    return {"type": "ByteLevel", "add_prefix_space": False,
            "trim_offsets": True, "use_regex": True, **options}


def template():
    """Return the post-processor that puts the BOS first."""
    def bos(type_id):
        return {"SpecialToken": {"id": BOS, "type_id": type_id}}

    def sequence(name, type_id):
        return {"Sequence": {"id": name, "type_id": type_id}}

    return {
        "type": "TemplateProcessing",
        "single": [bos(0), sequence("A", 0)],
        "pair": [bos(0), sequence("A", 0), bos(1), sequence("B", 1)],
        "special_tokens": {BOS: {"id": BOS, "ids": [BOS_ID], "tokens": [BOS]}},
    }


def save(tokenizer, folder):
    """Write tokenizer.json and tokenizer_config.json."""
    description = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [special(token, i)
                         for i, token in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": byte_level(),
        "post_processor": template(),
        "decoder": byte_level(add_prefix_space=True),
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None,
            "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": tokenizer.ids,
            "merges": [" ".join(pair) for pair in tokenizer.merges],
        },
    }
    config = {
        "add_bos_token": True, "add_eos_token": False,
        "bos_token": BOS, "eos_token": EOS,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False, "model_max_length": 1024,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    write_json(folder + "/tokenizer.json", description)
    write_json(folder + "/tokenizer_config.json", config)


def write_json(path, value, indent=2):
    """Write a value as JSON with a final newline."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=indent)
        file.write("\n")


def load(folder):
    """Return the Tokenizer saved in a folder."""
    with open(folder + "/tokenizer.json", encoding="utf-8") as file:
        merges = json.load(file)["model"]["merges"]
    return Tokenizer(pair.split(" ") for pair in merges)
