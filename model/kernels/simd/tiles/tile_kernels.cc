// Compiled for AMX and for emulated tiles; see simd.h for the restrictions.
//
// A step multiplies two tiles of activations (32 tokens x 32 features) by tiles of two panels (32 x 32
// outputs). These are four products for four loaded tiles, the most that eight registers allow. They take 64
// cycles. In this time, the second-level cache delivers half of the four tiles, but not all. Therefore two
// panels' tiles of a slab of features must stay in the first-level cache while all blocks of tokens pass over
// them. The second-level cache contains the blocks' tiles of a slab, and the sums of a group of panels, which
// wait for the next slab. The next panels and activations are prefetched to it meanwhile: on some machines,
// the third-level cache is no faster than memory.
//
// Quantized weights become bf16 instead of bytes of an int8 product. With bytes, the scales would end a
// product after 32 features: storing, converting and scaling its 256 sums takes about 50 cycles, three times
// as long as the product. Converting the 512 elements of a panel takes about 85 cycles, once for all tokens.

#include "model/kernels/simd/matmul/leaf_sum.h"
#include "model/kernels/simd/tiles/tile_layout.h"
#include "model/kernels/simd/tiles/tile_quants.h"
#include "model/kernels/simd/tiles/tile_scaled.h"
#include "model/kernels/simd/tiles/tile_steps.h"
#include "model/kernels/simd/tiles/tile_weights.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=amx or amx_emulated"
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

constexpr std::size_t kGroupPairs = 8;  // pairs of panels whose sums wait for the next slab
// A single block of tokens uses weights once. Tiles that need no conversion are then read in one pass, and
// prefetched at this distance.
constexpr std::size_t kTileBytes = kTileWords * sizeof(std::uint32_t);
constexpr std::size_t kAheadBytes = 2 * kTileBytes;

// Writes a tile of sums to [rows, width] of the result.
void write(const float* sums, std::size_t rows, std::size_t width, float* y, std::size_t y_stride) {
  for (std::size_t row = 0; row < rows; ++row, sums += kPanel, y += y_stride) {
    if (width < kPanel) {
      for (std::size_t i = 0; i < width; ++i) y[i] = sums[i];
    } else {
      store(load(sums), y);
    }
  }
}

// Words of scratch for waiting sums. Scratch for converted weights follows.
std::size_t waiting_words(std::size_t tokens, std::size_t in_features) {
  if (in_features <= kSlab) return 0;
  const std::size_t blocks = divide_up(min(tokens, kChunk), kTileBlock);
  return (blocks > 1 ? kGroupPairs : 1) * blocks * kSumWords;
}

// Multiplies one chunk of tokens by all panels, in pairs: neighbours, or gates and ups.
template <class Weights>
class Product {
 public:
  Product(const TileProduct& p, std::size_t token)
      : p_(p),
        x_{p.tokens, p.in_features},
        first_token_(token),
        pairs_(p.combine != nullptr ? p.count : divide_up(p.count, 2)),
        blocks_(divide_up(min(p.tokens - token, kChunk), kTileBlock)),
        group_(blocks_ > 1 ? kGroupPairs : 1),
        slab_(blocks_ > 1 || Weights::kConverts ? kSlab : divide_up(p.in_features + 1, kBlock) * kBlock),
        waiting_(reinterpret_cast<float*>(p.scratch)),
        converted_(p.scratch + waiting_words(p.tokens, p.in_features)) {}

  void run() {
    for (std::size_t pair = 0; pair < pairs_; pair += group_) {
      // Without features there is one empty slab, whose sums are zero.
      std::size_t k = 0;
      do {
        run_slab({pair, min(pair + group_, pairs_)}, k);
        k = end_of_slab(k);
      } while (k < p_.in_features);
    }
    Exchange{nullptr, in_registers_.to}.all();
    finish(in_registers_);
  }

 private:
  // Pairs of panels.
  struct Group {
    std::size_t begin;
    std::size_t end;
  };

  // A block's sums for a pair. is_last: the sums, or those of a leaf, are complete. `to` is null if there are
  // none.
  struct Sums {
    float* to;
    std::size_t token;
    std::size_t pair;
    bool is_last;
    bool is_first_leaf;
  };

  // End of the slab, or of the part of a slab that belongs to a leaf.
  std::size_t end_of_slab(std::size_t k) const {
    const std::size_t end = min((k / slab_ + 1) * slab_, p_.in_features);
    return p_.sums == nullptr ? end : min((k / p_.leaf + 1) * p_.leaf, end);
  }

  void run_slab(const Group& group, std::size_t k) {
    const std::size_t end = end_of_slab(k);
    const std::size_t steps = divide_up(end - k, kDepth);
    const bool has_leaves = p_.sums != nullptr;
    const bool is_first = has_leaves ? k % p_.leaf == 0 : k == 0;
    const bool is_last = end == p_.in_features || (has_leaves && end % p_.leaf == 0);
    const bool is_first_leaf = has_leaves && end <= p_.leaf;
    for (std::size_t pair = group.begin; pair < group.end; ++pair) {
      const WeightTiles weights = tiles_of(pair, k, end);
      float* waiting = waiting_ + (pair - group.begin) * blocks_ * kSumWords;
      for (std::size_t block = 0; block < blocks_; ++block, waiting += kSumWords) {
        const std::size_t token = first_token_ + block * kTileBlock;
        const bool two_rows = x_.rows(token, kTileBlock) > kTile;
        const auto run_tiles = two_rows             ? columns(pair) == 2 ? multiply<2, 2> : multiply<2, 1>
                                           : columns(pair) == 2 ? multiply<1, 2>
                                                    : multiply<1, 1>;
        run_tiles(p_.x_tiles + x_.offset(token, k), weights, steps, ahead_of(group, pair, k, block, steps),
                  {is_first ? nullptr : waiting, in_registers_.to});
        finish(in_registers_);
        in_registers_ = {is_last ? last_ : waiting, token, pair, is_last, is_first_leaf};
      }
    }
  }

  // Writes sums that have left the registers, if they are complete.
  void finish(const Sums& sums) const {
    if (sums.to != nullptr && sums.is_last) write_sums(sums);
  }

  std::size_t columns(std::size_t pair) const {
    return p_.combine != nullptr || 2 * pair + 1 < p_.count ? 2 : 1;
  }

  // A pair's panels from a feature on. If there is only one panel, it is used twice.
  const unsigned char* panel(std::size_t pair, std::size_t n, std::size_t k) const {
    const std::size_t index =
        p_.combine != nullptr ? pair + n * p_.apart : 2 * pair + (n < columns(pair) ? n : 0);
    return p_.panels + index * p_.panel_bytes + Weights::bytes_before(p_, k);
  }

  // The tiles of features [k, end) of a pair.
  WeightTiles tiles_of(std::size_t pair, std::size_t k, std::size_t end) const {
    if constexpr (Weights::kConverts) {
      const std::size_t words = slab_ / 2 * kPanel;
      for (std::size_t n = 0; n < columns(pair); ++n) {
        std::uint32_t* out = converted_ + n * Weights::kSummands * words;
        Weights::convert(p_, panel(pair, n, 0), k, end, out, out + words);
      }
      return {{converted_, converted_ + Weights::kSummands * words}, Weights::kSummands, words};
    } else {
      return {{reinterpret_cast<const std::uint32_t*>(panel(pair, 0, k)),
               reinterpret_cast<const std::uint32_t*>(panel(pair, 1, k))},
              1,
              0};
    }
  }

  // This block's share of prefetching the next panels and activations.
  Ahead ahead_of(const Group& group, std::size_t pair, std::size_t k, std::size_t block,
                 std::size_t steps) const {
    if (steps == 0) return {};
    if (blocks_ == 1 && !Weights::kConverts) {
      return {
          {panel(pair, 0, k) + kAheadBytes, panel(pair, 1, k) + kAheadBytes}, kTileBytes / kLine, nullptr, 0};
    }
    Ahead ahead{};
    const bool in_group = pair + 1 < group.end;
    const std::size_t next_slab = end_of_slab(k) < p_.in_features ? end_of_slab(k) : 0;
    const std::size_t next_pair = in_group ? pair + 1 : next_slab > 0 ? group.begin : group.end;
    const std::size_t next_k = in_group ? k : next_slab;
    const std::size_t bytes =
        Weights::bytes_before(p_, end_of_slab(next_k)) - Weights::bytes_before(p_, next_k);
    const std::size_t lines = divide_up(bytes, blocks_ * steps * kLine);
    const std::size_t done = block * steps * lines * kLine;
    if (next_pair < pairs_ && done < bytes) {
      ahead.panel_lines = lines;
      for (std::size_t n = 0; n < 2; ++n) ahead.panels[n] = panel(next_pair, n, next_k) + done;
    }
    const std::size_t turns = (group.end - group.begin) * blocks_ * steps;
    const std::size_t turn = ((pair - group.begin) * blocks_ + block) * steps;
    const std::size_t x_bytes = x_.rows(first_token_, kChunk) * kSlab * 2;
    ahead.x_lines = divide_up(x_bytes, turns * kLine);
    ahead.x = reinterpret_cast<const unsigned char*>(p_.x_tiles + x_.offset(first_token_, next_slab)) +
              turn * ahead.x_lines * kLine;
    return ahead;
  }

  // Writes a pair's four tiles of sums for the tokens of a block.
  void write_sums(const Sums& sums) const {
    for (std::size_t m = 0; m < 2 && sums.token + m * kTile < p_.tokens; ++m) {
      const float* row = sums.to + m * 2 * kTileWords;
      const std::size_t token = sums.token + m * kTile;
      if (p_.combine != nullptr) {
        alignas(64) float combined[kTileWords];
        p_.combine(row, row + kTileWords, kTileWords, combined);
        write_tile(combined, token, sums.pair, sums.is_first_leaf);
        continue;
      }
      for (std::size_t n = 0; n < columns(sums.pair); ++n) {
        write_tile(row + n * kTileWords, token, 2 * sums.pair + n, sums.is_first_leaf);
      }
    }
  }

  void write_tile(const float* tile, std::size_t token, std::size_t panel_index, bool is_first_leaf) const {
    if (p_.sums != nullptr) return add_tile(tile, token, panel_index, is_first_leaf);
    if (p_.y == nullptr) {
      const XLayout layout{p_.tokens, p_.y_features};
      return round_16_features(tile, layout, token, p_.first_feature + panel_index * kPanel, p_.y_tiles);
    }
    const std::size_t outputs = p_.out_features - panel_index * kPanel;
    write(tile, min(p_.tokens - token, kTile), min(outputs, kPanel),
          p_.y + token * p_.y_stride + panel_index * kPanel, p_.y_stride);
  }

  // Adds a tile of a leaf's sums.
  void add_tile(const float* tile, std::size_t token, std::size_t panel_index, bool is_first_leaf) const {
    const std::size_t width = min(p_.out_features - panel_index * kPanel, kPanel);
    double* sums = p_.sums + token * p_.y_stride + panel_index * kPanel;
    for (std::size_t row = 0; row < min(p_.tokens - token, kTile); ++row, sums += p_.y_stride) {
      if (width == kPanel) {
        add_leaf(tile + row * kPanel, kPanel, is_first_leaf, sums);
      } else {
        add_leaf(tile + row * kPanel, width, is_first_leaf, sums);
      }
    }
  }

  const TileProduct& p_;
  XLayout x_;
  std::size_t first_token_;
  std::size_t pairs_;
  std::size_t blocks_;
  std::size_t group_;  // pairs whose sums wait at the same time
  std::size_t slab_;
  float* waiting_;
  std::uint32_t* converted_;
  Sums in_registers_ = {};
  alignas(kLine) float last_[kSumWords];
};

template <class Weights>
void run(const TileProduct& p) {
  configure_tiles();
  for (std::size_t token = 0; token < p.tokens; token += kChunk) Product<Weights>(p, token).run();
  release_tiles();
}

void bf16(const TileProduct& p) { run<Bf16Weights>(p); }
void f16(const TileProduct& p) { run<F16Weights>(p); }
void int8(const TileProduct& p) { run<Int8Weights>(p); }
void int4(const TileProduct& p) { run<Int4Weights>(p); }
void quantized(const TileProduct& p) { run<QuantWeights>(p); }
void scaled(const TileProduct& p) { run<ScaledWeights>(p); }

std::size_t scratch_words(std::size_t tokens, std::size_t in_features) {
  return waiting_words(tokens, in_features) + 2 * F16Weights::kSummands * kSlab / 2 * kPanel;
}

// Tests with small whole numbers, whose sums are exact.
bool works() {
  alignas(64) std::uint32_t a[kTileWords];
  alignas(64) std::uint32_t b[kTileWords];
  float expected[kTile][kPanel] = {};
  alignas(64) float sums[kSumWords];
  float left[kTile][kDepth];
  float right[kPanel][kDepth];
  for (std::size_t row = 0; row < kTile; ++row) {
    for (std::size_t k = 0; k < kDepth; ++k) {
      left[row][k] = static_cast<float>((row * 7 + k * 3) % 17) - 8;
      right[row][k] = static_cast<float>((row * 5 + k * 11) % 13) - 6;
    }
  }
  for (std::size_t row = 0; row < kTile; ++row) {
    round_32_to_bf16(left[row], a + row * 16);
    std::uint32_t pairs[kDepth / 2];
    round_32_to_bf16(right[row], pairs);
    for (std::size_t k = 0; k < kDepth / 2; ++k) b[k * kPanel + row] = pairs[k];
    for (std::size_t n = 0; n < kPanel; ++n) {
      for (std::size_t k = 0; k < kDepth; ++k) expected[row][n] += left[row][k] * right[n][k];
    }
  }
  configure_tiles();
  multiply<1, 1>(a, {{b, b}, 1, 0}, 1, {}, {});
  Exchange{nullptr, sums}.all();
  release_tiles();
  return __builtin_memcmp(sums, expected, sizeof(expected)) == 0;
}

#ifdef TP_EMULATED_TILES
constexpr double (*kMultiplyBf16)(std::size_t) = nullptr;
constexpr double (*kMultiplyInt8)(std::size_t) = nullptr;
#else
// Four sums hide the latency of a product.
constexpr double kProductsPerRound = 4;

double multiply_bf16(std::size_t rounds) {
  configure_tiles();
  for (std::size_t round = 0; round < rounds; ++round) {
    multiply_tiles<0, 4, 6>();
    multiply_tiles<1, 4, 7>();
    multiply_tiles<2, 5, 6>();
    multiply_tiles<3, 5, 7>();
  }
  release_tiles();
  return 2.0 * kTile * kPanel * kDepth * kProductsPerRound * static_cast<double>(rounds);
}
constexpr auto kMultiplyBf16 = multiply_bf16;

double multiply_int8(std::size_t rounds) {
  configure_tiles();
  for (std::size_t round = 0; round < rounds; ++round) {
    multiply_byte_tiles<0, 4, 6>();
    multiply_byte_tiles<1, 4, 7>();
    multiply_byte_tiles<2, 5, 6>();
    multiply_byte_tiles<3, 5, 7>();
  }
  release_tiles();
  return 2.0 * kTile * kPanel * (2 * kDepth) * kProductsPerRound * static_cast<double>(rounds);
}
constexpr auto kMultiplyInt8 = multiply_int8;
#endif

}  // namespace

const TileKernels kTileKernels = {bf16,        f16,           int8,  int4,          quantized,    scaled,
                                  round_block, scratch_words, works, kMultiplyBf16, kMultiplyInt8};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
