// How tokens pass over panels. For packed_kernels.cc and quant_kernels.cc only: everything is local to the
// translation unit.
#pragma once

#include "model/kernels/simd/matmul/panel_results.h"

namespace tp::kernels {
namespace {

// Panels that stay in the second-level cache while all tokens pass over them.
constexpr std::size_t kResidentBytes = 384 * 1024;

// Panels that a few tokens take side by side: more than two where sums wait for each other.
template <class Tile>
constexpr std::size_t kMostSide = 2;

// `tokens` <= T tokens times `count` panels: parts of these side by side where their sums fit in registers.
template <std::size_t T, class Tile>
void run_tokens(const Tile& tile, const Pass& first, std::size_t count, std::size_t tokens) {
  if (tokens == T) {
    constexpr std::size_t kFitting = kSumRegisters / (T * Tile::kSumsPerToken * kParts);
    constexpr std::size_t kSide = kFitting < 2 ? 1 : kFitting < kMostSide<Tile> ? 2 : kMostSide<Tile>;
    const std::size_t apart = count / kSide;
    for (std::size_t i = 0; i < apart; ++i) {
      tile.template run<T, kSide>({first.panel + i, apart, first.token});
    }
    for (std::size_t i = apart * kSide; i < count; ++i)
      tile.template run<T, 1>({first.panel + i, 0, first.token});
  } else if constexpr (T > 1) {
    run_tokens<T - 1>(tile, first, count, tokens);
  }
}

// Tokens go over the panels in groups of equal size, as few as their sums in registers allow. A group stays
// in the first-level cache for all panels.
template <class Tile>
void run_panels(const Tile& tile) {
  const PanelProduct& p = tile.p;
  const std::size_t groups = (p.tokens + Tile::kTokens - 1) / Tile::kTokens;
  // The bytes are 0 where a rank owns no input feature.
  const std::size_t fitting = 2 * (kResidentBytes / (2 * p.panel_bytes + 1) + 1);
  // A single group of tokens reads every panel once.
  const std::size_t resident = groups == 1 ? p.count : fitting;
  for (std::size_t begin = 0; begin < p.count; begin += resident) {
    const std::size_t count = p.count - begin < resident ? p.count - begin : resident;
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t first = p.tokens * group / groups;
      const std::size_t tokens = p.tokens * (group + 1) / groups - first;
      run_tokens<Tile::kTokens>(tile, {begin, 0, first}, count, tokens);
    }
  }
}

}  // namespace
}  // namespace tp::kernels
