// The innermost loop of products of tiles: two panels times 32 tokens. For tile_kernels.cc only: everything
// is local to the translation unit.
#pragma once

#include "model/kernels/simd/tiles/tile_layout.h"
#include "model/kernels/simd/tiles/tiles.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kLine = 64;  // bytes of a cache line

// Data to prefetch to the second-level cache while a product runs: lines of each of two panels and of
// activations per step.
struct Ahead {
  const unsigned char* panels[2];
  std::size_t panel_lines;
  const unsigned char* x;
  std::size_t x_lines;
};

inline void fetch(const unsigned char* from, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(from + i * kLine, 0, 2);
}

// Adds the products of kRows tiles of activations and kColumns panels to the sums in registers, for one step
// along the features. Sums are tiles 0 to 3, activations 4 and 5, weights 6 and 7. `before` runs before the
// first product of each sum.
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

// Words of a block's four tiles of sums.
constexpr std::size_t kSumWords = 4 * kTileWords;

// Replaces the sums in registers by the next block's sums. Stores the old sums to `last` unless it is null.
// Loads the new sums from `next`; if it is null, the new sums are zero.
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

// The weights of one or two panels in tiles. Summand s of panel n is at panels[n] + s * summand_words.
struct WeightTiles {
  const std::uint32_t* panels[2];
  std::size_t summands;
  std::size_t summand_words;
};

// Adds a block's products to its sums, which stay in registers. The previous block's sums leave the registers
// one by one, each shortly before its register is needed. If all left at once, the unit would wait for the
// last products, and the next products for the stores.
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

}  // namespace
}  // namespace tp::kernels
