// Compiled for AMX and for emulated tiles; see simd.h for what may not be used here.
//
// A step multiplies two tiles of activations (32 tokens x 32 features) with those of two panels (32 x 32
// outputs): four products for four tiles loaded, the most that eight registers allow. They take 64 cycles, in
// which the second-level cache delivers half of those tiles, but not all: two panels' tiles of a slab of
// features must stay in the first-level cache while all blocks of tokens pass over them. The blocks' tiles of
// a slab, and the sums of a group of panels, which wait there for the next slab, share the second-level
// cache. Everything that comes next is fetched there meanwhile: the third level is no faster than memory on
// some machines.
//
// Quantized weights become bf16 rather than bytes of an int8 product, because their scales would end such a
// product after 32 features: storing, converting and scaling its 256 sums takes about 50 cycles, three times
// what the product takes. Converting a panel's 512 elements takes about 85 cycles once for all tokens.

#include "model/kernels/simd/bf16.h"
#include "model/kernels/simd/tile_product.h"
#include "model/kernels/simd/tile_weights.h"
#include "model/kernels/simd/tiles.h"
#include "model/kernels/simd/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=amx or amx_emulated"
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTile = 16;  // rows of a tile
constexpr std::size_t kTileWords = 256;
constexpr std::size_t kTileBytes = 1024;
constexpr std::size_t kLine = 64;  // bytes of a cache line

// Tokens that pass over a slab of a pair of panels before the next: a group's sums, a slab of activations and
// the next slab's fill half of a second-level cache of 2 MiB.
constexpr std::size_t kChunk = 512;
constexpr std::size_t kSlab = 256;      // features
constexpr std::size_t kGroupPairs = 8;  // of panels whose sums wait for the next slab
// A single block of tokens uses weights once: tiles that need no conversion are read in one go, and fetched
// so far ahead.
constexpr std::size_t kAheadBytes = 2 * kTileBytes;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }

// Tokens' activations in tiles: chunks of tokens; in a chunk slabs of features; in a slab blocks of 32
// tokens; in a block, for every 32 features, 16 rows of 16 pairs, and 16 more unless it is the last and has
// no more tokens. What a product reads next lies next to what it has read: parts far apart would meet in the
// same few sets of a cache.
struct XLayout {
  std::size_t tokens;
  std::size_t in_features;

  // Rows of tiles from a token on, to the end of a block or chunk.
  std::size_t rows(std::size_t token, std::size_t most) const {
    return divide_up(least(tokens - token, most), kTile) * kTile;
  }
  // Words before the tiles of a block's feature; `token` is a block's first, `feature` a tile's.
  std::size_t offset(std::size_t token, std::size_t feature) const {
    const std::size_t chunk = token / kChunk * kChunk;
    const std::size_t slab = feature / kSlab * kSlab;
    const std::size_t steps = divide_up(in_features, kDepth);
    const std::size_t slab_steps = least(kSlab / kDepth, steps - slab / kDepth);
    return kTile * (chunk * steps + rows(chunk, kChunk) * slab / kDepth + (token - chunk) * slab_steps +
                    rows(token, kTileBlock) * (feature - slab) / kDepth);
  }
};

// What is fetched into the second-level cache while a product runs: so many lines of each of two panels and
// of activations at every step.
struct Ahead {
  const unsigned char* panels[2];
  std::size_t panel_lines;
  const unsigned char* x;
  std::size_t x_lines;
};

inline void fetch(const unsigned char* from, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(from + i * kLine, 0, 2);
}

// Adds the products of kRows tiles of activations and kColumns panels to the sums in registers, for a tile
// along the features. Sums are tiles 0 to 3, activations 4 and 5, weights 6 and 7. `before` runs before the
// first product of every sum.
template <int kRows, int kColumns, class Before>
inline void add_step(const std::uint32_t* a, const std::uint32_t* b0, const std::uint32_t* b1,
                     const Ahead& ahead, std::size_t step, const Before& before) {
  before.template operator()<0>();
  load_tile<6>(b0, kLine);
  load_tile<4>(a, kLine);
  multiply_tiles<0, 4, 6>();
  fetch(ahead.panels[0] + step * ahead.panel_lines * kLine, ahead.panel_lines);
  before.template operator()<1>();
  if constexpr (kColumns == 2) {
    load_tile<7>(b1, kLine);
    multiply_tiles<1, 4, 7>();
    fetch(ahead.panels[1] + step * ahead.panel_lines * kLine, ahead.panel_lines);
  }
  before.template operator()<2>();
  if constexpr (kRows == 2) {
    load_tile<5>(a + kTileWords, kLine);
    multiply_tiles<2, 5, 6>();
  }
  fetch(ahead.x + step * ahead.x_lines * kLine, ahead.x_lines);
  before.template operator()<3>();
  if constexpr (kRows == 2 && kColumns == 2) multiply_tiles<3, 5, 7>();
}

// A block's four tiles of sums.
constexpr std::size_t kSumWords = 4 * kTileWords;

// Takes the sums in registers for those of the next block: `last` is where they go, `next` where the others
// are. Null: nowhere, and zero.
struct Exchange {
  const float* next;
  float* last;

  template <int kSum>
  void operator()() const {
    if (last != nullptr) store_tile<kSum>(last + kSum * kTileWords, kLine);
    if (next != nullptr) {
      load_tile<kSum>(next + kSum * kTileWords, kLine);
    } else {
      zero_tile<kSum>();
    }
  }
  void all() const {
    operator()<0>();
    operator()<1>();
    operator()<2>();
    operator()<3>();
  }
};

// The weights of one or two panels in tiles: summand s of panel n at [n] + s * summand_words.
struct WeightTiles {
  const std::uint32_t* panels[2];
  std::size_t summands;
  std::size_t summand_words;
};

// Adds a block's products to its sums, which stay in registers. Those of the block before leave them one by
// one, each shortly before its register is needed: in one go they would keep the unit waiting for the last
// products, and the next products waiting for them.
template <int kRows, int kColumns>
void multiply(const std::uint32_t* a, const WeightTiles& b, std::size_t steps, const Ahead& ahead,
              const Exchange& exchange) {
  if (steps == 0) {
    exchange.all();
    return;
  }
  const auto nothing = []<int>() {};
  for (std::size_t s = 0; s < b.summands; ++s) {
    const std::uint32_t* b0 = b.panels[0] + s * b.summand_words;
    const std::uint32_t* b1 = b.panels[1] + s * b.summand_words;
    if (s == 0) {
      add_step<kRows, kColumns>(a, b0, b1, ahead, 0, exchange);
    } else {
      add_step<kRows, kColumns>(a, b0, b1, ahead, 0, nothing);
    }
    for (std::size_t step = 1; step < steps; ++step) {
      add_step<kRows, kColumns>(a + step * kRows * kTileWords, b0 + step * kTileWords, b1 + step * kTileWords,
                                ahead, step, nothing);
    }
  }
}

// A tile of sums to [rows, width] of the result.
void write(const float* sums, std::size_t rows, std::size_t width, float* y, std::size_t y_stride) {
  for (std::size_t row = 0; row < rows; ++row, sums += kPanel, y += y_stride) {
    if (width < kPanel) {
      for (std::size_t i = 0; i < width; ++i) y[i] = sums[i];
    } else {
      store(load(sums), y);
    }
  }
}

// Words of scratch for the sums that wait, before those for converted weights.
std::size_t waiting_words(std::size_t tokens, std::size_t in_features) {
  if (in_features <= kSlab) return 0;
  const std::size_t blocks = divide_up(least(tokens, kChunk), kTileBlock);
  return (blocks > 1 ? kGroupPairs : 1) * blocks * kSumWords;
}

// One chunk of tokens times all panels, which are taken in pairs: neighbours, or gates and ups.
template <class Weights>
class Product {
 public:
  Product(const TileProduct& p, std::size_t token)
      : p_(p),
        x_{p.tokens, p.in_features},
        first_token_(token),
        pairs_(p.combine != nullptr ? p.count : divide_up(p.count, 2)),
        blocks_(divide_up(least(p.tokens - token, kChunk), kTileBlock)),
        group_(blocks_ > 1 ? kGroupPairs : 1),
        slab_(blocks_ > 1 || Weights::kConverts ? kSlab : divide_up(p.in_features, kBlock) * kBlock),
        waiting_(reinterpret_cast<float*>(p.scratch)),
        converted_(p.scratch + waiting_words(p.tokens, p.in_features)) {}

  void run() {
    for (std::size_t pair = 0; pair < pairs_; pair += group_) {
      // Without features there is one empty slab, whose sums are zero.
      std::size_t k = 0;
      do {
        run_slab({pair, least(pair + group_, pairs_)}, k);
        k += slab_;
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

  // A block's sums for a pair, and whether nothing is to be added any more. Null: none.
  struct Sums {
    float* to;
    std::size_t token;
    std::size_t pair;
    bool is_last;
  };

  void run_slab(const Group& group, std::size_t k) {
    const std::size_t end = least(k + slab_, p_.in_features);
    const std::size_t steps = divide_up(end - k, kDepth);
    const bool is_last = end == p_.in_features;
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
                  {k > 0 ? waiting : nullptr, in_registers_.to});
        finish(in_registers_);
        in_registers_ = {is_last ? last_ : waiting, token, pair, is_last};
      }
    }
  }

  // Sums that have left the registers.
  void finish(const Sums& sums) const {
    if (sums.to != nullptr && sums.is_last) write_sums(sums.to, sums.token, sums.pair);
  }

  std::size_t columns(std::size_t pair) const {
    return p_.combine != nullptr || 2 * pair + 1 < p_.count ? 2 : 1;
  }

  // A pair's panels from a feature on; twice the same where there is only one.
  const unsigned char* panel(std::size_t pair, std::size_t n, std::size_t k) const {
    const std::size_t index =
        p_.combine != nullptr ? pair + n * p_.apart : 2 * pair + (n < columns(pair) ? n : 0);
    return p_.panels + index * p_.panel_bytes + Weights::bytes_before(k);
  }

  // Features [k, end) of a pair.
  WeightTiles tiles_of(std::size_t pair, std::size_t k, std::size_t end) const {
    if constexpr (Weights::kConverts) {
      const std::size_t words = slab_ / 2 * kPanel;
      for (std::size_t n = 0; n < columns(pair); ++n) {
        std::uint32_t* out = converted_ + n * Weights::kSummands * words;
        Weights::convert(panel(pair, n, 0), k, end, out, out + words);
      }
      return {{converted_, converted_ + Weights::kSummands * words}, Weights::kSummands, words};
    } else {
      return {{reinterpret_cast<const std::uint32_t*>(panel(pair, 0, k)),
               reinterpret_cast<const std::uint32_t*>(panel(pair, 1, k))},
              1,
              0};
    }
  }

  // This block's part of the panels and activations that come next.
  Ahead ahead_of(const Group& group, std::size_t pair, std::size_t k, std::size_t block,
                 std::size_t steps) const {
    if (steps == 0) return {};
    if (blocks_ == 1 && !Weights::kConverts) {
      return {
          {panel(pair, 0, k) + kAheadBytes, panel(pair, 1, k) + kAheadBytes}, kTileBytes / kLine, nullptr, 0};
    }
    Ahead ahead{};
    const bool in_group = pair + 1 < group.end;
    const std::size_t next_slab = k + slab_ < p_.in_features ? k + slab_ : 0;
    const std::size_t next_pair = in_group ? pair + 1 : next_slab > 0 ? group.begin : group.end;
    const std::size_t next_k = in_group ? k : next_slab;
    const std::size_t bytes = Weights::bytes_before(next_k + slab_) - Weights::bytes_before(next_k);
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

  // A pair's four tiles of sums, for the tokens of a block.
  void write_sums(const float* sums, std::size_t token, std::size_t pair) const {
    for (std::size_t m = 0; m < 2 && token + m * kTile < p_.tokens; ++m) {
      const float* row = sums + m * 2 * kTileWords;
      if (p_.combine != nullptr) {
        alignas(64) float combined[kTileWords];
        p_.combine(row, row + kTileWords, kTileWords, combined);
        write_tile(combined, token + m * kTile, pair);
        continue;
      }
      for (std::size_t n = 0; n < columns(pair); ++n) {
        write_tile(row + n * kTileWords, token + m * kTile, 2 * pair + n);
      }
    }
  }

  void write_tile(const float* tile, std::size_t token, std::size_t panel_index) const {
    if (p_.y == nullptr) return round_tile(tile, token, p_.first_feature + panel_index * kPanel);
    const std::size_t outputs = p_.out_features - panel_index * kPanel;
    write(tile, least(p_.tokens - token, kTile), least(outputs, kPanel),
          p_.y + token * p_.y_stride + panel_index * kPanel, p_.y_stride);
  }

  // Rows beyond the tokens, too, which are zero.
  void round_tile(const float* tile, std::size_t token, std::size_t feature) const {
    const XLayout layout{p_.tokens, p_.y_features};
    const std::size_t block = token / kTileBlock * kTileBlock;
    std::uint32_t* out = p_.y_tiles + layout.offset(block, feature / kDepth * kDepth) +
                         token % kTileBlock / kTile * kTileWords + feature % kDepth / 2;
    for (std::size_t row = 0; row < kTile; ++row) round_16_to_bf16(tile + row * kPanel, out + row * 16);
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

void round_block(const float* x, std::size_t x_stride, std::size_t tokens, std::size_t in_features,
                 std::size_t first_token, std::uint32_t* tiles) {
  const XLayout layout{tokens, in_features};
  const std::size_t rows = layout.rows(first_token, kTileBlock);
  const float* block = x + first_token * x_stride;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* in = block + row * x_stride;
    for (std::size_t slab = 0; slab < in_features; slab += kSlab) {
      std::uint32_t* out =
          tiles + layout.offset(first_token, slab) + row / kTile * kTileWords + row % kTile * 16;
      const std::size_t end = least(slab + kSlab, in_features);
      for (std::size_t k = slab; k < end; k += kDepth, out += rows * 16) {
        if (first_token + row < tokens && k + kDepth <= in_features) {
          round_32_to_bf16(in + k, out);
          continue;
        }
        float rest[kDepth] = {};
        for (std::size_t i = 0; first_token + row < tokens && k + i < in_features; ++i) rest[i] = in[k + i];
        round_32_to_bf16(rest, out);
      }
    }
  }
}

std::size_t scratch_words(std::size_t tokens, std::size_t in_features) {
  return waiting_words(tokens, in_features) + 2 * F16Weights::kSummands * kSlab / 2 * kPanel;
}

// Small whole numbers, whose sums are exact.
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

const TileKernels kTileKernels = {bf16,          f16,   int8,          int4,         round_block,
                                  scratch_words, works, kMultiplyBf16, kMultiplyInt8};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
