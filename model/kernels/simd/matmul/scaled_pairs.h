// Products of F8_E4M3 with activations in pairs of bf16, which represents such elements exactly. For
// scaled_kernels.cc only: everything is local to the translation unit.
#pragma once

#if defined(__AVX512BF16__) && defined(__AVX512VBMI__)

#include "model/kernels/simd/matmul/panel_passes.h"
#include "model/kernels/simd/matmul/scaled_panels.h"

namespace tp::kernels {
namespace {

// Four columns of 16 rows as pairs of bf16: two pairs per row.
struct FourColumns {
  __m512i pairs[2];

  // Clears the columns whose bit is not set.
  void keep(unsigned columns) {
    for (int i = 0; i < 2; ++i)
      pairs[i] = _mm512_maskz_mov_epi16(0x55555555U * (columns >> (2 * i) & 3U), pairs[i]);
  }
};
constexpr std::size_t kColumnsAtOnce = 4;

// The 128 elements that are not negative, divided by 256, as bytes of bf16; see load_group.
struct E4m3Table {
  alignas(64) unsigned char low[128];
  alignas(64) unsigned char high[128];
};
constexpr E4m3Table e4m3_table() {
  E4m3Table table{};
  for (unsigned element = 0; element < 128; ++element) {
    unsigned exponent = element >> 3;
    unsigned mantissa = element & 7U;
    unsigned bits = 0;
    if (exponent > 0) {
      bits = (exponent + 112) << 7 | mantissa << 4;
    } else if (mantissa > 0) {  // a subnormal
      for (exponent = 113; mantissa < 8; --exponent) mantissa <<= 1;
      bits = exponent << 7 | (mantissa & 7U) << 4;
    }
    table.low[element] = static_cast<unsigned char>(bits);
    table.high[element] = static_cast<unsigned char>(bits >> 8);
  }
  return table;
}
constexpr E4m3Table kE4m3Table = e4m3_table();

// Columns as stored in a panel.
class E4m3Columns {
 public:
  static std::size_t bytes_of_four() { return kVectorBytes; }

  // The panel ends after `count` columns.
  FourColumns load(const unsigned char* columns, std::size_t count) const {
    const __mmask64 loaded = count < kColumnsAtOnce ? (__mmask64{1} << (count * kLanes)) - 1 : ~__mmask64{0};
    const __m512i bytes = _mm512_maskz_loadu_epi8(loaded, columns);
    // Each quarter has four rows: the pairs of the first two columns, then the pairs of the other two. Masked
    // form: g++ 12 warns about the plain form.
    constexpr __mmask64 kAll = ~__mmask64{0};
    const __m512i ordered = _mm512_maskz_permutexvar_epi8(kAll, order_, bytes);
    const __m512i low = _mm512_permutex2var_epi8(low_[0], ordered, low_[1]);
    const __m512i high = _mm512_permutex2var_epi8(high_[0], ordered, high_[1]);
    constexpr int kAOrBAndC = 0xf8;
    const __m512i with_signs = _mm512_ternarylogic_epi32(high, ordered, _mm512_set1_epi8(-128), kAOrBAndC);
    return {{_mm512_unpacklo_epi8(low, with_signs), _mm512_unpackhi_epi8(low, with_signs)}};
  }

 private:
  static __m512i line(const unsigned char* p) { return _mm512_load_si512(p); }
  static __m512i order() {
    alignas(64) unsigned char places[64];
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned row = i / 16 * 4 + i % 8 / 2;
      const unsigned column = i % 16 / 8 * 2 + i % 2;
      places[i] = static_cast<unsigned char>(column * kLanes + row);
    }
    return line(places);
  }

  __m512i order_ = order();
  __m512i low_[2] = {line(kE4m3Table.low), line(kE4m3Table.low + 64)};
  __m512i high_[2] = {line(kE4m3Table.high), line(kE4m3Table.high + 64)};
};

// Columns that have been widened.
struct WidenedColumns {
  static std::size_t bytes_of_four() { return 2 * kVectorBytes; }
  FourColumns load(const unsigned char* columns, std::size_t /*count*/) const {
    return {{_mm512_loadu_si512(columns), _mm512_loadu_si512(columns + kVectorBytes)}};
  }
};

// Sums each group of columns with the same scales separately, so that the tokens and panels of a pass change
// no bits.
template <class Columns>
struct ScaledPairTile {
  static constexpr std::size_t kTokens = 8;
  static constexpr std::size_t kSumsPerToken = 1;

  const PanelProduct& p;
  const unsigned char* columns;  // columns of the first panel
  std::size_t panel_bytes;       // from one panel's columns to the next

  template <std::size_t T, std::size_t N>
  void run(const Pass& pass) const {
    const ScaledFormat& format = *p.scaled;
    const Columns reader;
    const unsigned char* four[N];
    const unsigned char* panels[N];
    for (std::size_t n = 0; n < N; ++n) {
      panels[n] = weights_of(p, pass, n);
      four[n] = columns + (pass.panel + n * pass.apart) * panel_bytes;
    }
    const std::size_t count = columns_of(p);
    const std::uint32_t* x = p.x_pairs + pass.token * (p.in_features / 2);
    Vector results[N][T];
    set_zero(results);
    for (std::size_t k = 0; k < count;) {
      const std::size_t group = format.group_of(k, nullptr);
      const std::size_t end_of_group = format.end_of_group(k);
      const std::size_t end = end_of_group < count ? end_of_group : count;
      Vector sums[N][T];
      set_zero(sums);
      for (std::size_t begin = k / kColumnsAtOnce * kColumnsAtOnce; begin < end; begin += kColumnsAtOnce) {
        FourColumns w[N];
        for (std::size_t n = 0; n < N; ++n) {
          const unsigned char* at = four[n] + begin / kColumnsAtOnce * Columns::bytes_of_four();
          fetch_lines(at, 1);
          w[n] = reader.load(at, count - begin);
        }
        if (begin < k || begin + kColumnsAtOnce > end) {
          for (std::size_t n = 0; n < N; ++n) w[n].keep(columns_between(begin, k, end));
        }
        // Rows of activations have an even number of elements: there is no pair after the last one.
        const std::size_t second = begin + 2 < p.in_features ? begin / 2 + 1 : begin / 2;
        add_products<T, N>(x + begin / 2, w, 0, sums);
        add_products<T, N>(x + second, w, 1, sums);
      }
      for (std::size_t n = 0; n < N; ++n) {
        const Vector scales = load_group(format, panels[n], group).scales;
        for (std::size_t t = 0; t < T; ++t) multiply_add(scales, sums[n][t], results[n][t]);
      }
      k = end;
    }
    Floats::Results<T, N>(p, pass).take(results, {});
  }

  static std::size_t columns_of(const PanelProduct& p) {
    return p.panel_bytes == 0 ? 0 : (p.panel_bytes - p.scaled->elements_place()) / kLanes;
  }

 private:
  // Bit i: whether column begin + i is in [first, end).
  static unsigned columns_between(std::size_t begin, std::size_t first, std::size_t end) {
    unsigned bits = 0;
    for (std::size_t i = 0; i < kColumnsAtOnce; ++i)
      bits |= static_cast<unsigned>(begin + i >= first && begin + i < end) << i;
    return bits;
  }

  // x: the first token's pair.
  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void add_products(const std::uint32_t* x, const FourColumns (&w)[N],
                                           std::size_t pair, Vector (&sums)[N][T]) const {
    for (std::size_t t = 0; t < T; ++t) {
      const auto both = (__m512bh)_mm512_set1_epi32(static_cast<int>(x[t * (p.in_features / 2)]));
      for (std::size_t n = 0; n < N; ++n)
        sums[n][t].part[0] =
            (FloatRegister)_mm512_dpbf16_ps((__m512)sums[n][t].part[0], (__m512bh)w[n].pairs[pair], both);
    }
  }
};

template <class Columns>
constexpr std::size_t kMaxSide<ScaledPairTile<Columns>> = 4;

// Few tokens read panels in place. For more tokens, some panels at a time are first widened in the
// second-level cache. Results have the same bits.
constexpr std::size_t kFewPairTokens = ScaledPairTile<E4m3Columns>::kTokens;

constexpr std::size_t widened_bytes(std::size_t in_features) {
  return (in_features + kColumnsAtOnce - 1) / kColumnsAtOnce * 2 * kVectorBytes;
}

void widen_columns(const unsigned char* columns, std::size_t count, unsigned char* out) {
  const E4m3Columns reader;
  for (std::size_t k = 0; k < count; k += kColumnsAtOnce, out += 2 * kVectorBytes) {
    fetch_lines(columns + k * kLanes, 1);
    const FourColumns four = reader.load(columns + k * kLanes, count - k);
    _mm512_storeu_si512(out, four.pairs[0]);
    _mm512_storeu_si512(out + kVectorBytes, four.pairs[1]);
  }
}

// Number of panels that are widened at a time.
std::size_t widened_at_once(std::size_t in_features) {
  const std::size_t panel = widened_bytes(in_features);
  return 2 * panel < kResidentBytes ? kResidentBytes / (panel + 1) : 1;
}

std::size_t pair_scratch_bytes(std::size_t in_features, std::size_t panels, std::size_t tokens) {
  const std::size_t max = widened_at_once(in_features);
  return tokens <= kFewPairTokens ? 0 : (panels < max ? panels : max) * widened_bytes(in_features);
}

void multiply_e4m3_pairs(const PanelProduct& p) {
  const std::size_t elements = p.scaled->elements_place();
  if (p.tokens <= kFewPairTokens)
    return run_panels(ScaledPairTile<E4m3Columns>{p, p.panels + elements, p.panel_bytes});
  const std::size_t count = ScaledPairTile<WidenedColumns>::columns_of(p);
  const std::size_t widened = widened_bytes(count);
  const std::size_t max = widened_at_once(count);
  PanelProduct part = p;
  for (std::size_t begin = 0; begin < p.count; begin += max) {
    part.count = p.count - begin < max ? p.count - begin : max;
    part.panels = p.panels + begin * p.panel_bytes;
    part.y = p.y + begin * kPanel;
    part.out_features = p.out_features - begin * kPanel;
    for (std::size_t n = 0; n < part.count; ++n)
      widen_columns(part.panels + n * p.panel_bytes + elements, count, p.scratch + n * widened);
    run_panels(ScaledPairTile<WidenedColumns>{part, p.scratch, widened});
  }
}

}  // namespace
}  // namespace tp::kernels

#endif
