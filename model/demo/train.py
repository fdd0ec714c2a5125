"""Make the demo model: conversations, tokenizer, training, evaluation, files.

    nice -n 10 python3 train.py

writes everything into the folder of this script.  A run that was interrupted
continues from its last checkpoint when started again; delete the checkpoint
to start anew.  A run that is too slow may be continued with fewer --steps:
the rate then falls from where it is.

    nice -n 10 python3 train.py --draft

distils the draft model, in the folder draft, from the model that is there.
"""

import argparse
import itertools
import os
import random
import sys

# Without these, the C library returns every tensor to the kernel and fetches
# new pages for the next one (four times slower), and threads that wait for each
# other keep a shared machine busy.  They are read before main() runs.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "4000000000",
               "MALLOC_TRIM_THRESHOLD_": "8000000000",
               "MALLOC_TOP_PAD_": "268435456",
               "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
if __name__ == "__main__" and any(
        name not in os.environ for name in ENVIRONMENT):
    os.execve(sys.executable, [sys.executable] + sys.argv,
              {**os.environ, **ENVIRONMENT})

import time

import torch
import torch.nn.functional as F

import bpe
import chats
import evaluate
import evaluate_draft
import model as llama
import muon
import stories

HERE = os.path.dirname(os.path.abspath(__file__))
POOL = 1024           # samples that are made and sorted by length at once
IGNORE = -100         # target of positions that are not learned

# Each stage's end, as a part of all steps, and its samples: whether
# conversations are brief, the most tokens of a sample, the share of plain
# stories, and the weight of a name that the text already contains. The model
# first learns to copy over short distances, then over longer ones.
STAGES = [
    (0.40, {"brief": True, "longest": 128, "plain": 0.1, "copies": 6.0}),
    (0.55, {"brief": False, "longest": 224, "plain": 0.3, "copies": 4.0}),
    (0.80, {"brief": False, "longest": 448, "plain": 0.3, "copies": 2.0}),
    (1.00, {"brief": False, "longest": 1024, "plain": 0.3, "copies": 1.0}),
]
# Stages of the draft model. `taught`: the draft model learns the demo model's
# distribution, which takes two and a half times as long as learning the text.
DRAFT_STAGES = [
    (0.20, {"brief": True, "longest": 128, "plain": 0.1, "copies": 6.0}),
    (0.50, {"brief": False, "longest": 448, "plain": 0.3, "copies": 4.0}),
    (1.00, {"brief": False, "longest": 1024, "plain": 0.3, "copies": 1.0,
            "taught": True}),
]
LONG_TURNS = ((12, 1), (16, 1))   # exchanges of the longest conversations


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draft", action="store_true",
                        help="distil the draft model")
    parser.add_argument("--out", help="folder for the files")
    parser.add_argument("--checkpoint")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int, default=3072,
                        help="tokens per step")
    parser.add_argument("--rate", type=float, default=0.02,
                        help="of the matrices")
    parser.add_argument("--adam-rate", type=float, default=3e-3,
                        help="of the embedding and the norms")
    parser.add_argument("--warmup", type=int, default=60)
    parser.add_argument("--cooldown", type=float, default=0.5,
                        help="last part of the steps, in which the rate falls")
    parser.add_argument("--stop", type=int, help="step to stop at, for trials")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draft = options.draft
    options.out = options.out or (HERE + "/draft" if draft else HERE)
    options.checkpoint = options.checkpoint or (
        "draft.pt" if draft else "checkpoint.pt")
    options.steps = options.steps or (2400 if draft else 1600)
    options.stages = DRAFT_STAGES if draft else STAGES
    return options


# ------------------------------------------------------------------- data

def copied_words():
    """Return the words that shall be one token, to be copied in one step."""
    words = stories.WORDS
    names = words["girl"] + words["boy"]
    things = words["animal"] + [place["name"] for place in words["place"]]
    return ([" " + word for word in names + things + words["adjective"]]
            + names + things + [" " + name.lower() for name in names])


def make_tokenizer(seed, vocab_size):
    """Train the tokenizer on 20000 conversations of a stream of their own."""
    made = itertools.islice(chats.chats("tokenizer %d" % seed), 20000)
    texts = (text for chat in made for _, text in chat.turns)
    return bpe.Tokenizer(bpe.train(texts, vocab_size, copied_words()))


def encode_chat(tokenizer, turns):
    """Return ids and targets of a conversation; only answers are learned."""
    ids, targets = [bpe.BOS_ID], [IGNORE]
    for role, text in turns:
        message = tokenizer.encode_message(role, text)
        learned = role == "assistant"
        ids += message
        targets += [IGNORE] + (message[1:] if learned
                               else [IGNORE] * (len(message) - 1))
    return ids[:-1], targets[1:]


def encode_story(tokenizer, text):
    """Return ids and targets of a story without a conversation."""
    ids = tokenizer.encode(text) + [bpe.EOS_ID]
    return ids[:-1], ids[1:]


def make_samples(tokenizer, seed, settings):
    """Yield (ids, targets) without end."""
    rng = random.Random("mix " + seed)
    plain = stories.stories("plain " + seed)
    talk = chats.chats("chat " + seed, settings["brief"])
    long = chats.chats("long " + seed, turns=LONG_TURNS)
    longest = settings["longest"]
    while True:
        if rng.random() < settings["plain"]:
            ids, targets = encode_story(tokenizer, next(plain))
            yield ids[:longest // 2] if settings["brief"] else ids, targets
        else:
            extra = longest == 1024 and rng.random() < 0.015
            yield encode_chat(tokenizer, next(long if extra else talk).turns)


def make_pool(tokenizer, options, index, stage):
    """Return the batches of one pool: samples of similar length."""
    settings = options.stages[stage][1]
    longest = settings["longest"]
    samples = make_samples(tokenizer, "%d %d" % (options.seed, index), settings)
    rows = []
    for ids, targets in itertools.islice(samples, POOL):
        rows.append((ids[:longest], targets[:min(len(ids), longest)]))
    rows.sort(key=lambda row: len(row[0]))
    batches = [[]]
    for row in rows:
        if (len(batches[-1]) + 1) * padded([row]) > options.batch:
            batches.append([])
        batches[-1].append(row)
    random.Random("order %d %d" % (options.seed, index)).shuffle(batches)
    return batches


def padded(rows):
    """Return the common length of some rows, a multiple of 16, since few
    different shapes are faster than many."""
    return -(-max(len(ids) for ids, _ in rows) // 16) * 16


def to_tensors(rows):
    """Return inputs and targets [B, T] of some rows, padded at the end."""
    width = padded(rows)
    inputs = [ids + [bpe.EOS_ID] * (width - len(ids)) for ids, _ in rows]
    targets = [t + [IGNORE] * (width - len(t)) for _, t in rows]
    return torch.tensor(inputs), torch.tensor(targets)


def copy_classes(tokenizer):
    """Return for every token which name, animal or place it is, or 0."""
    classes = torch.zeros(len(tokenizer.tokens), dtype=torch.long)
    words = [word.strip().lower() for word in copied_words()]
    for word, text in zip(words, copied_words()):
        token, = tokenizer.encode_text(text)
        classes[token] = 1 + words.index(word)
    return classes


def is_copy(classes, inputs, targets):
    """Return where the target is a word that is there before.  [B, T]"""
    target = classes[targets.clamp(min=0)]
    same = (classes[inputs][:, None, :] == target[:, :, None]).tril()
    return same.any(-1) & (target > 0) & (targets != IGNORE)


class Batches:
    """The batches of the training, and where it is in them."""

    def __init__(self, tokenizer, options):
        self.tokenizer, self.options = tokenizer, options
        self.place = {"pool": -1, "used": 0, "stage": 0}
        self.pool = []

    def make(self):
        self.pool = make_pool(self.tokenizer, self.options,
                              self.place["pool"], self.place["stage"])

    def resume(self, place):
        """Continue where a checkpoint was."""
        self.place = dict(place)
        self.make()

    def next(self, step):
        """Return inputs and targets of a step."""
        if self.place["used"] == len(self.pool):
            done = step / self.options.steps
            stage = next(i for i, (end, _) in enumerate(self.options.stages)
                         if done < end)
            self.place = {"pool": self.place["pool"] + 1, "used": 0,
                          "stage": stage}
            self.make()
        rows = self.pool[self.place["used"]]
        self.place["used"] += 1
        return to_tensors(rows)


# --------------------------------------------------------------- training

def schedule(step, options):
    """Return the part of the peak rate that a step uses.

    Linear warm-up, then constant, then linear down to 1 %: with such a
    schedule a run can be shortened while it is under way.
    """
    left = (options.steps - step) / (options.cooldown * options.steps)
    return min((step + 1) / options.warmup, 1.0, 0.01 + 0.99 * left)


def make_optimizers(model, options):
    """Muon for the matrices, Adam for the embedding and the norms."""
    matrices = [w for name, w in model.named_parameters()
                if w.dim() == 2 and "embed" not in name]
    others = [w for name, w in model.named_parameters()
              if w.dim() == 1 or "embed" in name]
    return [muon.Muon(matrices, lr=options.rate),
            torch.optim.Adam(others, lr=options.adam_rate, betas=(0.9, 0.98))]


@torch.no_grad()
def goals(teacher, inputs, targets):
    """Return what cross_entropy() compares logits with: targets [B*T], or a
    teacher's probabilities [B*T, V]."""
    if teacher is None:
        return targets.flatten()
    return teacher(inputs).flatten(0, 1).softmax(-1)


def train_step(model, teacher, optimizers, inputs, targets, copies, weight,
               rate):
    """Do one step; return the loss and that of the copies."""
    losses = F.cross_entropy(model(inputs).flatten(0, 1),
                             goals(teacher, inputs, targets),
                             ignore_index=IGNORE, reduction="none")
    copies = copies.flatten()
    weights = (targets.flatten() != IGNORE) + (weight - 1) * copies
    loss = (losses * weights).sum() / weights.sum()
    model.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = optimizer.defaults["lr"] * rate
        optimizer.step()
    return loss.item(), (losses * copies).sum().item() / copies.sum().item()


def resume(path, model, optimizers, batches):
    """Load a checkpoint if there is one; return the step and time spent."""
    if not os.path.exists(path):
        return 0, 0.0, 0.0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"]):
        rate = optimizer.defaults["lr"]
        optimizer.load_state_dict(saved)
        optimizer.defaults["lr"] = rate
    batches.resume(state["place"])
    print("continuing at step", state["step"], flush=True)
    return state["step"], state["seconds"], state["processor"]


def checkpoint(path, model, optimizers, batches, step, seconds, processor):
    """Save everything that is needed to continue.  There is no other random
    state: every pool is drawn from its number."""
    torch.save({"model": model.state_dict(), "step": step, "seconds": seconds,
                "processor": processor, "place": batches.place,
                "optimizers": [o.state_dict() for o in optimizers]},
               path + ".new")
    os.replace(path + ".new", path)


def train(model, teacher, tokenizer, options):
    """Train the model in place, to do what a teacher does if there is one;
    return the seconds it took."""
    optimizers = make_optimizers(model, options)
    batches = Batches(tokenizer, options)
    start, before, used = resume(options.checkpoint, model, optimizers, batches)
    clock, processor = time.time(), time.process_time() - used
    classes = copy_classes(tokenizer)
    tokens, losses = 0, []
    last = options.stop or options.steps
    for step in range(start, last):
        inputs, targets = batches.next(step)
        settings = options.stages[batches.place["stage"]][1]
        losses.append(train_step(
            model, teacher if settings.get("taught") else None, optimizers,
            inputs, targets, is_copy(classes, inputs, targets),
            settings["copies"], schedule(step, options)))
        tokens += inputs.numel()
        seconds = time.time() - clock
        if (step + 1) % 20 == 0:
            print("step %d  stage %d  loss %.4f  of copies %.4f  %.0f tokens/s  %.0f s, "
                  "%.0f s of processor time" % (
                      step + 1, batches.place["stage"],
                      *(sum(column) / len(losses) for column in zip(*losses)),
                      tokens / seconds,
                      before + seconds, time.process_time() - processor),
                  flush=True)
            losses.clear()
        if (step + 1) % 50 == 0 or step + 1 == last:
            checkpoint(options.checkpoint, model, optimizers, batches,
                       step + 1, before + seconds,
                       time.process_time() - processor)
            print("    copied: hero %.2f, animal %.2f"
                  % evaluate.copied(model, tokenizer), flush=True)
    return before + time.time() - clock, time.process_time() - processor


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
    teacher, config = None, llama.CONFIG
    if options.draft:
        os.makedirs(options.out, exist_ok=True)
        teacher, config = evaluate.load_model(HERE), llama.DRAFT_CONFIG
        tokenizer = bpe.load(HERE)
        bpe.write_json(options.out + "/config.json", config)
    elif os.path.exists(options.out + "/tokenizer.json") and os.path.exists(
            options.checkpoint):
        tokenizer = bpe.load(options.out)
    else:
        tokenizer = make_tokenizer(options.seed, llama.CONFIG["vocab_size"])
        bpe.save(tokenizer, options.out)
        write_configs(options.out)
    model = llama.Llama(config)
    count = sum(weight.numel() for weight in model.parameters())
    print("%d parameters" % count, flush=True)
    seconds, processor = train(model, teacher, tokenizer, options)
    print("trained in %.1f minutes, %.1f minutes of processor time"
          % (seconds / 60, processor / 60))
    llama.save_safetensors(dict(model.named_parameters()),
                           options.out + "/model.safetensors")
    if options.stop:
        return
    if options.draft:
        evaluate_draft.report(options.out)
    else:
        evaluate.write_held_out(options.out)
        evaluate.report(options.out)


if __name__ == "__main__":
    main()
