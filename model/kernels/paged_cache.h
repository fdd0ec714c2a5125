// The places of keys and values in the blocks of a paged cache.
#pragma once

#include "tp/memory_types.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace tp {

namespace kernels {

// The bytes of one KV head in one block: keys, values and, for int8, the scales of both.
//
// Keys are columns, in panels of 16 positions, so that the scores of a panel are one vector:
//   [panels][key_dim / step][16][step]
// A step has 4 bytes: one element of f32, two of bf16, or four of int8, as used by products. Values are rows,
// padded to whole vectors of `value_columns`:
//   [positions / step][value_columns][step]
//
// Latents: a key begins with its value. Only rows are stored: the value, then the rest of the key, each
// padded with zeros to whole vectors. int8 has steps of one element, and its key scales belong to the rest of
// the key.
//
// Index keys (see index_keys.h) follow everything else, once for each KV head. They are columns of floats, or
// of bf16 if `type` is not f32: [index_panels][index_dim][16]. A key of a pool of positions is in the block
// of the pool's last position. Latents may also belong to pools instead of positions. A pool's latent is in
// the block and slot of its key.
struct KvLayout {
  static constexpr std::size_t kPanel = 16;  // positions

  KvType type = KvType::f32;
  std::size_t kv_heads = 0;  // KV heads of this rank
  std::size_t block_size = 0;
  std::size_t key_dim = 0;
  std::size_t value_dim = 0;
  bool latent = false;
  std::size_t index_dim = 0;   // elements of an index key; 0: none
  std::size_t index_pool = 1;  // positions that have an index key together
  bool pools_latents = false;  // a pool also has its latent together

  std::size_t element_bytes() const;
  // Elements of a key, or positions of values, that are stored together.
  std::size_t step() const;
  // The most pools that end in a block.
  std::size_t pools_of_block() const { return (block_size + index_pool - 1) / index_pool; }
  // Slots of a block, each for a key and its value, or for a latent.
  std::size_t slots() const { return pools_latents ? pools_of_block() : block_size; }
  std::size_t panels() const { return (slots() + kPanel - 1) / kPanel; }
  std::size_t padded_block() const { return panels() * kPanel; }
  std::size_t value_columns() const { return (value_dim + kPanel - 1) / kPanel * kPanel; }
  // Elements of a key that are not part of its value.
  std::size_t stored_key_dim() const { return latent ? key_dim - value_dim : key_dim; }
  // Columns of a stored row.
  std::size_t row_columns() const {
    return value_columns() + (latent ? (stored_key_dim() + kPanel - 1) / kPanel * kPanel : 0);
  }
  std::size_t key_panel_bytes() const;
  std::size_t values_offset() const { return latent ? 0 : panels() * key_panel_bytes(); }
  std::size_t key_scales_offset() const;
  std::size_t value_scales_offset() const { return key_scales_offset() + padded_block() * sizeof(float); }
  std::size_t index_offset() const;
  // Index keys of a sequence before those in one of its blocks.
  std::size_t index_keys_before(std::size_t block) const { return block * block_size / index_pool; }
  // The block of an index key.
  std::size_t block_of_index_key(std::size_t key) const { return ((key + 1) * index_pool - 1) / block_size; }
  // Panels with room for the most index keys of a block.
  std::size_t index_panels() const { return (pools_of_block() + kPanel - 1) / kPanel; }
  std::size_t index_panel_bytes() const {
    return index_dim * kPanel * (type == KvType::f32 ? sizeof(float) : sizeof(std::uint16_t));
  }
  // Bytes of one KV head in one block: whole cache lines.
  std::size_t head_bytes() const;
  std::size_t block_bytes() const { return kv_heads * head_bytes(); }
};

// Blocks [begin, end).
struct BlockRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool contains(std::size_t block) const { return block >= begin && block < end; }
};

// The blocks of one layer on this rank.
struct PagedCache {
  KvLayout layout;
  std::byte* base = nullptr;
  std::size_t stride = 0;  // bytes from a block to the next block, at least layout.block_bytes()
  // [kv_heads] the blocks that this rank writes, because other ranks write the other blocks; empty: this rank
  // writes all blocks.
  std::span<const BlockRange> owned{};

  bool owns(std::size_t block, std::size_t kv_head) const {
    return owned.empty() || owned[kv_head].contains(block);
  }

  std::byte* head(std::size_t block, std::size_t kv_head) const {
    return base + block * stride + kv_head * layout.head_bytes();
  }

  // These blocks with only one of their KV heads, to read.
  PagedCache of_head(std::size_t kv_head) const {
    PagedCache one{layout, head(0, kv_head), stride};
    one.layout.kv_heads = 1;
    return one;
  }
};

// Consecutive tokens of one sequence within a batch.
struct AttentionSpan {
  std::size_t first_token = 0;  // row in the batch
  std::size_t tokens = 0;
  std::size_t start_position = 0;  // position of the first token; tokens before it are in the cache
  std::span<const std::int32_t> block_table;  // covers start_position + tokens positions
  bool bidirectional = false;    // tokens see later tokens of the span even if the pattern is causal
  std::size_t causal_block = 1;  // if causal: tokens see to the end of their block of this many tokens
  // Keys in the cache if they do not end with the span's last token; else 0.
  std::size_t context = 0;
  // Position of the first token of a canvas, which ends the sequence; kNoCanvas: there is none. Each token of
  // a canvas sees the whole canvas, and of the tokens before it those that the canvas's first token sees.
  static constexpr std::size_t kNoCanvas = SIZE_MAX;
  std::size_t canvas = kNoCanvas;
  // [keys], or null: added to the scores of a key, even for tokens that do not see it by the pattern.
  // -infinity for keys that only the pattern shows.
  const float* key_bias = nullptr;

  std::size_t keys() const { return context != 0 ? context : start_position + tokens; }
  // Whether each token sees itself and earlier tokens only, if the pattern is causal.
  bool sees_only_backwards() const {
    return !bidirectional && causal_block == 1 && context == 0 && canvas == kNoCanvas && key_bias == nullptr;
  }
};

// Writes the batch's keys [tokens, kv_heads * key_dim] and values [tokens, kv_heads * value_dim] to the
// blocks that the cache owns. With latents, `key` is only the rest of the key: [tokens, kv_heads *
// stored_key_dim()].
void store_keys_values(TensorView<const float> key, TensorView<const float> value,
                       std::span<const AttentionSpan> spans, const PagedCache& cache);

// Writes the latent of pool number `number` of a sequence, [value_dim], to the block that has it if the cache
// owns this block. A latent consists of the value only.
void store_pool_latent(const float* latent, std::size_t number, std::span<const std::int32_t> block_table,
                       const PagedCache& cache);

// Consecutive slots of consecutive blocks.
struct SlotRun {
  std::size_t first_block = 0;
  std::size_t first_slot = 0;  // counted from the beginning of first_block
};

// Copies the latents of these positions (or pools) of a sequence to a run of slots of `to`. All slots after
// the run in its last block become zeros. The layouts differ at most in what concerns pools and index keys.
void copy_latents(const PagedCache& from, std::span<const std::int32_t> block_table,
                  std::span<const std::int32_t> positions, const PagedCache& to, const SlotRun& run);
// Like copy_latents, for latents that are no part of a cache yet and consist of the value only. rows:
// [latents], each [value_dim].
void write_latents(std::span<const float* const> rows, const PagedCache& to, const SlotRun& run);

}  // namespace kernels

}  // namespace tp
