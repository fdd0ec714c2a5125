// Writes GGUF files of types that `tp-infer quantize` doesn't write: the matrices of the layers are random blocks.
import {closeSync, openSync, readFileSync, writeSync} from "node:fs";

import {fail} from "./process.mjs";

// Blocks have 256 weights. All bits of a block are valid, with two exceptions: its scale (f16, at `scale`) must be
// finite, and with `pairs`, pairs of bits are at most 2. `size`: size of typical weights if the scale is 1. `id`:
// ggml's id of the format.
const kTypes = {
  iq2_xxs: {id: 16, bytes: 66, scale: 0, size: 50},
  iq2_xs: {id: 17, bytes: 74, scale: 0, size: 50},
  iq3_xxs: {id: 18, bytes: 98, scale: 0, size: 100},
  iq1_s: {id: 19, bytes: 50, scale: 0, size: 7},
  iq3_s: {id: 21, bytes: 110, scale: 0, size: 120},
  iq2_s: {id: 22, bytes: 82, scale: 0, size: 50},
  tq1_0: {id: 34, bytes: 54, scale: 52, size: 0.8},
  tq2_0: {id: 35, bytes: 66, scale: 64, size: 0.8, pairs: true},
};
const kWeights = 256;
const kBlocks = 4093;  // number of different blocks, a prime

export const kRandomTypes = Object.keys(kTypes);

// ggml's sizes of values by type. Texts (8) and lists (9) have their own sizes.
const kValueBytes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8};

class Reader {
  constructor(data) {
    this.data = data;
    this.place = 0;
  }

  u32() { return this.data.readUInt32LE((this.place += 4) - 4); }
  u64() { return Number(this.data.readBigUInt64LE((this.place += 8) - 8)); }
  text() {
    const bytes = this.u64();
    return this.data.toString("latin1", this.place, this.place += bytes);
  }
  skipValue(type) {
    if (type === 8) return void this.text();
    if (type !== 9) return void (this.place += kValueBytes[type]);
    const [element, count] = [this.u32(), this.u64()];
    for (let i = 0; i < count; ++i) this.skipValue(element);
  }
}

// Reads a GGUF file with the default alignment: {metadata, tensors: [{name, shape, type, data}]}.
function readGguf(path) {
  const reader = new Reader(readFileSync(path));
  reader.place = 8;
  const [count, values] = [reader.u64(), reader.u64()];
  for (let i = 0; i < values; ++i) {
    reader.text();
    reader.skipValue(reader.u32());
  }
  const metadata = reader.data.subarray(0, reader.place);
  const tensors = Array.from({length: count}, () => {
    const name = reader.text();
    const shape = Array.from({length: reader.u32()}, () => reader.u64());
    return {name, shape, type: reader.u32(), offset: reader.u64()};
  });
  const begin = aligned(reader.place);
  const ends = [...tensors.slice(1).map(({offset}) => offset), reader.data.length - begin];
  const data = ({offset}, i) => reader.data.subarray(begin + offset, begin + ends[i]);
  return {metadata, tensors: tensors.map((tensor, i) => ({...tensor, data: data(tensor, i)}))};
}

const aligned = (bytes) => Math.ceil(bytes / 32) * 32;
const padding = (bytes) => Buffer.alloc(aligned(bytes) - bytes);

// Returns the f16 bits of a small positive number.
function f16(value) {
  const exponent = Math.floor(Math.log2(value));
  return ((exponent + 15) << 10) | Math.floor((value / 2 ** exponent - 1) * 1024);
}

// Returns bytes that are the same at every run (xorshift32).
function randomBytes(count) {
  let state = 2463534242;
  return Buffer.from(Uint8Array.from({length: count}, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 24;
  }));
}

// Returns random blocks of a matrix. Its products keep about the variance of their inputs.
function randomMatrix({bytes, scale, size, pairs}, [columns, rows]) {
  const pool = randomBytes(bytes * kBlocks).map((byte) => pairs ? byte & ~(byte >> 1 & 0x55) : byte);
  for (let i = 0; i < kBlocks; ++i) pool.writeUInt16LE(f16(1 / size / Math.sqrt(columns)), i * bytes + scale);
  const data = Buffer.alloc(columns * rows / kWeights * bytes);
  for (let place = 0; place < data.length; place += pool.length) pool.copy(data, place);
  return data;
}

function tensorHead({name, shape, type}, offset) {
  const head = Buffer.alloc(8 + name.length + 4 + 8 * shape.length + 4 + 8);
  let place = head.writeBigUInt64LE(BigInt(name.length));
  place += head.write(name, place, "latin1");
  place = head.writeUInt32LE(shape.length, place);
  for (const size of shape) place = head.writeBigUInt64LE(BigInt(size), place);
  head.writeBigUInt64LE(BigInt(offset), head.writeUInt32LE(type, place));
  return head;
}

function writeGguf(path, {metadata, tensors}) {
  let offset = 0;
  const heads = tensors.map((tensor) => {
    const head = tensorHead(tensor, offset);
    offset += aligned(tensor.data.length);
    return head;
  });
  const header = Buffer.concat([metadata, ...heads]);
  const file = openSync(path, "w");
  for (const part of [header, ...tensors.map(({data}) => data)]) {
    writeSync(file, part);
    writeSync(file, padding(part.length));
  }
  closeSync(file);
}

// Copies a GGUF file, with random blocks of a type of kRandomTypes in place of the matrices of its layers.
export function writeRandomBlocks(from, weights, to) {
  const type = kTypes[weights];
  const gguf = readGguf(from);
  const tensors = gguf.tensors.map((tensor) => {
    const {name, shape} = tensor;
    if (!name.startsWith("blk.") || shape.length !== 2) return tensor;
    if (shape[0] % kWeights !== 0) fail(`${name}: expected rows of a multiple of ${kWeights} weights for ${weights}, found ${shape[0]}`);
    return {...tensor, type: type.id, data: randomMatrix(type, shape)};
  });
  writeGguf(to, {...gguf, tensors});
}
