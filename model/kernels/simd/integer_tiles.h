// Products with weights that are groups of integers. For packed_kernels.cc and quant_kernels.cc only:
// everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/panel_passes.h"
#include "model/kernels/simd/panel_results.h"
#include "model/kernels/simd/quad_sums.h"

namespace tp::kernels {
namespace {

// Tokens of the integer kernels, which have a float and an integer sum each.
constexpr std::size_t kIntegerTokens = kParts == 1 ? 8 : kSumRegisters / kParts / 2 + 1;

// Blocks whose sizes are all the same.
template <std::size_t kBlockBytes>
struct EqualBlocks {
  static constexpr std::size_t kBytes = kBlockBytes;

  // From the beginning of a panel to a block, and from that to the next one.
  static std::size_t place(const PanelProduct& /*p*/, std::size_t block) { return block * kBytes; }
  static std::size_t step(const PanelProduct& /*p*/, std::size_t /*block*/) { return kBytes; }
};

// Blocks of 64 features, and what T tokens from `token` on have from one: added to their results. Calls
// end_group(group) when it has added those of a group.
struct Int8Block : EqualBlocks<kPanel * kBlock + kScaleBytes> {
  static constexpr std::size_t kSumsPerToken = 2;

  template <std::size_t T, class End>
  [[gnu::always_inline]] static void run(const PanelProduct& p, const unsigned char* weights,
                                         std::size_t token, std::size_t block, Vector (&results)[T],
                                         const End& end_group) {
    const std::size_t groups = p.in_features / kGroup;
    const unsigned char* scales = weights + kPanel * kBlock;
    fetch_lines(weights, kBytes / kVectorBytes);
    for (std::size_t group = block / kGroup; group < (block + kBlock) / kGroup; ++group) {
      const std::int8_t* x = p.x_bytes + token * p.in_features + group * kGroup;
      IntVector sums[T];
      for (std::size_t t = 0; t < T; ++t) {
        sums[t] = broadcast(kBiasedDotIsExact ? 0 : p.x_corrections[(token + t) * groups + group]);
      }
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kGroup; i += 4, weights += kVectorBytes) {
        const WordVector w = load_words(weights);
        for (std::size_t t = 0; t < T; ++t) dot_biased_bytes(w, x + t * p.in_features + i, sums[t]);
      }
      const Vector scale = load_f16(scales);
      scales += kScaleBytes / 2;
      for (std::size_t t = 0; t < T; ++t) {
        add_scaled(sums[t], scale, p.x_scales[(token + t) * groups + group], results[t]);
      }
      end_group(group);
    }
  }
};

struct Int4Block : EqualBlocks<kPanel * kBlock / 2 + kScaleBytes> {
  static constexpr std::size_t kSumsPerToken = 3;

  template <std::size_t T, class End>
  [[gnu::always_inline]] static void run(const PanelProduct& p, const unsigned char* weights,
                                         std::size_t token, std::size_t block, Vector (&results)[T],
                                         const End& end_group) {
    const std::size_t groups = p.in_features / kGroup;
    const std::size_t group = block / kGroup;
    const std::int8_t* x = p.x_bytes + token * p.in_features + block;
    fetch_lines(weights, kBytes / kVectorBytes);
    static_assert(kQuadsOfSum<15> == kGroup / 4);
    const auto correction = [&](std::size_t t, std::size_t of) {
      return broadcast(p.x_corrections[(token + t) * groups + of]);
    };
    QuadSums low[T];
    QuadSums high[T];
    for (std::size_t t = 0; t < T; ++t) {
      low[t] = QuadSums(correction(t, group));
      high[t] = QuadSums(correction(t, group + 1));
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kGroup; i += 4, weights += kVectorBytes) {
      const WordVector w = load_words(weights);
      const WordVector w_low = low_halves(w);
      const WordVector w_high = high_halves(w);
      for (std::size_t t = 0; t < T; ++t) {
        const std::int8_t* four = x + t * p.in_features + i;
        low[t].add(w_low, four);
        high[t].add(w_high, four + kGroup);
      }
    }
    const Vector scale_low = load_f16(weights);
    const Vector scale_high = load_f16(weights + kScaleBytes / 2);
    for (std::size_t t = 0; t < T; ++t)
      add_scaled(low[t].total(correction(t, group)), scale_low, p.x_scales[(token + t) * groups + group],
                 results[t]);
    end_group(group);
    for (std::size_t t = 0; t < T; ++t)
      add_scaled(high[t].total(correction(t, group + 1)), scale_high,
                 p.x_scales[(token + t) * groups + group + 1], results[t]);
    end_group(group + 1);
  }
};

// Leaves of whole blocks, or none.
template <class Block, class Sums>
struct IntegerTile {
  static constexpr std::size_t kTokens = kIntegerTokens;
  static constexpr std::size_t kSumsPerToken = Block::kSumsPerToken;

  const PanelProduct& p;

  template <std::size_t T, std::size_t N>
  void run(const Pass& pass) const {
    typename Sums::template Results<T, N> results(p, pass);
    results.sum([&](const Leaf& leaf)
                    __attribute__((always_inline)) { run_leaf<T, N>(pass, leaf, results); });
  }

  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void run_leaf(const Pass& pass, const Leaf& leaf,
                                       typename Sums::template Results<T, N>& results) const {
    const unsigned char* weights[N];
    for (std::size_t n = 0; n < N; ++n)
      weights[n] = weights_of(p, pass, n) + Block::place(p, leaf.begin / kBlock);
    Vector sums[N][T];
    set_zero(sums);
    for (std::size_t block = leaf.begin; block < leaf.end; block += kBlock) {
      for (std::size_t n = 0; n < N; ++n) {
        Block::template run<T>(p, weights[n], pass.token, block, sums[n], [](std::size_t) {});
        weights[n] += Block::step(p, block / kBlock);
      }
    }
    results.take(sums, leaf);
  }
};

// Leaves that end within a block.
template <class Block>
struct GroupLeafTile {
  static constexpr std::size_t kTokens = kIntegerTokens;
  static constexpr std::size_t kSumsPerToken = Block::kSumsPerToken;

  const PanelProduct& p;

  template <std::size_t T, std::size_t N>
  void run(const Pass& pass) const {
    for (std::size_t n = 0; n < N; ++n) run_panel<T>({pass.panel + n * pass.apart, 0, pass.token});
  }

  template <std::size_t T>
  void run_panel(const Pass& pass) const {
    const unsigned char* weights = weights_of(p, pass, 0) + Block::place(p, 0);
    LeafSums::Results<T, 1> results(p, pass);
    Vector sums[1][T] = {};
    std::size_t leaf_end = (p.front + p.leaf) / kGroup;  // in groups
    const auto end_leaf = [&] {
      results.take(sums, {});
      results.add(1, leaf_end * kGroup == p.front + p.leaf);
      for (std::size_t t = 0; t < T; ++t) sums[0][t] = {};
      leaf_end += p.leaf / kGroup;
    };
    for (std::size_t block = 0; block < p.in_features; block += kBlock) {
      Block::template run<T>(p, weights, pass.token, block, sums[0], [&](std::size_t group) {
        if (group + 1 == leaf_end) end_leaf();
      });
      weights += Block::step(p, block / kBlock);
    }
    end_leaf();  // one that is cut short; after a whole one, zeros
    results.finish();
  }
};

template <class Block>
void run_integers(const PanelProduct& p) {
  if (p.sums == nullptr) return run_panels(IntegerTile<Block, Floats>{p});
  if (p.leaf % kBlock == 0) return run_panels(IntegerTile<Block, LeafSums>{p});
  run_panels(GroupLeafTile<Block>{p});
}

}  // namespace
}  // namespace tp::kernels
