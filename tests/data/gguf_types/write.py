#!/usr/bin/env python3
"""Writes types.gguf: two rows of random blocks of every block type, and a stack of NVFP4 experts with factors.

The file is a seed of fuzz_gguf. tests/model/weights/gguf_types_test.cc reads its values. It is written from GGUF's
specification, without tp-infer's code and without llama.cpp's.

  tests/data/gguf_types/write.py > tests/data/gguf_types/types.gguf
"""
import random
import struct
import sys

# number, name, elements and bytes of a block, places of its f16 numbers, places of its scales of 8 bits
TYPES = [
    (2, "Q4_0", 32, 18, [0], []),
    (3, "Q4_1", 32, 20, [0, 2], []),
    (6, "Q5_0", 32, 22, [0], []),
    (7, "Q5_1", 32, 24, [0, 2], []),
    (8, "Q8_0", 32, 34, [0], []),
    (10, "Q2_K", 256, 84, [80, 82], []),
    (11, "Q3_K", 256, 110, [108], []),
    (12, "Q4_K", 256, 144, [0, 2], []),
    (13, "Q5_K", 256, 176, [0, 2], []),
    (14, "Q6_K", 256, 210, [208], []),
    (16, "IQ2_XXS", 256, 66, [0], []),
    (17, "IQ2_XS", 256, 74, [0], []),
    (18, "IQ3_XXS", 256, 98, [0], []),
    (19, "IQ1_S", 256, 50, [0], []),
    (20, "IQ4_NL", 32, 18, [0], []),
    (21, "IQ3_S", 256, 110, [0], []),
    (22, "IQ2_S", 256, 82, [0], []),
    (23, "IQ4_XS", 256, 136, [0], []),
    (29, "IQ1_M", 256, 56, [], []),
    (34, "TQ1_0", 256, 54, [52], []),
    (35, "TQ2_0", 256, 66, [64], []),
    (39, "MXFP4", 32, 17, [], [0]),
    (40, "NVFP4", 64, 36, [], [0, 1, 2, 3]),
]
F32, NVFP4 = 0, 40
U32, F32_VALUE, STRING = 4, 6, 8
ALIGNMENT = 32

numbers = random.Random(40)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def blocks(kind, count):
    _, name, _, size, halves, scales = kind
    data = b""
    for _ in range(count):
        block = bytearray(numbers.getrandbits(8) for _ in range(size))
        for place in halves:
            block[place : place + 2] = struct.pack("<e", numbers.randint(-64, 64) / 512)
        for place in scales:
            block[place] = numbers.randint(100, 120) if name == "MXFP4" else numbers.randint(1, 126)
        if name == "IQ1_M":  # f16 0.03125 is 0x2800, in the upper halves of bytes 49, 51, 53 and 55
            for i in range(4):
                block[49 + 2 * i] = block[49 + 2 * i] & 15 | (0x2800 >> 4 * i & 15) << 4
        data += block
    return data


tensors = []  # name, dimensions with the innermost first, type, bytes
for layer, kind in enumerate(TYPES):
    tensors.append((f"blk.{layer}.ffn_up.weight", [256, 2], kind[0], blocks(kind, 512 // kind[2])))
nvfp4 = next(kind for kind in TYPES if kind[0] == NVFP4)
tensors.append(("blk.0.ffn_gate_exps.weight", [64, 1, 2], NVFP4, blocks(nvfp4, 2)))
tensors.append(("blk.0.ffn_gate_exps.scale", [2], F32, struct.pack("<2f", 0.5, 3.0)))
values = [
    ("general.architecture", STRING, text("qwen3moe")),
    ("qwen3moe.block_count", U32, struct.pack("<I", len(TYPES))),
    ("qwen3moe.context_length", U32, struct.pack("<I", 64)),
    ("qwen3moe.embedding_length", U32, struct.pack("<I", 256)),
    ("qwen3moe.feed_forward_length", U32, struct.pack("<I", 2)),
    ("qwen3moe.attention.head_count", U32, struct.pack("<I", 2)),
    ("qwen3moe.attention.head_count_kv", U32, struct.pack("<I", 2)),
    ("qwen3moe.attention.layer_norm_rms_epsilon", F32_VALUE, struct.pack("<f", 1e-6)),
    ("qwen3moe.expert_count", U32, struct.pack("<I", 2)),
    ("qwen3moe.expert_used_count", U32, struct.pack("<I", 1)),
]
header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
for key, kind, value in values:
    header += text(key) + struct.pack("<I", kind) + value
data = b""
for name, dimensions, kind, own in tensors:
    header += text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, len(data))
    data += own + b"\0" * (-len(own) % ALIGNMENT)
header += b"\0" * (-len(header) % ALIGNMENT)
sys.stdout.buffer.write(header + data)
