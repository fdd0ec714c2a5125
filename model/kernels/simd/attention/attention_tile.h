// The inner loops of attention, compiled once per instruction set; see simd.h for the rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// The most latents, and columns of them, that are transposed together. These fit in the first-level cache.
inline constexpr std::size_t kMaxTurnedPositions = 32;
inline constexpr std::size_t kTurnedColumns = 128;  // a multiple of 16

// Sums and units of a row for attention in integers.
struct IntegerRow {
  float query_unit;
  std::int32_t sum_of_high;  // sum of the query's high bytes
  std::int32_t sum_of_low;
  float weight_unit;  // unit of this step's weights
};

// Query rows of one KV head, and a run of its cache blocks. For the shapes of keys and values, see KvLayout.
struct AttentionTile {
  std::size_t rows;
  std::size_t key_dim;
  std::size_t value_columns;
  std::size_t row_columns;   // columns of a stored row
  const float* query;        // [rows, query_stride], times the scale; 0 from key_dim on
  std::size_t query_stride;  // a multiple of 16

  const unsigned char* const* blocks;  // [num_blocks + next_blocks] the KV head's part of each block
  std::size_t num_blocks;
  std::size_t next_blocks;   // blocks that this thread reads next
  std::size_t blocks_ahead;  // distance of the block to prefetch meanwhile
  std::size_t first_block;   // index in the sequence
  std::size_t block_size;    // positions
  std::size_t padded_block;  // columns of scores per block
  std::size_t key_panel_bytes;
  std::size_t values_offset;
  std::size_t key_scales_offset;  // int8 only
  std::size_t value_scales_offset;
  std::size_t latent_bytes;  // bytes of a block's latents with their scales
  // Blocks per step of the online softmax. In a sequence, steps begin at multiples of this number, so that a
  // row's arithmetic does not depend on where its tile begins.
  std::size_t blocks_per_step;

  // Row r sees the positions in [visible_begin[r], visible_end[r]).
  const std::size_t* position;  // [rows]
  const std::size_t* visible_begin;
  const std::size_t* visible_end;
  // Row r also sees each key k of the sequence with key_bias[r][k] > -infinity, which is added to the key's
  // score. All blocks with such keys are marked. The array or any of its rows may be null: no other keys.
  const float* const* key_bias;       // [rows]
  const unsigned char* has_key_bias;  // [blocks of the sequence]
  std::size_t context;                // keys of the sequence
  float softcap;                      // scores become softcap * tanh(score / softcap); 0: unchanged
  const float* slopes;  // [rows] slope * (key's position - row's) is added to scores; null: nothing

  // For each row, a table of biases for distances of keys from -bias_reach, added to scores; null: nothing.
  const float* const* bias;  // [rows] [2 * bias_reach + 1]
  std::size_t bias_reach;

  float* out;     // [rows, value_columns] sums of values, weighted with exp(score - maximum)
  float* maxima;  // [rows] the highest score; -infinity if the row sees nothing here
  float* sums;    // [rows] sums of the weights
  float* scores;  // scratch: [rows, blocks_per_step * padded_block]
  // scratch for products that are not in float32: [rows, query_stride / 2] and [rows, blocks_per_step *
  // padded_block / 2]
  std::uint32_t* query_pairs;
  std::uint32_t* weight_pairs;
  IntegerRow* integer_rows;  // [rows]
  // scratch for latents of a step in another type: in float32 [blocks_per_step * padded_block, row_columns],
  // or for latent_int8_pairs in bf16 [blocks_per_step, (block_size + 1) / 2, row_columns, 2]
  unsigned char* widened;
  float* turned;  // scratch: [kTurnedColumns, kMaxTurnedPositions] transposed latents
};

// One kernel per type of cache. Kernels write out, maxima and sums.
struct AttentionKernels {
  void (*f32)(const AttentionTile& tile);
  void (*bf16)(const AttentionTile& tile);
  void (*int8)(const AttentionTile& tile);
  // Latents. Queries are zero in the padding of rows.
  void (*latent_f32)(const AttentionTile& tile);
  void (*latent_bf16)(const AttentionTile& tile);
  void (*latent_int8)(const AttentionTile& tile);
  // bf16, with queries and weights also rounded to bf16. Null unless the machine multiplies pairs of bf16.
  void (*bf16_pairs)(const AttentionTile& tile);
  // bf16_pairs for latents. row_columns must be a multiple of 32.
  void (*latent_bf16_pairs)(const AttentionTile& tile);
  // latent_bf16_pairs for int8, whose elements are exact in bf16. value_columns must also be a multiple of
  // 32.
  void (*latent_int8_pairs)(const AttentionTile& tile);
};

// The kernels of the active instruction set.
const AttentionKernels& attention_kernels();

// bf16_pairs on a matrix unit; null if the active instruction set has none. The lengths of blocks and keys
// must be multiples of 32. Blocks must contain numbers even in rows of values that are not stored yet. out,
// scores and both arrays of pairs need memory for a multiple of 16 rows.
using TileAttention = void (*)(const AttentionTile& tile);
TileAttention tile_attention();

// Kernels for latents in pairs.
namespace avx512_bf16 {
void attend_bf16_latents(const AttentionTile& tile);
void attend_int8_latents(const AttentionTile& tile);
}  // namespace avx512_bf16
namespace amx {
void attend_by_tiles(const AttentionTile& tile);
}
namespace amx_emulated {
void attend_by_tiles(const AttentionTile& tile);
}

}  // namespace tp::kernels
