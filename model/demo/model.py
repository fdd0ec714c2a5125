"""A small Llama in PyTorch, with the tensor names of Hugging Face.

Shapes in the comments: B sequences, T positions, S positions with those that
are cached, D hidden size, H heads, K key/value heads, E head size, V vocabulary.
"""

import json
import struct

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": [1, 5],
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": 256,
    "initializer_range": 0.04,
    "intermediate_size": 512,
    "max_position_embeddings": 1024,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 1536,
}

# Guesses what the model above will say: a sixteenth of its layers' weights.
# One key/value head for two query heads, and three layers, since a name is
# copied by a layer that finds what came before it and one that fetches it.
DRAFT_CONFIG = {
    **CONFIG,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
}


def linear(inputs, outputs):
    """A linear layer without bias; its weight is [outputs, inputs]."""
    return nn.Linear(inputs, outputs, bias=False)


class RMSNorm(nn.Module):
    """x / rms(x) * weight, computed in float32."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        x = x.float()
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        return x * scale * self.weight


def rotate(x, cos, sin):
    """Rotary embedding; pairs are (i, i + E/2).  x: [B, heads, T, E]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Causal attention in which H/K query heads share one key/value head."""

    def __init__(self, c):
        super().__init__()
        self.heads = c["num_attention_heads"]
        self.kv_heads = c["num_key_value_heads"]
        self.size = c["head_dim"]
        hidden = c["hidden_size"]
        self.q_proj = linear(hidden, self.heads * self.size)
        self.k_proj = linear(hidden, self.kv_heads * self.size)
        self.v_proj = linear(hidden, self.kv_heads * self.size)
        self.o_proj = linear(self.heads * self.size, hidden)

    def split(self, x, heads):
        """[B, T, heads*E] to [B, heads, T, E]."""
        return x.view(*x.shape[:2], heads, self.size).transpose(1, 2)

    def forward(self, x, cos, sin, mask, past=None):
        """x: [B, T, D]; cos, sin: [T, E]; mask: [T, S], 0 or -inf; past: a
        list with the keys and values before, which is brought up to date."""
        batch, length, _ = x.shape
        q = rotate(self.split(self.q_proj(x), self.heads), cos, sin)
        k = rotate(self.split(self.k_proj(x), self.kv_heads), cos, sin)
        v = self.split(self.v_proj(x), self.kv_heads)
        if past is not None:
            if past:
                k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            past[:] = k, v
        shared = (batch, self.kv_heads, -1, self.size)      # [B, K, H/K*T, E]
        scores = (q * self.size ** -0.5).reshape(shared) @ k.transpose(2, 3)
        scores = scores.view(batch, self.heads, length, -1) + mask
        mixed = scores.softmax(-1).view(
            batch, self.kv_heads, -1, k.shape[2]) @ v
        mixed = mixed.view(batch, self.heads, length, self.size)
        mixed = mixed.transpose(1, 2).reshape(batch, length, -1)
        return self.o_proj(mixed)


class MLP(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, c):
        super().__init__()
        hidden, inner = c["hidden_size"], c["intermediate_size"]
        self.gate_proj = linear(hidden, inner)
        self.up_proj = linear(hidden, inner)
        self.down_proj = linear(inner, hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and MLP, each with a norm before and a residual around it."""

    def __init__(self, c):
        super().__init__()
        hidden, eps = c["hidden_size"], c["rms_norm_eps"]
        self.input_layernorm = RMSNorm(hidden, eps)
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.mlp = MLP(c)

    def forward(self, x, cos, sin, mask, past=None):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask, past)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding, layers, last norm."""

    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(
            Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])


class Llama(nn.Module):
    """Token ids [B, T] to logits [B, T, V]; the output layer is tied."""

    def __init__(self, c):
        super().__init__()
        self.model = Decoder(c)
        half = torch.arange(0, c["head_dim"], 2).float() / c["head_dim"]
        angles = torch.outer(torch.arange(c["max_position_embeddings"]),
                             c["rope_theta"] ** -half)
        angles = torch.cat((angles, angles), dim=-1)        # [positions, E]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.initialize(c)

    def initialize(self, c):
        """Normal weights; those of queries and keys are larger, so that
        attention is not the same everywhere from the start."""
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                sharp = name.endswith(("q_proj.weight", "k_proj.weight"))
                std = c["initializer_range"] * (2 if sharp else 1)
                nn.init.normal_(weight, std=std)

    def forward(self, ids, cache=None):
        """With a cache (empty_cache), ids are the tokens after those in it."""
        past = cache[0][0].shape[2] if cache and cache[0] else 0
        length = ids.shape[1]
        cos, sin = self.cos[past:past + length], self.sin[past:past + length]
        mask = torch.full((length, past + length), float("-inf")).triu(1 + past)
        x = self.model.embed_tokens(ids)
        for i, layer in enumerate(self.model.layers):
            x = layer(x, cos, sin, mask, None if cache is None else cache[i])
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)

    def empty_cache(self):
        """Return what forward() keeps keys and values in."""
        return [[] for _ in self.model.layers]


# ------------------------------------------------------------ safetensors

def to_bytes(tensor):
    """Return the little-endian bytes of a tensor rounded to bfloat16."""
    bits = tensor.detach().to(torch.bfloat16).contiguous().view(torch.int16)
    return bits.numpy().astype("<i2").tobytes()


def save_safetensors(tensors, path):
    """Write {name: tensor} as bfloat16."""
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(tensors):
        blob = to_bytes(tensors[name])
        header[name] = {"dtype": "BF16", "shape": list(tensors[name].shape),
                        "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def load_safetensors(path):
    """Return {name: float32 tensor} from a file of bfloat16 tensors."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        bits = torch.frombuffer(data[first:last], dtype=torch.bfloat16)
        tensors[name] = bits.float().reshape(entry["shape"])
    return tensors
