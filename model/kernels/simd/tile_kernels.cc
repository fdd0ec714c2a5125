// Compiled for AMX and for emulated tiles; see simd.h for what may not be used here.
//
// A step multiplies two tiles of activations (32 tokens x 32 features) with those of two panels (32 x 32
// outputs): four products for four tiles loaded, the most that eight registers allow. Sums stay in registers
// over up to 2048 features. Panels of a group stay in the second-level cache while all tokens pass over them.
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

// Features that are summed up in registers, and panels of a group: 768 KiB of bf16 in the second-level cache.
constexpr std::size_t kSlab = 2048;
constexpr std::size_t kPanels = 12;
// The same for a single block of tokens, where weights that are converted are used once, from the first-level
// cache.
constexpr std::size_t kShortSlab = 512;
constexpr std::size_t kFewPanels = 2;

// What is fetched into the second-level cache while a product runs: `step_bytes` of two panels at every step.
struct Ahead {
  const unsigned char* panels[2];
  std::size_t step_bytes;
};

// Adds the products of kRows tiles of activations and kColumns panels to the sums in registers, for `steps`
// tiles along the features. Sums are tiles 0 to 3, activations 4 and 5, weights 6 and 7.
template <int kRows, int kColumns>
inline void add_products(const std::uint32_t* a, const std::uint32_t* const (&b)[2], std::size_t steps,
                         const Ahead& ahead) {
  const auto fetch = [](const std::uint32_t* tile) {
    for (std::size_t i = 0; i < kTileWords; i += 16) __builtin_prefetch(tile + i);
  };
  constexpr std::size_t kAheadWords = 2 * kTileWords;
  const std::uint32_t* b0 = b[0];
  const std::uint32_t* b1 = b[1];
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < ahead.step_bytes; i += 64) {
      for (int n = 0; n < kColumns; ++n) {
        __builtin_prefetch(ahead.panels[n] + step * ahead.step_bytes + i, 0, 2);
      }
    }
    load_tile<6>(b0, 64);
    load_tile<4>(a, 64);
    multiply_tiles<0, 4, 6>();
    fetch(b0 + kAheadWords);
    if constexpr (kColumns == 2) {
      load_tile<7>(b1, 64);
      multiply_tiles<1, 4, 7>();
      fetch(b1 + kAheadWords);
    }
    fetch(a + kRows * kAheadWords);
    if constexpr (kRows == 2) {
      load_tile<5>(a + kTileWords, 64);
      multiply_tiles<2, 5, 6>();
      if constexpr (kColumns == 2) multiply_tiles<3, 5, 7>();
      fetch(a + kRows * kAheadWords + kTileWords);
    }
    a += kRows * kTileWords;
    b0 += kTileWords;
    b1 += kTileWords;
  }
}

// A tile of sums becomes, or is added to, [rows, width] of the result.
void write(const float* sums, std::size_t rows, std::size_t width, bool add, float* y, std::size_t y_stride) {
  for (std::size_t row = 0; row < rows; ++row, sums += kPanel, y += y_stride) {
    if (width == kPanel) {
      Vector sum = load(sums);
      if (add) sum += load(y);
      store(sum, y);
    } else {
      for (std::size_t i = 0; i < width; ++i) y[i] = add ? y[i] + sums[i] : sums[i];
    }
  }
}

// The weights of one or two panels in tiles: summand s of panel n at [n] + s * summand_words.
struct WeightTiles {
  const std::uint32_t* panels[2];
  std::size_t summands;
  std::size_t summand_words;
};

template <int kRows, int kColumns>
void multiply(const std::uint32_t* a, const WeightTiles& b, std::size_t steps, const Ahead& ahead,
              float* sums) {
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
  for (std::size_t s = 0; s < b.summands; ++s) {
    const std::size_t offset = s * b.summand_words;
    add_products<kRows, kColumns>(a, {b.panels[0] + offset, b.panels[1] + offset}, steps, ahead);
  }
  store_tile<0>(sums, 64);
  if constexpr (kColumns == 2) store_tile<1>(sums + kTileWords, 64);
  if constexpr (kRows == 2) store_tile<2>(sums + 2 * kTileWords, 64);
  if constexpr (kRows == 2 && kColumns == 2) store_tile<3>(sums + 3 * kTileWords, 64);
}

// How a product is cut: all of a slab of a group of panels is done before the next.
struct Cut {
  std::size_t blocks;  // of tokens
  std::size_t panels;
  std::size_t slab;
};

template <class Weights>
Cut cut_of(std::size_t tokens, std::size_t in_features) {
  const std::size_t all = (in_features + kBlock - 1) / kBlock * kBlock;
  const std::size_t blocks = (tokens + kTileBlock - 1) / kTileBlock;
  if (blocks > 1) return {blocks, kPanels / Weights::kSummands, all < kSlab ? all : kSlab};
  // A panel that need not be converted is read in one go.
  return {blocks, kFewPanels, all < kShortSlab || !Weights::kConverts ? all : kShortSlab};
}

template <class Weights>
class Product {
 public:
  explicit Product(const TileProduct& p) : p_(p), cut_(cut_of<Weights>(p.tokens, p.in_features)) {}

  void run() const {
    configure_tiles();
    for (std::size_t panel = 0; panel < p_.count; panel += cut_.panels) {
      // Without features there is one empty slab, whose sums are zero.
      std::size_t k = 0;
      do {
        run_slab(panel, k);
        k += cut_.slab;
      } while (k < p_.in_features);
    }
    release_tiles();
  }

 private:
  void run_slab(std::size_t first_panel, std::size_t k) const {
    const std::size_t panels = p_.count - first_panel < cut_.panels ? p_.count - first_panel : cut_.panels;
    const std::size_t end = p_.in_features - k < cut_.slab ? p_.in_features : k + cut_.slab;
    const std::size_t steps = (end - k + kDepth - 1) / kDepth;
    for (std::size_t i = 0; Weights::kConverts && i < panels; ++i) {
      std::uint32_t* out = converted(i);
      Weights::convert(panel(first_panel + i), k, end, out, out + summand_words());
    }
    const bool two_tiles_last = (p_.tokens - 1) % kTileBlock >= kTile;
    for (std::size_t block = 0; block < cut_.blocks; ++block) {
      const std::size_t rows = block + 1 < cut_.blocks || two_tiles_last ? 2 : 1;
      const std::uint32_t* a =
          p_.x_tiles + tile_words(block * kTileBlock, p_.in_features) + k / kDepth * rows * kTileWords;
      for (std::size_t i = 0; i < panels; i += 2) {
        const std::size_t columns = panels - i == 1 ? 1 : 2;
        alignas(64) float sums[4 * kTileWords];
        const auto run_tiles = rows == 2      ? columns == 2 ? multiply<2, 2> : multiply<2, 1>
                                    : columns == 2 ? multiply<1, 2>
                                              : multiply<1, 1>;
        run_tiles(a, tiles_of(first_panel, i, k), steps, ahead_of(first_panel + i, k, block, steps), sums);
        for (std::size_t m = 0; m < rows; ++m) {
          for (std::size_t n = 0; n < columns; ++n) {
            write_tile(sums + (2 * m + n) * kTileWords, block * kTileBlock + m * kTile, first_panel + i + n,
                       k > 0);
          }
        }
      }
    }
  }

  const unsigned char* panel(std::size_t index) const { return p_.panels + index * p_.panel_bytes; }

  // Words of a summand of a converted slab.
  std::size_t summand_words() const { return cut_.slab / 2 * kPanel; }
  std::uint32_t* converted(std::size_t index) const {
    return p_.converted + index * Weights::kSummands * summand_words();
  }

  // Panels i and i + 1 of a group.
  WeightTiles tiles_of(std::size_t first_panel, std::size_t i, std::size_t k) const {
    if (Weights::kConverts) return {{converted(i), converted(i + 1)}, Weights::kSummands, summand_words()};
    const auto tiles = [&](std::size_t index) {
      return reinterpret_cast<const std::uint32_t*>(panel(index)) + k / 2 * kPanel;
    };
    return {{tiles(first_panel + i), tiles(first_panel + i + 1)}, 1, 0};
  }

  // This block's part of what two panels take to the next slab, or of the panels that come in their place.
  Ahead ahead_of(std::size_t panel_index, std::size_t k, std::size_t block, std::size_t steps) const {
    if (Weights::kConverts || cut_.blocks == 1) return {{nullptr, nullptr}, 0};
    const bool same = k + cut_.slab < p_.in_features;
    const std::size_t next_panel = same ? panel_index : panel_index + cut_.panels;
    const std::size_t next_k = same ? k + cut_.slab : 0;
    const std::size_t step_bytes = (kTileBytes / cut_.blocks + 63) / 64 * 64;
    if (next_panel >= p_.count || block * step_bytes >= kTileBytes) return {{nullptr, nullptr}, 0};
    const unsigned char* first = panel(next_panel) + next_k * kPanel * 2 + block * steps * step_bytes;
    return {{first, first + p_.panel_bytes}, step_bytes};
  }

  void write_tile(const float* sums, std::size_t token, std::size_t panel_index, bool add) const {
    if (token >= p_.tokens) return;
    const std::size_t rows = p_.tokens - token < kTile ? p_.tokens - token : kTile;
    const std::size_t outputs = p_.out_features - panel_index * kPanel;
    write(sums, rows, outputs < kPanel ? outputs : kPanel, add,
          p_.y + token * p_.y_stride + panel_index * kPanel, p_.y_stride);
  }

  const TileProduct& p_;
  Cut cut_;
};

void bf16(const TileProduct& p) { Product<Bf16Weights>(p).run(); }
void f16(const TileProduct& p) { Product<F16Weights>(p).run(); }
void int8(const TileProduct& p) { Product<Int8Weights>(p).run(); }
void int4(const TileProduct& p) { Product<Int4Weights>(p).run(); }

void round_block(const float* x, std::size_t x_stride, std::size_t tokens, std::size_t in_features,
                 std::uint32_t* tiles) {
  const std::size_t rows = tokens > kTile ? 2 * kTile : kTile;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* in = x + row * x_stride;
    std::uint32_t* out = tiles + row / kTile * kTileWords + row % kTile * 16;
    for (std::size_t k = 0; k < in_features; k += kDepth, out += rows * 16) {
      if (row < tokens && k + kDepth <= in_features) {
        round_32_to_bf16(in + k, out);
        continue;
      }
      float rest[kDepth] = {};
      for (std::size_t i = 0; row < tokens && k + i < in_features; ++i) rest[i] = in[k + i];
      round_32_to_bf16(rest, out);
    }
  }
}

std::size_t converted_words(std::size_t tokens, std::size_t in_features) {
  // Both summands of an f16 take as much as the one of twice as many panels of the other types.
  const Cut cut = cut_of<Int8Weights>(tokens, in_features);
  const Cut cut_f16 = cut_of<F16Weights>(tokens, in_features);
  const std::size_t panels = cut.panels > 2 * cut_f16.panels ? cut.panels : 2 * cut_f16.panels;
  return panels * cut.slab / 2 * kPanel;
}

// Small whole numbers, whose sums are exact.
bool works() {
  alignas(64) std::uint32_t a[kTileWords];
  alignas(64) std::uint32_t b[kTileWords];
  float expected[kTile][kPanel] = {};
  alignas(64) float sums[4 * kTileWords];
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
  multiply<1, 1>(a, {{b, b}, 1, 0}, 1, {{nullptr, nullptr}, 0}, sums);
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

const TileKernels kTileKernels = {bf16,  f16,           int8,         int4, round_block, converted_words,
                                  works, kMultiplyBf16, kMultiplyInt8};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
