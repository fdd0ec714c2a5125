// Compiled once per instruction set; see simd.h for the restrictions.
//
// Attention over latents that are multiplied as pairs of bf16. Loops over rows and vectors are unrolled
// early: otherwise compilers would keep sums in memory.

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

#if defined(__AVX512BF16__)

#include "model/kernels/simd/attention/attention_products.h"
#include "model/kernels/simd/attention/attention_softmax.h"
#include "model/kernels/simd/attention/block_fetch.h"
#include "model/kernels/simd/attention/latents.h"
#include "model/kernels/simd/vector/quarters.h"

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

template <class CacheType>
struct LatentPairProducts : PairProducts {
  using Cache = CacheType;
  static void round_query(const AttentionTile& tile) {
    for (std::size_t i = 0; i < tile.rows * tile.query_stride; i += kPairColumns)
      round_for_rows(tile.query + i, tile.query_pairs + i / 2);
  }
};

// Bytes of the latents of two positions.
inline std::size_t pair_bytes(const AttentionTile& tile) { return tile.row_columns * kColumnBytes; }

// Most blocks of a step. Each block takes at least 16 of the step's 128 columns.
constexpr std::size_t kMaxBlocks = 8;

// The pairs of positions of a block that some rows see.
struct PairRun {
  const unsigned char* latents;  // latents of the first pair
  std::size_t block;
  std::size_t begin;
  std::size_t end;
};

// The runs of a step, for rows that are computed together.
class PairRuns {
 public:
  // `blocks`: the step's blocks, in pairs.
  PairRuns(const Step& step, const unsigned char* const* blocks, std::size_t row, std::size_t rows) {
    for (std::size_t block = step.begin; block < step.end; ++block) {
      const Columns seen = visible(step, row, rows, block);
      if (seen.begin == seen.end) continue;
      const std::size_t first = seen.begin / 2;
      runs_[size_++] = {blocks[block - step.begin] + first * pair_bytes(step.tile), block, first,
                        (seen.end + 1) / 2};
    }
  }
  bool empty() const { return size_ == 0; }
  const PairRun* begin() const { return runs_; }
  const PairRun* end() const { return runs_ + size_; }

 private:
  PairRun runs_[kMaxBlocks];
  std::size_t size_ = 0;
};

constexpr auto plus = [](const Vector& a, const Vector& b) {
  Vector sum = a;
  sum += b;
  return sum;
};

// The sum of the elements of each of 16 vectors, all in the same order.
[[gnu::always_inline]] inline Vector sums_of_elements(const __m512 (&v)[16]) {
  Vector quarters[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    Vector four[4];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) four[j].part[0] = (FloatRegister)v[4 * i + j];
    quarters[i] = best_in_quarters(four, plus);
  }
  return best_of_quarters(quarters, plus);
}

// The final factor of int8 scores: the scale of the rest, unless it is so small that the value's scale
// divided by it would be infinite.
inline float last_scale(float of_rest, float of_value) {
  const float min = of_value * 0x1p-60F;
  const float scale = of_rest > min ? of_rest : min;
  return scale > 0.0F ? scale : 1.0F;
}

// Computes the scores of some rows for the positions of a run.
template <class Cache, std::size_t Rows>
class RunScores {
 public:
  RunScores(const Step& step, std::size_t row, const PairRun& run, BlockFetch& fetch)
      : tile_(step.tile),
        run_(run),
        fetch_(fetch),
        query_(step.tile.query_pairs + row * step.tile.query_stride / 2),
        scores_(step.scores(row, run.block)),
        stride_(step.score_stride()) {
    if constexpr (Cache::kScaled) {
      rest_scales_ = step.floats(run.block, tile_.key_scales_offset);
      value_scales_ = step.floats(run.block, tile_.value_scales_offset);
    }
  }

  void compute() const {
    constexpr std::size_t kPairs = Rows == 8 ? 1 : Rows == 4 ? 2 : 4;
    const std::size_t bytes = pair_bytes(tile_);
    const unsigned char* latents = run_.latents;
    std::size_t pair = run_.begin;
    for (; pair + kPairs <= run_.end; pair += kPairs, latents += kPairs * bytes) score<kPairs>(latents, pair);
    for (; pair < run_.end; ++pair, latents += bytes) score<1>(latents, pair);
    if constexpr (Cache::kScaled) scale();
  }

 private:
  template <std::size_t Pairs>
  [[gnu::always_inline]] void score(const unsigned char* latents, std::size_t pair) const {
    constexpr std::size_t kPositions = 2 * Pairs;
    static_assert(Rows * kPositions <= 16);
    fetch_.some();
    __m512 sums[16];
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_setzero_ps();
    if constexpr (Cache::kScaled) {
      add_products<Pairs>(latents, 0, tile_.value_columns, sums);
#pragma GCC unroll 8
      for (std::size_t p = 0; p < kPositions; ++p) {
        const float of_value = value_scales_[2 * pair + p];
        const __m512 ratio = _mm512_set1_ps(of_value / last_scale(rest_scales_[2 * pair + p], of_value));
#pragma GCC unroll 8
        for (std::size_t r = 0; r < Rows; ++r) sums[r * kPositions + p] *= ratio;
      }
    }
    add_products<Pairs>(latents, Cache::kScaled ? tile_.value_columns : 0, tile_.row_columns, sums);
    float scores[16];
    store(sums_of_elements(sums), scores);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r)
      __builtin_memcpy(scores_ + r * stride_ + 2 * pair, scores + r * kPositions, kPositions * sizeof(float));
  }

  template <std::size_t Pairs>
  [[gnu::always_inline]] void add_products(const unsigned char* latents, std::size_t begin, std::size_t end,
                                           __m512 (&sums)[16]) const {
    const std::size_t bytes = pair_bytes(tile_);
    const std::size_t query_pairs = tile_.query_stride / 2;
    for (std::size_t i = begin; i < end; i += kPairColumns) {
      __m512bh elements[Pairs][2];
#pragma GCC unroll 4
      for (std::size_t n = 0; n < Pairs; ++n) load_rows(latents + n * bytes + i * kColumnBytes, elements[n]);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m512bh q = as_pairs(query_ + r * query_pairs + i / 2);
#pragma GCC unroll 8
        for (std::size_t p = 0; p < 2 * Pairs; ++p) {
          __m512& sum = sums[r * 2 * Pairs + p];
          sum = _mm512_dpbf16_ps(sum, elements[p / 2][p % 2], q);
        }
      }
    }
  }

  void scale() const {
    for (std::size_t r = 0; r < Rows; ++r) {
      float* scores = scores_ + r * stride_;
#pragma omp simd
      for (std::size_t j = 2 * run_.begin; j < 2 * run_.end; ++j)
        scores[j] *= last_scale(rest_scales_[j], value_scales_[j]);
    }
  }

  const AttentionTile& tile_;
  const PairRun& run_;
  BlockFetch& fetch_;
  const std::uint32_t* query_;
  float* scores_;
  std::size_t stride_;
  const float* rest_scales_ = nullptr;
  const float* value_scales_ = nullptr;
};

// Adds 16 * Vectors columns of weighted values to the sums of some rows.
template <std::size_t Rows, std::size_t Vectors>
void add_value_pairs(const Step& step, std::size_t row, const PairRuns& runs, std::size_t column,
                     BlockFetch& fetch) {
  const AttentionTile& tile = step.tile;
  const std::size_t bytes = pair_bytes(tile);
  const std::size_t stride = step.score_stride() / 2;
  const std::size_t out_stride = tile.value_columns;
  float* out = tile.out + row * out_stride + column;
  __m512 sums[Rows][Vectors];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] = _mm512_loadu_ps(out + r * out_stride + v * kLanes);
  }
  for (const PairRun& run : runs) {
    fetch.some();
    const unsigned char* columns = run.latents + column * kColumnBytes;
    const std::uint32_t* weights =
        tile.weight_pairs + row * stride + (run.block - step.begin) * tile.padded_block / 2 + run.begin;
    const std::uint32_t* const end = weights + (run.end - run.begin);
    for (; weights != end; ++weights, columns += bytes) {
      __m512bh elements[Vectors];
#pragma GCC unroll 2
      for (std::size_t v = 0; v < Vectors; ++v) elements[v] = as_pairs(columns + v * kVectorBytes);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < Rows; ++r) {
        const auto weight = (__m512bh)_mm512_set1_epi32(static_cast<std::int32_t>(weights[r * stride]));
#pragma GCC unroll 2
        for (std::size_t v = 0; v < Vectors; ++v)
          sums[r][v] = _mm512_dpbf16_ps(sums[r][v], weight, elements[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < Vectors; ++v) _mm512_storeu_ps(out + r * out_stride + v * kLanes, sums[r][v]);
  }
}

template <class Cache, std::size_t Rows>
void attend_latent_rows(const Step& step, const unsigned char* const* blocks, std::size_t row,
                        BlockFetch& fetch) {
  const PairRuns runs(step, blocks, row, Rows);
  if (runs.empty()) return;
  for (const PairRun& run : runs) RunScores<Cache, Rows>(step, row, run, fetch).compute();
  soften<LatentPairProducts<Cache>>(step, row, Rows);
  const std::size_t columns = step.tile.value_columns;
  std::size_t column = 0;
  for (; column + kPairColumns <= columns; column += kPairColumns)
    add_value_pairs<Rows, 2>(step, row, runs, column, fetch);
  if (column < columns) add_value_pairs<Rows, 1>(step, row, runs, column, fetch);
}

template <class Cache>
void attend_latent_step(const Step& step, const unsigned char* const* blocks) {
  const AttentionTile& tile = step.tile;
  const std::size_t rows = tile.rows;
  // some() is called once per pair of positions for scores, and as often for values.
  BlockFetch fetch(step, tile.blocks_per_step * tile.block_size * ((rows + 7) / 8));
  std::size_t row = 0;
  for (; row + 8 <= rows; row += 8) attend_latent_rows<Cache, 8>(step, blocks, row, fetch);
  for (; row + 4 <= rows; row += 4) attend_latent_rows<Cache, 4>(step, blocks, row, fetch);
  for (; row < rows; ++row) attend_latent_rows<Cache, 1>(step, blocks, row, fetch);
}

}  // namespace

void attend_bf16_latents(const AttentionTile& tile) {
  begin_softmax(tile);
  LatentPairProducts<Bf16>::round_query(tile);
  for_steps(tile, [&](const Step& step) { attend_latent_step<Bf16>(step, tile.blocks + step.begin); });
}

#if defined(__AVX512VBMI__)
// Widens a step's latents once for all rows.
void attend_int8_latents(const AttentionTile& tile) {
  const Int8Widener widener;
  const std::size_t block_bytes = (tile.block_size + 1) / 2 * pair_bytes(tile);
  begin_softmax(tile);
  LatentPairProducts<LatentInt8>::round_query(tile);
  for_steps(tile, [&](const Step& step) {
    const unsigned char* widened[kMaxBlocks];
    for (std::size_t block = step.begin; block < step.end; ++block) {
      unsigned char* out = tile.widened + (block - step.begin) * block_bytes;
      widener.widen(tile.blocks[block], tile.block_size, tile.row_columns, out);
      widened[block - step.begin] = out;
    }
    attend_latent_step<LatentInt8>(step, widened);
  });
}
#endif

}  // namespace tp::kernels::TP_ISA_NAMESPACE

#endif
