// The inner loops of attention, compiled once for every instruction set; see simd.h for the rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// What attention in integers keeps of a row.
struct IntegerRow {
  float query_unit;
  std::int32_t sum_of_high;  // of the query's bytes
  std::int32_t sum_of_low;
  float weight_unit;  // in this step
};

// Query rows of one KV head against a run of its cache blocks. Shapes of keys and values: KvLayout.
struct AttentionTile {
  std::size_t rows;
  std::size_t key_dim;
  std::size_t value_columns;
  std::size_t row_columns;   // of a stored row
  const float* query;        // [rows, query_stride], times the scale; 0 between key_dim and query_stride
  std::size_t query_stride;  // a multiple of 16

  const unsigned char* const* blocks;  // [num_blocks + next_blocks] the KV head's part of each
  std::size_t num_blocks;
  std::size_t next_blocks;   // that this thread reads next
  std::size_t blocks_ahead;  // so many blocks further is what is fetched from memory meanwhile
  std::size_t first_block;   // in the sequence
  std::size_t block_size;    // positions
  std::size_t padded_block;  // columns of scores that a block takes
  std::size_t key_panel_bytes;
  std::size_t values_offset;
  std::size_t key_scales_offset;  // int8
  std::size_t value_scales_offset;
  // So many blocks share one step of the online softmax; steps begin at multiples of it in the sequence, so
  // that a row's arithmetic does not depend on where its tile begins.
  std::size_t blocks_per_step;

  // What row r sees: the positions in [visible_begin[r], visible_end[r]).
  const std::size_t* position;  // [rows]
  const std::size_t* visible_begin;
  const std::size_t* visible_end;
  // Row r sees every key k of the sequence with key_bias[r][k] above -infinity, too, whose scores gain that;
  // all blocks with such keys are marked. Null, as a whole or of a row: no others.
  const float* const* key_bias;       // [rows]
  const unsigned char* has_key_bias;  // [blocks of the sequence]
  std::size_t context;                // keys of the sequence
  float softcap;                      // scores become softcap * tanh(score / softcap); 0: they stay
  const float* slopes;  // [rows] slope * (key's position - row's) is added to scores; null: nothing

  // Rows of a table that is added to scores by the distance of the key, from -bias_reach on; null: nothing.
  const float* const* bias;  // [rows] [2 * bias_reach + 1]
  std::size_t bias_reach;

  float* out;     // [rows, value_columns] sums of values, weighted with exp(score - maximum)
  float* maxima;  // [rows] the greatest score, or -infinity if the row sees nothing here
  float* sums;    // [rows] of the weights
  float* scores;  // scratch: [rows, blocks_per_step * padded_block]
  // scratch of what is not multiplied in float32: [rows, query_stride / 2] and [rows, blocks_per_step *
  // padded_block / 2]
  std::uint32_t* query_pairs;
  std::uint32_t* weight_pairs;
  IntegerRow* integer_rows;  // [rows]
  // scratch of latent_int8_pairs: the latents of a step in bf16, [blocks_per_step, (block_size + 1) / 2,
  // row_columns, 2]
  unsigned char* widened;
};

// One for each type of cache. They write out, maxima and sums.
struct AttentionKernels {
  void (*f32)(const AttentionTile& tile);
  void (*bf16)(const AttentionTile& tile);
  void (*int8)(const AttentionTile& tile);
  // Latents; queries have zeros where the rows are filled up.
  void (*latent_f32)(const AttentionTile& tile);
  void (*latent_bf16)(const AttentionTile& tile);
  void (*latent_int8)(const AttentionTile& tile);
  // bf16 with queries and weights rounded to bf16 too, for machines that multiply such pairs; else null.
  void (*bf16_pairs)(const AttentionTile& tile);
  // The same of latents, whose row_columns must be a multiple of 32.
  void (*latent_bf16_pairs)(const AttentionTile& tile);
  // The same with int8, whose elements are exact in bf16. value_columns must be a multiple of 32, too.
  void (*latent_int8_pairs)(const AttentionTile& tile);
};

// The kernels of the active instruction set.
const AttentionKernels& attention_kernels();

// The same as bf16_pairs on a matrix unit, or null where the active instruction set has none. Blocks and keys
// must be multiples of 32 long, blocks hold numbers also in rows of values that are not stored yet, and out,
// scores and both arrays of pairs have memory for a multiple of 16 rows.
using TileAttention = void (*)(const AttentionTile& tile);
TileAttention tile_attention();

// Those of pairs of latents.
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
