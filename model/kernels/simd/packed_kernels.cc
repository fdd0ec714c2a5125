// Compiled once for every instruction set; see simd.h for what may not be used here.

#include "model/kernels/simd/bf16.h"
#include "model/kernels/simd/leaf_sum.h"
#include "model/kernels/simd/packed.h"
#include "model/kernels/simd/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

constexpr std::size_t kPanel = 16;
constexpr std::size_t kGroup = 32;
constexpr std::size_t kBlock = 64;
constexpr std::size_t kScaleBytes = 2 * kPanel * 2;

// Registers that sums may take: the others hold weights and activations.
#if defined(__AVX512F__)
constexpr std::size_t kSumRegisters = 24;
#else
constexpr std::size_t kSumRegisters = 12;
#endif

// Weights are fetched this far ahead of their use. Memory is read faster in two streams than in one, but not
// if they alternate with every line, so that floats fetch several lines of a panel at a time.
constexpr std::size_t kPrefetchBytes = 1024;
constexpr std::size_t kLines = 8;

inline void fetch_lines(const unsigned char* weights, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(weights + i * kVectorBytes + kPrefetchBytes);
}

// Panels that are multiplied side by side, `apart` panels from one to the next, for tokens from `token` on.
struct Pass {
  std::size_t panel;
  std::size_t apart;
  std::size_t token;
};

const unsigned char* weights_of(const PanelProduct& p, const Pass& pass, std::size_t n) {
  return p.panels + (pass.panel + n * pass.apart) * p.panel_bytes;
}

// Outputs from a panel on: the last panel may be cut short.
[[gnu::always_inline]] inline std::size_t outputs_of(const PanelProduct& p, const Pass& pass, std::size_t n) {
  return p.out_features - (pass.panel + n * pass.apart) * kPanel;
}
[[gnu::always_inline]] inline std::size_t place_of(const PanelProduct& p, const Pass& pass, std::size_t n,
                                                   std::size_t t) {
  return (pass.token + t) * p.y_stride + (pass.panel + n * pass.apart) * kPanel;
}

// What becomes of the results of T tokens for N panels: they are written.
struct Floats {
  // Calls body(begin, end) for the features that are summed as one.
  template <class Body>
  [[gnu::always_inline]] static void for_leaves(const PanelProduct& p, const Body& body) {
    body(0, p.in_features);
  }
  template <class Body>
  [[gnu::always_inline]] static void run_leaf(const Body& body) {
    body();
  }

  template <std::size_t T, std::size_t N>
  struct Results {
    const PanelProduct& p;
    const Pass& pass;

    Results(const PanelProduct& product, const Pass& of) : p(product), pass(of) {}

    [[gnu::always_inline]] void take(const Vector (&sums)[N][T]) const {
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) write(n, t, sums[n][t]);
      }
    }
    void end_leaf(bool /*is_first*/) const {}
    void finish() const {}

   private:
    [[gnu::always_inline]] void write(std::size_t n, std::size_t t, const Vector& sum) const {
      float* y = p.y + place_of(p, pass, n, t);
      if (outputs_of(p, pass, n) >= kPanel) return store(sum, y);
      float elements[kPanel];
      store(sum, elements);
      for (std::size_t i = 0; i < outputs_of(p, pass, n); ++i) y[i] = elements[i];
    }
  };
};

// Or they are those of leaves, and their exact sums are written.
struct LeafSums {
  // Without features, there is one empty leaf.
  template <class Body>
  [[gnu::always_inline]] static void for_leaves(const PanelProduct& p, const Body& body) {
    std::size_t begin = 0;
    do {
      const std::size_t end = p.in_features - begin < p.leaf ? p.in_features : begin + p.leaf;
      body(begin, end);
      begin = end;
    } while (begin < p.in_features);
  }

  // A function of its own, in which compilers keep all sums in registers.
  template <class Body>
  [[gnu::noinline]] static void run_leaf(const Body& body) {
    body();
  }

  template <std::size_t T, std::size_t N>
  struct Results {
    const PanelProduct& p;
    const Pass& pass;
    // Rows of p.sums are often a multiple of 4 KiB apart: loads from one would wait for stores to another.
    alignas(64) double leaves[N][T][kPanel];
    alignas(64) float elements[N][T][kPanel];  // of the leaf at hand

    Results(const PanelProduct& product, const Pass& of) : p(product), pass(of) {}

    [[gnu::always_inline]] void take(const Vector (&sums)[N][T]) {
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) store(sums[n][t], elements[n][t]);
      }
    }
    void end_leaf(bool is_first) {
      for (std::size_t n = 0; n < N; ++n) {
        for (std::size_t t = 0; t < T; ++t) add_leaf(elements[n][t], kPanel, is_first, leaves[n][t]);
      }
    }

    void finish() const {
      for (std::size_t n = 0; n < N; ++n) {
        const std::size_t outputs = outputs_of(p, pass, n);
        for (std::size_t t = 0; t < T; ++t)
          __builtin_memcpy(p.sums + place_of(p, pass, n, t), leaves[n][t],
                           (outputs < kPanel ? outputs : kPanel) * sizeof(double));
      }
    }
  };
};

// Panels that stay in the second-level cache while all tokens pass over them.
constexpr std::size_t kResidentBytes = 384 * 1024;

// `tokens` <= T tokens times `count` panels: the two halves side by side where their sums fit in registers.
template <std::size_t T, class Tile>
void run_tokens(const Tile& tile, const Pass& first, std::size_t count, std::size_t tokens) {
  if (tokens == T) {
    constexpr std::size_t kSide = 2 * T * Tile::kSumsPerToken * kParts <= kSumRegisters ? 2 : 1;
    const std::size_t apart = count / kSide;
    for (std::size_t i = 0; i < apart; ++i) {
      tile.template run<T, kSide>({first.panel + i, apart, first.token});
    }
    if (count % kSide == 1) tile.template run<T, 1>({first.panel + count - 1, 0, first.token});
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

// Two steps along the input, each 16 weights as float32. kConstants registers hold what unpacks them;
// kWideTokens pass over a panel at once where a vector is one register.
struct F32Weights {
  static constexpr std::size_t kConstants = 0;
  static constexpr std::size_t kWideTokens = 12;
  static constexpr std::size_t kBytes = 2 * kVectorBytes;
  static Vector first(const unsigned char* w) { return load(reinterpret_cast<const float*>(w)); }
  static Vector second(const unsigned char* w) { return first(w + kVectorBytes); }
};

struct F16Weights {
  static constexpr std::size_t kConstants = 0;
  static constexpr std::size_t kWideTokens = 8;
  static constexpr std::size_t kBytes = kVectorBytes;
  static Vector first(const unsigned char* w) { return load_f16(w); }
  static Vector second(const unsigned char* w) { return load_f16(w + kVectorBytes / 2); }
};

struct Bf16Weights {
  static constexpr std::size_t kConstants = 1;
  static constexpr std::size_t kWideTokens = 8;
  static constexpr std::size_t kBytes = kVectorBytes;
  static Vector first(const unsigned char* w) { return even_bf16(load_words(w)); }
  static Vector second(const unsigned char* w) { return odd_bf16(load_words(w)); }
};

template <class Weights, class Sums>
struct FloatTile {
  // A constant takes a register, too.
  static constexpr std::size_t kTokens =
      kParts == 1 ? Weights::kWideTokens : (kSumRegisters - Weights::kConstants) / kParts;
  static constexpr std::size_t kSumsPerToken = 1;

  const PanelProduct& p;

  template <std::size_t T, std::size_t N>
  void run(const Pass& pass) const {
    typename Sums::template Results<T, N> results(p, pass);
    Sums::for_leaves(p, [&](std::size_t begin, std::size_t end) {
      Sums::run_leaf([&] { run_leaf<T, N>(pass, begin, end, results); });
      results.end_leaf(begin == 0);
    });
    results.finish();
  }

  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void run_leaf(const Pass& pass, std::size_t begin, std::size_t end,
                                       typename Sums::template Results<T, N>& results) const {
    const std::size_t in_features = end - begin;
    const std::size_t skipped = begin == 0 ? 0 : begin / p.leaf * p.leaf_bytes;
    const float* x[T];
    for (std::size_t t = 0; t < T; ++t) x[t] = p.x + (pass.token + t) * p.x_stride + begin;
    const unsigned char* weights[N];
    for (std::size_t n = 0; n < N; ++n) weights[n] = weights_of(p, pass, n) + skipped;
    // One sum each, along k: neither the tokens of a pass nor the panels of a thread change its bits.
    Vector sums[N][T] = {};
    constexpr std::size_t kFeatures = 2 * kLines * kVectorBytes / Weights::kBytes;
    std::size_t k = 0;
    for (; k + 2 <= in_features; k += 2) {
      if (k % kFeatures == 0) {
        for (std::size_t n = 0; n < N; ++n) fetch_lines(weights[n], kLines);
      }
      Vector w[N];
      for (std::size_t n = 0; n < N; ++n) w[n] = Weights::first(weights[n]);
      for (std::size_t t = 0; t < T; ++t) {
        for (std::size_t n = 0; n < N; ++n) multiply_add(w[n], x[t][k], sums[n][t]);
      }
      for (std::size_t n = 0; n < N; ++n) {
        // Read again where it is needed: a compiler would keep both steps in registers, which sums need.
        if constexpr (kParts > 1) asm("" : "+r"(weights[n]));
        w[n] = Weights::second(weights[n]);
        weights[n] += Weights::kBytes;
      }
      for (std::size_t t = 0; t < T; ++t) {
        for (std::size_t n = 0; n < N; ++n) multiply_add(w[n], x[t][k + 1], sums[n][t]);
      }
    }
    if (k < in_features) {
      for (std::size_t n = 0; n < N; ++n) {
        const Vector w = Weights::first(weights[n]);
        for (std::size_t t = 0; t < T; ++t) multiply_add(w, x[t][k], sums[n][t]);
      }
    }
    results.take(sums);
  }
};

// Tokens of the integer kernels, which have a float and an integer sum each.
constexpr std::size_t kIntegerTokens = kParts == 1 ? 8 : kSumRegisters / kParts / 2 + 1;

// Their blocks of 64 features, and what T tokens from `token` on have from one: added to their results. Calls
// end_group(group) when it has added those of a group.
struct Int8Block {
  static constexpr std::size_t kBytes = kPanel * kBlock + kScaleBytes;
  static constexpr std::size_t kSumsPerToken = 2;

  template <std::size_t T, class End>
  [[gnu::always_inline]] static void run(const PanelProduct& p, const unsigned char* weights,
                                         std::size_t token, std::size_t block, Vector (&results)[T],
                                         const End& end_group) {
    const std::size_t groups = p.in_features / kGroup;
    const unsigned char* scales = weights + kPanel * kBlock;
    fetch_lines(scales, 1);
    for (std::size_t group = block / kGroup; group < (block + kBlock) / kGroup; ++group) {
      const std::int8_t* x = p.x_bytes + token * p.in_features + group * kGroup;
      IntVector sums[T];
      for (std::size_t t = 0; t < T; ++t) {
        sums[t] = broadcast(kBiasedDotIsExact ? 0 : p.x_corrections[(token + t) * groups + group]);
      }
      for (std::size_t i = 0; i < kGroup; i += 4, weights += kVectorBytes) {
        fetch_lines(weights, 1);
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

struct Int4Block {
  static constexpr std::size_t kBytes = kPanel * kBlock / 2 + kScaleBytes;
  static constexpr std::size_t kSumsPerToken = 3;

  template <std::size_t T, class End>
  [[gnu::always_inline]] static void run(const PanelProduct& p, const unsigned char* weights,
                                         std::size_t token, std::size_t block, Vector (&results)[T],
                                         const End& end_group) {
    const std::size_t groups = p.in_features / kGroup;
    const std::size_t group = block / kGroup;
    const std::int8_t* x = p.x_bytes + token * p.in_features + block;
    fetch_lines(weights + kPanel * kBlock / 2, 1);
    IntVector low[T];
    IntVector high[T];
    for (std::size_t t = 0; t < T; ++t) {
      low[t] = broadcast(p.x_corrections[(token + t) * groups + group]);
      high[t] = broadcast(p.x_corrections[(token + t) * groups + group + 1]);
    }
    for (std::size_t i = 0; i < kGroup; i += 4, weights += kVectorBytes) {
      fetch_lines(weights, 1);
      const WordVector w = load_words(weights);
      const WordVector w_low = low_halves(w);
      const WordVector w_high = high_halves(w);
      for (std::size_t t = 0; t < T; ++t) {
        const std::int8_t* four = x + t * p.in_features + i;
        dot_bytes(w_low, four, low[t]);
        dot_bytes(w_high, four + kGroup, high[t]);
      }
    }
    const Vector scale_low = load_f16(weights);
    const Vector scale_high = load_f16(weights + kScaleBytes / 2);
    for (std::size_t t = 0; t < T; ++t)
      add_scaled(low[t], scale_low, p.x_scales[(token + t) * groups + group], results[t]);
    end_group(group);
    for (std::size_t t = 0; t < T; ++t)
      add_scaled(high[t], scale_high, p.x_scales[(token + t) * groups + group + 1], results[t]);
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
    Sums::for_leaves(p, [&](std::size_t begin, std::size_t end) {
      Sums::run_leaf([&] { run_leaf<T, N>(pass, begin, end, results); });
      results.end_leaf(begin == 0);
    });
    results.finish();
  }

  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void run_leaf(const Pass& pass, std::size_t begin, std::size_t end,
                                       typename Sums::template Results<T, N>& results) const {
    const unsigned char* weights[N];
    for (std::size_t n = 0; n < N; ++n) weights[n] = weights_of(p, pass, n) + begin / kBlock * Block::kBytes;
    Vector sums[N][T] = {};
    for (std::size_t block = begin; block < end; block += kBlock) {
      for (std::size_t n = 0; n < N; ++n) {
        Block::template run<T>(p, weights[n], pass.token, block, sums[n], [](std::size_t) {});
        weights[n] += Block::kBytes;
      }
    }
    results.take(sums);
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
    const unsigned char* weights = weights_of(p, pass, 0);
    LeafSums::Results<T, 1> results(p, pass);
    Vector sums[1][T] = {};
    std::size_t leaf_end = p.leaf / kGroup;  // in groups
    const auto end_leaf = [&] {
      results.take(sums);
      results.end_leaf(leaf_end * kGroup == p.leaf);
      for (std::size_t t = 0; t < T; ++t) sums[0][t] = {};
      leaf_end += p.leaf / kGroup;
    };
    for (std::size_t block = 0; block < p.in_features; block += kBlock, weights += Block::kBytes) {
      Block::template run<T>(p, weights, pass.token, block, sums[0], [&](std::size_t group) {
        if (group + 1 == leaf_end) end_leaf();
      });
    }
    end_leaf();  // one that is cut short; after a whole one, zeros
    results.finish();
  }
};

template <class Weights>
void run_floats(const PanelProduct& p) {
  if (p.sums != nullptr) return run_panels(FloatTile<Weights, LeafSums>{p});
  run_panels(FloatTile<Weights, Floats>{p});
}

template <class Block>
void run_integers(const PanelProduct& p) {
  if (p.sums == nullptr) return run_panels(IntegerTile<Block, Floats>{p});
  if (p.leaf % kBlock == 0) return run_panels(IntegerTile<Block, LeafSums>{p});
  run_panels(GroupLeafTile<Block>{p});
}

void f32(const PanelProduct& p) { run_floats<F32Weights>(p); }
void f16(const PanelProduct& p) { run_floats<F16Weights>(p); }
void bf16(const PanelProduct& p) { run_floats<Bf16Weights>(p); }
void int8(const PanelProduct& p) { run_integers<Int8Block>(p); }
void int4(const PanelProduct& p) { run_integers<Int4Block>(p); }

#if defined(__AVX512BF16__)
template <class Sums>
struct Bf16PairTile {
  static constexpr std::size_t kTokens = 8;
  static constexpr std::size_t kSumsPerToken = 1;

  const PanelProduct& p;

  template <std::size_t T, std::size_t N>
  void run(const Pass& pass) const {
    const std::size_t pairs = p.in_features / 2;
    const std::uint32_t* x = p.x_pairs + pass.token * pairs;
    const unsigned char* weights[N];
    for (std::size_t n = 0; n < N; ++n) weights[n] = weights_of(p, pass, n);
    typename Sums::template Results<T, N> results(p, pass);
    Sums::for_leaves(p, [&](std::size_t begin, std::size_t end) {
      Sums::run_leaf([&] { run_leaf<T, N>(x, pairs, begin / 2, end / 2, weights, results); });
      results.end_leaf(begin == 0);
    });
    results.finish();
  }

  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void run_leaf(const std::uint32_t* x, std::size_t pairs, std::size_t begin,
                                       std::size_t end, const unsigned char* (&weights)[N],
                                       typename Sums::template Results<T, N>& results) const {
    Vector sums[N][T] = {};
    for (std::size_t k = begin; k < end; ++k) {
      __m512bh w[N];
      for (std::size_t n = 0; n < N; ++n) {
        w[n] = (__m512bh)load_words(weights[n]).part[0];
        weights[n] += kVectorBytes;
      }
      for (std::size_t t = 0; t < T; ++t) {
        const auto both = (__m512bh)_mm512_set1_epi32(static_cast<int>(x[t * pairs + k]));
        for (std::size_t n = 0; n < N; ++n) {
          sums[n][t].part[0] = (FloatRegister)_mm512_dpbf16_ps((__m512)sums[n][t].part[0], w[n], both);
        }
      }
    }
    results.take(sums);
  }
};
void bf16_pairs(const PanelProduct& p) {
  if (p.sums != nullptr) return run_panels(Bf16PairTile<LeafSums>{p});
  run_panels(Bf16PairTile<Floats>{p});
}
constexpr auto kBf16Pairs = bf16_pairs;
#else
constexpr void (*kBf16Pairs)(const PanelProduct&) = nullptr;
#endif

void quantize(const float* x, std::size_t size, std::int32_t offset, std::int8_t* bytes, float* scales,
              std::int32_t* corrections) {
  for (std::size_t group = 0; group < size / kGroup; ++group, x += kGroup, bytes += kGroup) {
    float largest = 0.0F;
#pragma omp simd reduction(max : largest)
    for (std::size_t i = 0; i < kGroup; ++i) {
      const float magnitude = x[i] < 0 ? -x[i] : x[i];
      largest = magnitude > largest ? magnitude : largest;
    }
    scales[group] = largest / 127.0F;
    const float inverse = largest == 0.0F ? 0.0F : 127.0F / largest;
    std::int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < kGroup; ++i) {
      // Rounds to nearest by adding 1.5 * 2^23, whose unit in the last place is 1.
      const float shifted = x[i] * inverse + 12582912.0F;
      const auto element = static_cast<std::int32_t>(shifted - 12582912.0F);
      bytes[i] = static_cast<std::int8_t>(element);
      sum += element;
    }
    corrections[group] = -offset * sum;
  }
}

void round_pairs(const float* x, std::size_t size, std::uint32_t* pairs) {
  std::size_t i = 0;
  for (; i + 32 <= size; i += 32) round_32_to_bf16(x + i, pairs + i / 2);
  if (i == size) return;
  float rest[32] = {};
  std::uint32_t rounded[16];
  for (std::size_t j = i; j < size; ++j) rest[j - i] = x[j];
  round_32_to_bf16(rest, rounded);
  for (std::size_t j = i; j < size; j += 2) pairs[j / 2] = rounded[(j - i) / 2];
}

}  // namespace

extern const PackedKernels kPackedKernels;
const PackedKernels kPackedKernels = {f32, f16, bf16, kBf16Pairs, int8, int4, quantize, round_pairs};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
