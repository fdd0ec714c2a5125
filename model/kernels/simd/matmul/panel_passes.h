// Passes of tokens over panels. For packed_kernels.cc and quant_kernels.cc only: everything is local to the
// translation unit.
#pragma once

#include "model/kernels/simd/matmul/panel_results.h"

namespace tp::kernels {
namespace {

// Bytes of panels that stay in the second-level cache while all tokens pass over them.
constexpr std::size_t kResidentBytes = 384 * 1024;

// Most panels that a few tokens multiply at a time. More than two if sums wait for each other.
template <class Tile>
constexpr std::size_t kMaxSide = 2;

// Multiplies `tokens` <= T tokens by `count` panels, several panels at a time if their sums fit in registers.
template <std::size_t T, class Tile>
void run_tokens(const Tile& tile, const Pass& first, std::size_t count, std::size_t tokens) {
  if (tokens == T) {
    constexpr std::size_t kFitting = kSumRegisters / (T * Tile::kSumsPerToken * kParts);
    constexpr std::size_t kSide = kFitting < 2 ? 1 : kFitting < kMaxSide<Tile> ? 2 : kMaxSide<Tile>;
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

// Tokens pass over the panels in groups of equal size, in as few groups as registers for sums allow. A group
// stays in the first-level cache for all panels.
template <class Tile>
void run_panels(const Tile& tile) {
  const PanelProduct& p = tile.p;
  const std::size_t groups = (p.tokens + Tile::kTokens - 1) / Tile::kTokens;
  // panel_bytes is 0 if a rank owns no input features.
  const std::size_t fitting = 2 * (kResidentBytes / (2 * p.panel_bytes + 1) + 1);
  // A single group of tokens reads each panel once.
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
