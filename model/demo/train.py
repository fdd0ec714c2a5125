"""Make the demo model: stories, tokenizer, training, evaluation, files.

    nice -n 10 python3 train.py

writes everything into the folder of this script.  A run that was interrupted
continues from its last checkpoint when started again with the same options;
delete the checkpoint to start anew.
"""

import argparse
import itertools
import math
import os
import random
import time

import torch
import torch.nn.functional as F

import bpe
import evaluate
import model as llama
import stories

HERE = os.path.dirname(os.path.abspath(__file__))
POOL = 1024           # stories that are written and sorted by length at once
IGNORE = -100         # target of padding positions
BEGINNINGS = {0: 64, 1: 128}    # length in the first, second 200 steps


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=HERE, help="folder for the files")
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=16,
                        help="stories per step; must divide %d" % POOL)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--precision", choices=["bfloat16", "float32"],
                        default="bfloat16", help="of matrix products")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


# ------------------------------------------------------------------- data

def make_tokenizer(seed, vocab_size):
    """Train the tokenizer on 20000 stories of a stream of their own."""
    texts = itertools.islice(stories.stories("tokenizer %d" % seed), 20000)
    return bpe.Tokenizer(bpe.train(texts, vocab_size))


def make_pool(tokenizer, seed, index, batch):
    """Return the batches of one pool: lists of stories of similar length."""
    texts = itertools.islice(
        stories.stories("train %d pool %d" % (seed, index)), POOL)
    rows = sorted((tokenizer.encode(text) + [bpe.EOS_ID] for text in texts),
                  key=len)
    batches = [rows[i:i + batch] for i in range(0, POOL, batch)]
    random.Random("order %d %d" % (seed, index)).shuffle(batches)
    return batches


def to_tensors(rows):
    """Return inputs and targets [B, T] of some rows, padded at the end.

    T is a multiple of 16, since few different shapes are faster than many.
    """
    width = -(-max(map(len, rows)) // 16) * 16
    inputs = [row + [bpe.EOS_ID] * (width - len(row)) for row in rows]
    targets = [row[1:] + [IGNORE] * (width - len(row) + 1) for row in rows]
    return torch.tensor(inputs), torch.tensor(targets)


def beginnings(tokenizer, options, step, length):
    """Return rows with the first `length` tokens of many stories."""
    texts = stories.stories("train %d begin %d" % (options.seed, step))
    rows = map(tokenizer.encode, texts)
    long = (row[:length] for row in rows if len(row) >= length)
    return list(itertools.islice(long, options.batch * 224 // length))


def batches(tokenizer, options, start):
    """Yield the batch of every step from `start` on.

    The first steps see only beginnings of stories, but more of them: what a
    name refers to is learned sooner when it is not far away.
    """
    per_pool = POOL // options.batch
    pool = None
    for step in range(start, options.steps):
        length = BEGINNINGS.get(step // 200)
        if length:
            rows = beginnings(tokenizer, options, step, length)
            yield step, *to_tensors(rows)
            continue
        if pool is None or step % per_pool == 0:
            pool = make_pool(tokenizer, options.seed, step // per_pool,
                             options.batch)
        yield step, *to_tensors(pool[step % per_pool])


# --------------------------------------------------------------- training

def schedule(step, options):
    """Return the part of the peak learning rate that a step uses.

    Linear warm-up, then half a cosine down to 1 %.
    """
    if step < options.warmup:
        return (step + 1) / options.warmup
    done = (step - options.warmup) / max(1, options.steps - options.warmup)
    return 0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2


def make_optimizer(model, options):
    """AdamW; weight decay for the matrices only."""
    weights = list(model.parameters())
    groups = [
        {"params": [w for w in weights if w.dim() > 1],
         "weight_decay": options.decay},
        {"params": [w for w in weights if w.dim() == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98))


def loss_of(model, inputs, targets, precision):
    """Return the mean cross entropy per token."""
    with torch.autocast("cpu", dtype=torch.bfloat16,
                        enabled=precision == "bfloat16"):
        logits = model(inputs)
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(),
                           ignore_index=IGNORE)


def train_step(model, optimizer, inputs, targets, options):
    """Do one step; return its loss."""
    loss = loss_of(model, inputs, targets, options.precision)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def resume(path, model, optimizer):
    """Load a checkpoint if there is one; return the step and time spent."""
    if not os.path.exists(path):
        return 0, 0.0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print("continuing at step", state["step"], flush=True)
    return state["step"], state["seconds"]


def checkpoint(path, model, optimizer, step, seconds):
    """Save everything that is needed to continue."""
    torch.save({"model": model.state_dict(), "step": step, "seconds": seconds,
                "optimizer": optimizer.state_dict()}, path + ".new")
    os.replace(path + ".new", path)


def train(model, tokenizer, options):
    """Train the model in place; return the seconds it took."""
    optimizer = make_optimizer(model, options)
    start, before = resume(options.checkpoint, model, optimizer)
    clock, tokens, losses = time.time(), 0, []
    for step, inputs, targets in batches(tokenizer, options, start):
        for group in optimizer.param_groups:
            group["lr"] = options.rate * schedule(step, options)
        losses.append(train_step(model, optimizer, inputs, targets, options))
        tokens += inputs.numel()
        seconds = time.time() - clock
        if (step + 1) % 50 == 0:
            print("step %d  loss %.4f  %.0f tokens/s  %.0f s" % (
                step + 1, sum(losses) / len(losses), tokens / seconds,
                before + seconds), flush=True)
            losses.clear()
        if (step + 1) % 250 == 0 or step + 1 == options.steps:
            checkpoint(options.checkpoint, model, optimizer, step + 1,
                       before + seconds)
    return before + time.time() - clock


# ------------------------------------------------------------------ files

def write_configs(folder):
    """Write config.json and generation_config.json."""
    config = llama.CONFIG
    bpe.write_json(folder + "/config.json", config)
    bpe.write_json(folder + "/generation_config.json", {
        "bos_token_id": config["bos_token_id"],
        "eos_token_id": config["eos_token_id"],
        "do_sample": True, "temperature": 0.7, "top_p": 0.95,
    })


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    tokenizer = make_tokenizer(options.seed, llama.CONFIG["vocab_size"])
    bpe.save(tokenizer, options.out)
    write_configs(options.out)
    model = llama.Llama(llama.CONFIG)
    count = sum(weight.numel() for weight in model.parameters())
    print("%d parameters" % count, flush=True)
    seconds = train(model, tokenizer, options)
    print("trained in %.1f minutes, %.1f minutes of processor time"
          % (seconds / 60, time.process_time() / 60))
    llama.save_safetensors(dict(model.named_parameters()),
                           options.out + "/model.safetensors")
    evaluate.write_held_out(options.out)
    evaluate.report(options.out)


if __name__ == "__main__":
    main()
