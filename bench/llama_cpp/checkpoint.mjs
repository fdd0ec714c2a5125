// Writes a checkpoint with random weights, in the shape of a config.json of the Llama family, with the demo model's
// tokenizer.
import {closeSync, copyFileSync, mkdirSync, openSync, readFileSync, writeFileSync, writeSync} from "node:fs";
import {join} from "node:path";

import {fail} from "./process.mjs";

// Weights repeat after this many elements. The number is a prime, so that rows and tensors differ.
const kPeriod = 1000003;

// Returns the names and shapes of all tensors: [rows, columns] or [size].
function tensorsOf(config) {
  const {hidden_size: hidden, intermediate_size: intermediate, num_attention_heads: heads,
         vocab_size: vocab, num_key_value_heads: kvHeads} = config;
  const headSize = config.head_dim ?? hidden / heads;
  const tensors = {"model.embed_tokens": [vocab, hidden], "model.norm": [hidden]};
  if (!config.tie_word_embeddings) tensors.lm_head = [vocab, hidden];
  for (let layer = 0; layer < config.num_hidden_layers; ++layer) {
    Object.assign(tensors, Object.fromEntries(Object.entries({
      "input_layernorm": [hidden],
      "post_attention_layernorm": [hidden],
      "self_attn.q_proj": [heads * headSize, hidden],
      "self_attn.k_proj": [kvHeads * headSize, hidden],
      "self_attn.v_proj": [kvHeads * headSize, hidden],
      "self_attn.o_proj": [hidden, heads * headSize],
      "mlp.gate_proj": [intermediate, hidden],
      "mlp.up_proj": [intermediate, hidden],
      "mlp.down_proj": [hidden, intermediate],
    }).map(([name, shape]) => [`model.layers.${layer}.${name}`, shape])));
  }
  return tensors;
}

const product = (shape) => shape.reduce((a, b) => a * b, 1);

// Returns the upper half of a float32's bits.
function bf16(value) {
  return new Uint32Array(new Float32Array([value]).buffer)[0] >>> 16;
}

// Returns numbers from -1 to 1, which are the same at every run (xorshift32).
function randomNumbers() {
  let state = 2463534242;
  return Float32Array.from({length: kPeriod}, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state / 2 ** 31;
  });
}

// Writes random matrices whose products keep the variance of their inputs, and norms' gains of 1.
class WeightWriter {
  constructor(file) {
    this.file = file;
    this.numbers = randomNumbers();
    this.pools = new Map();
    this.place = 0;
  }

  write(shape) {
    const pool = shape.length === 1 ? new Uint16Array(kPeriod).fill(bf16(1)) : this.matrixPool(shape[1]);
    for (let left = product(shape); left > 0;) {
      const count = Math.min(left, kPeriod - this.place);
      writeSync(this.file, new Uint8Array(pool.buffer, 2 * this.place, 2 * count));
      this.place = (this.place + count) % kPeriod;
      left -= count;
    }
  }

  matrixPool(columns) {
    if (!this.pools.has(columns)) {
      const most = Math.sqrt(3 / columns);
      this.pools.set(columns, Uint16Array.from(this.numbers, (number) => bf16(most * number)));
    }
    return this.pools.get(columns);
  }
}

function safetensorsHeader(tensors) {
  let end = 0;
  const header = {};
  for (const [name, shape] of Object.entries(tensors)) {
    const begin = end;
    end += 2 * product(shape);
    header[`${name}.weight`] = {dtype: "BF16", shape, data_offsets: [begin, end]};
  }
  const text = JSON.stringify(header);
  return text + " ".repeat((8 - text.length % 8) % 8);
}

function writeSafetensors(path, tensors) {
  const file = openSync(path, "w");
  const header = Buffer.from(safetensorsHeader(tensors));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  writeSync(file, size);
  writeSync(file, header);
  const writer = new WeightWriter(file);
  for (const shape of Object.values(tensors)) writer.write(shape);
  closeSync(file);
}

// `shape`: a config.json. `tokenizer`: a folder with a tokenizer. `folder`: place of the new checkpoint.
export function writeSyntheticCheckpoint({shape, tokenizer, folder}) {
  const config = JSON.parse(readFileSync(shape, "utf8"));
  if (config.architectures?.[0] !== "LlamaForCausalLM") {
    fail(`--shape ${shape}: expected a LlamaForCausalLM, found ${config.architectures}; ` +
         "give a config.json of this family, or a checkpoint as --model");
  }
  mkdirSync(folder, {recursive: true});
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) {
    copyFileSync(join(tokenizer, name), join(folder, name));
  }
  writeFileSync(join(folder, "config.json"), JSON.stringify({...config, bos_token_id: 0, eos_token_id: 1}));
  writeSafetensors(join(folder, "model.safetensors"), tensorsOf(config));
}
