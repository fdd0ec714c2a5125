#!/usr/bin/env python3
"""Prints the largest difference between the logits of `tp-infer logits --weights f32` and those of transformers.

  tests/reference/compare_logits.py MODEL ids.json logits.npy

Needs torch and transformers."""

import json
import sys

if len(sys.argv) != 4 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)

import numpy
import torch
import transformers

folder, ids_file, logits_file = sys.argv[1:]
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
ids = torch.tensor([json.load(open(ids_file))])
with torch.no_grad():
    print(abs(model(ids).logits[0].numpy() - numpy.load(logits_file)).max())
