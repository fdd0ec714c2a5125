#!/usr/bin/env python3
"""Writes a seeded fixture of a causal language model, with the logits that its original code computes.

    tests/reference/write_fixture.py FOLDER --source "ORG/REPOSITORY @ COMMIT, FILE"

FOLDER has a small config.json (two to four layers, hidden_size 64, vocab_size 256), with the original code beside
it, as on the Hugging Face Hub: `auto_map` in config.json names a class in modeling_....py. Without `auto_map`,
the class is transformers' own. This needs torch and transformers. With --code FILE.py, another implementation
computes the logits; it needs what nemotron_h.py has:

    class Model:
        def __init__(self, folder): ...     # reads config.json, and seeded.tensors(folder)
        def __call__(self, token): ...      # the logits after the next token, a list of numbers
        config: dict                        # config.json
        def shapes(config): ...             # static: {name: shape} of all tensors, if weights.json is missing

The script writes weights.json (names, shapes, and the numbers of the formula), prompt.json (16 ids), expected.json
and meta.json, unless the first two exist. It tries salts until no greedy step is a near tie.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import sys

import seeded

LOGIT_STD = 2.4
LEAST_MARGIN = 0.05  # between the best and the second token: far above the noise of float32


def with_nine_bits(value):
    """The nearest number with nine significant bits: exact in float32, and short in JSON."""
    if value == 0:
        return 0.0
    unit = 2.0 ** (math.floor(math.log2(value)) - 8)
    return round(value / unit) * unit


def entry(name, shape):
    """A tensor of weights.json. Outputs of each matrix have about the size of its inputs."""
    if len(shape) < 2:
        is_gain = name.endswith("weight") or "norm" in name and not name.endswith("bias")
        base, amplitude = (1.0, 0.25) if is_gain else (0.0, 0.125)
    else:
        base = 0.0
        is_embedding = any(part in name for part in ("embed", "wte", "wpe"))
        scale = 1.0 if is_embedding else 1 / math.sqrt(shape[-1])
        if "lm_head" in name:
            scale *= LOGIT_STD
        amplitude = with_nine_bits(scale * math.sqrt(3))  # a uniform number in [-a, a] has the deviation a / sqrt(3)
    return {"name": name, "shape": list(shape), "dtype": "F32", "base": base, "amplitude": amplitude}


def default_prompt(vocab):
    return [seeded.splitmix64(i) % vocab for i in range(16)]


class Original:
    """The original code, by torch and transformers."""

    def __init__(self, folder):
        import torch

        self.torch = torch
        self.config = json.loads((folder / "config.json").read_text())
        self.model = self.empty(folder)
        state = {name: torch.tensor(values) for name, values in seeded.tensors(folder).items()}
        missing, unexpected = self.model.load_state_dict(state, strict=False)
        wrong = [name for name in missing if name in self.untied(self.model)] + unexpected
        assert not wrong, f"weights.json and the code differ: {wrong}"
        self.model.tie_weights()
        self.ids = []

    @staticmethod
    def empty(folder):
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
        config._attn_implementation = "eager"
        return AutoModelForCausalLM.from_config(config, trust_remote_code=True).to(torch.float32).eval()

    @staticmethod
    def untied(model):
        tied = set(getattr(model, "_tied_weights_keys", None) or []) if model.config.tie_word_embeddings else set()
        return {name: list(value.shape) for name, value in model.state_dict().items() if name not in tied}

    @staticmethod
    def shapes(folder):
        return Original.untied(Original.empty(folder))

    def __call__(self, token):
        self.ids.append(token)
        with self.torch.no_grad():
            return self.model(self.torch.tensor([self.ids]), use_cache=False).logits[0, -1].double().tolist()


def model_class(code):
    if code is None:
        return Original
    specification = importlib.util.spec_from_file_location(code.stem, code)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.Model


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_weights(folder, model, salt):
    path = folder / "weights.json"
    if path.exists():
        tensors = json.loads(path.read_text())["tensors"]
    else:
        source = folder if model is Original else json.loads((folder / "config.json").read_text())
        tensors = [entry(name, shape) for name, shape in sorted(model.shapes(source).items())]
    write_json(path, {"format": "seeded-weights-1", "salt": salt, "tensors": tensors})


def meta(folder, options):
    return {
        "name": folder.name,
        "source": options.source,
        "compute": "float32 arithmetic, eager attention, CPU" if options.code is None else f"by {options.code.name}",
    }


def write(folder, options):
    model = model_class(options.code)
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    if not (folder / "prompt.json").exists():
        (folder / "prompt.json").write_text(json.dumps({"ids": default_prompt(vocab)}) + "\n")
    prompt = json.loads((folder / "prompt.json").read_text())["ids"]
    for salt in options.salts:
        write_weights(folder, model, salt)
        found = seeded.computed(model(folder), prompt, options.greedy)
        margin = seeded.smallest_margin(found)
        print(f"salt {salt!r}: smallest margin {margin:.3g}, {len(set(found['greedy_ids']))} different tokens")
        if margin >= LEAST_MARGIN:
            seeded.write_expected(folder, found)
            write_json(folder / "meta.json", meta(folder, options))
            return 0
    print("every salt gives a near tie; give others with --salts, or raise the amplitude of the LM head")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--code", type=pathlib.Path, metavar="FILE.py", help="compute with this file's Model")
    parser.add_argument("--source", default="unknown", help="repository, commit and file of the original code")
    parser.add_argument("--greedy", type=int, default=16, metavar="TOKENS", help="greedy steps (default: 16)")
    parser.add_argument("--salts", nargs="+", default=["", *map(str, range(1, 20))], metavar="SALT")
    options = parser.parse_args()
    return write(options.folder, options)


if __name__ == "__main__":
    sys.exit(main())
