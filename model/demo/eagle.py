"""Train an EAGLE-3 drafter for the demo model, and measure how often it is right.

    nice -n 15 python3 eagle.py

writes the folder eagle3.  The drafter guesses the model's next tokens from the
model's residual streams after some of its layers.  It has one layer, and uses
the model's embedding and output layer.  A run that was interrupted continues
from eagle.pt; delete this file to start anew.

    python3 eagle.py --measure

only measures the drafter that is there.

Source: Li et al., EAGLE-3, 2025.
"""

import argparse
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

import bpe
import evaluate
import evaluate_draft
import model as llama
import train

HERE = train.HERE
DRAFTS = 4            # drafted tokens that training follows
PLACES = [1, 2, 4]    # layers before the streams that the drafter reads
STAGES = [(0.3, {"brief": True, "longest": 128, "plain": 0.1}),
          (1.0, {"brief": False, "longest": 448, "plain": 0.3})]

CONFIG = {
    **llama.CONFIG,
    "architectures": ["LlamaForCausalLMEagle3"],
    "draft_vocab_size": 1536,
    "eagle_aux_hidden_state_layer_ids": PLACES,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
}


@torch.no_grad()
def streams_of(target, ids):
    """Return the residual streams after PLACES layers, side by side
    [B, T, 3*D], and the logits [B, T, V]."""
    length = ids.shape[1]
    cos, sin = target.cos[:length], target.sin[:length]
    mask = torch.full((length, length), float("-inf")).triu(1)
    x, places = target.model.embed_tokens(ids), []
    for i, layer in enumerate(target.model.layers):
        x = layer(x, cos, sin, mask)
        if i + 1 in PLACES:
            places.append(x)
    logits = F.linear(target.model.norm(x), target.model.embed_tokens.weight)
    return torch.cat(places, -1), logits


class Layer(nn.Module):
    """A layer of Llama whose queries, keys and values read the token's vector
    and the state side by side."""

    def __init__(self, c):
        super().__init__()
        hidden, eps = c["hidden_size"], c["rms_norm_eps"]
        self.input_layernorm = llama.RMSNorm(hidden, eps)
        self.hidden_norm = llama.RMSNorm(hidden, eps)
        self.self_attn = llama.Attention({**c, "hidden_size": 2 * hidden})
        self.self_attn.o_proj = llama.linear(
            c["num_attention_heads"] * c["head_dim"], hidden)
        self.post_attention_layernorm = llama.RMSNorm(hidden, eps)
        self.mlp = llama.MLP(c)

    def project(self, vectors, states, cos, sin):
        """Return queries [B, H, T, E], keys and values [B, K, T, E]."""
        a = self.self_attn
        x = torch.cat((self.input_layernorm(vectors),
                       self.hidden_norm(states)), -1)
        return (llama.rotate(a.split(a.q_proj(x), a.heads), cos, sin),
                llama.rotate(a.split(a.k_proj(x), a.kv_heads), cos, sin),
                a.split(a.v_proj(x), a.kv_heads))

    def finish(self, states, mixed):
        """Add attention's result [B, H, T, E] and the MLP to the states."""
        batch, _, length, _ = mixed.shape
        mixed = mixed.transpose(1, 2).reshape(batch, length, -1)
        states = states + self.self_attn.o_proj(mixed)
        return states + self.mlp(self.post_attention_layernorm(states))


class Drafter(nn.Module):
    """Streams of the target and the tokens after them, to logits."""

    def __init__(self, c, target):
        super().__init__()
        hidden = c["hidden_size"]
        self.fc = llama.linear(len(PLACES) * hidden, hidden)
        self.midlayer = Layer(c)
        self.norm = llama.RMSNorm(hidden, c["rms_norm_eps"])
        self.table = [target.model.embed_tokens.weight.detach()]  # no parameter
        self.cos, self.sin = target.cos, target.sin
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=c["initializer_range"])
        with torch.no_grad():   # begins with the target's last stream
            self.fc.weight.mul_(0.1)
            self.fc.weight[:, -hidden:] += torch.eye(hidden)
            self.norm.weight.copy_(0.3 * target.model.norm.weight)

    def forward(self, ids, streams, drafts):
        """Return a list of logits [B, T - drafts, V].  Row i of entry k is for
        the token at i + k + 2, after drafted tokens that were all right: the
        drafter has read the streams up to i, and then its own states."""
        table, length = self.table[0], ids.shape[1] - drafts
        mask = torch.full((length, length), float("-inf")).triu(1)
        states, layer, result = self.fc(streams[:, :length]), self.midlayer, []
        drafted = []          # keys and values of drafted positions
        for k in range(drafts):
            q, own_keys, own_values = layer.project(
                F.embedding(ids[:, k + 1:k + 1 + length], table), states,
                self.cos[k:k + length], self.sin[k:k + length])
            if k == 0:
                keys, values = own_keys, own_values
            else:
                drafted.append((own_keys, own_values))
            batch, heads, _, size = q.shape
            groups = keys.shape[1]
            q = (q * size ** -0.5).view(batch, groups, -1, length, size)
            scores = [q @ keys[:, :, None].transpose(3, 4) + mask]
            scores += [(q * own[:, :, None]).sum(-1, keepdim=True)
                       for own, _ in drafted]
            shares = torch.cat(scores, -1).softmax(-1)
            mixed = shares[..., :length] @ values[:, :, None]
            for i, (_, own) in enumerate(drafted):
                mixed = mixed + shares[..., length + i, None] * own[:, :, None]
            states = layer.finish(
                states, mixed.reshape(batch, heads, length, size))
            result.append(F.linear(self.norm(states), table))
        return result


def loss_of(drafter, target, inputs, targets):
    """Return the mean cross entropy with what the target says; later drafted
    tokens count less."""
    streams, logits = streams_of(target, inputs)
    wanted = logits.softmax(-1)
    loss = 0.0
    for k, guesses in enumerate(drafter(inputs, streams, DRAFTS)):
        rows = slice(k + 1, k + 1 + guesses.shape[1])
        learned = (targets[:, rows] != train.IGNORE).float()
        each = -(wanted[:, rows] * guesses.log_softmax(-1)).sum(-1)
        loss = loss + 0.8 ** k * (each * learned).sum() / learned.sum()
    return loss


def learn(drafter, target, tokenizer, options):
    """Train the drafter in place."""
    optimizers = train.make_optimizers(drafter, options)
    batches = train.Batches(tokenizer, options)
    start, before, used = train.resume(options.checkpoint, drafter, optimizers,
                                       batches)
    losses = []
    for step in range(start, options.steps):
        inputs, targets = batches.next(step)
        if inputs.shape[1] < 3 * DRAFTS:
            continue
        loss = loss_of(drafter, target, inputs, targets)
        drafter.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = (optimizer.defaults["lr"]
                               * train.schedule(step, options))
            optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 20 == 0 or step + 1 == options.steps:
            seconds = used + train.time.process_time()
            print("step %d  loss %.4f  %.0f s of processor time" % (
                step + 1, sum(losses) / len(losses), seconds), flush=True)
            losses.clear()
            train.checkpoint(options.checkpoint, drafter, optimizers, batches,
                             step + 1, before, seconds)


@torch.no_grad()
def measure(drafter, target, tokenizer, count):
    """Print how often the target accepts each of DRAFTS drafted tokens of a
    step, in its most probable answers to held-out questions."""
    drafted, accepted, texts = 0, [0] * DRAFTS, 0
    for seed, ids in enumerate(evaluate_draft.prompts(tokenizer, count)):
        new, _ = evaluate_draft.speak(target, ids, 0, seed)
        text = torch.tensor([ids + new + [bpe.EOS_ID] * DRAFTS])
        guesses = [logits[0].argmax(-1) for logits in
                   drafter(text, streams_of(target, text)[0], DRAFTS)]
        place, end = len(ids) + 1, len(ids) + len(new)
        texts += 1
        while place < end:
            drafted += 1
            right = 0
            while (right < DRAFTS and place + right < end and
                   guesses[right][place - 2] == text[0, place + right]):
                accepted[right] += 1
                right += 1
            place += right + 1
    print("%d texts, %d steps, accepted at each place: %s" % (
        texts, drafted, "  ".join("%.3f" % (n / drafted) for n in accepted)))
    print("%.2f accepted tokens per step" % (sum(accepted) / drafted))


def load(folder, target):
    """Return the drafter of a folder, in float32."""
    drafter = Drafter(CONFIG, target)
    drafter.load_state_dict(
        llama.load_safetensors(folder + "/model.safetensors"))
    return drafter.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--measure", action="store_true",
                        help="only measure the drafter")
    parser.add_argument("--out", default=HERE + "/eagle3")
    parser.add_argument("--checkpoint", default="eagle.pt")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=512,
                        help="tokens per step")
    parser.add_argument("--rate", type=float, default=0.03)
    parser.add_argument("--adam-rate", type=float, default=5e-3)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--cooldown", type=float, default=0.6)
    parser.add_argument("--count", type=int, default=100, help="texts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    options.stages = STAGES
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    tokenizer, target = bpe.load(HERE), evaluate.load_model(HERE)
    if not options.measure:
        os.makedirs(options.out, exist_ok=True)
        drafter = Drafter(CONFIG, target)
        learn(drafter, target, tokenizer, options)
        bpe.write_json(options.out + "/config.json", CONFIG)
        llama.save_safetensors(dict(drafter.named_parameters()),
                               options.out + "/model.safetensors")
    measure(load(options.out, target), target, tokenizer, options.count)


if __name__ == "__main__":
    if any(name not in os.environ for name in train.ENVIRONMENT):
        os.execve(sys.executable, [sys.executable] + sys.argv,
                  {**os.environ, **train.ENVIRONMENT})
    main()
