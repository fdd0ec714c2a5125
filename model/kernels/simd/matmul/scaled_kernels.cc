// Compiled once per instruction set; see simd.h for the restrictions.
//
// Few tokens read panels in place. For more tokens, some panels at a time are first converted to float32 in
// the second-level cache. Both ways multiply the same float32 values and add in the same order, so that
// results have the same bits.

#include "model/kernels/simd/matmul/float_tiles.h"
#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/matmul/scaled_pairs.h"
#include "model/kernels/simd/matmul/scaled_panels.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

// A group's scales and zero points as floats.
constexpr std::size_t kTableFloats = 2 * kLanes;

void make_table(const ScaledFormat& format, const unsigned char* panel, float* table) {
  for (std::size_t group = 0; group < format.groups; ++group, table += kTableFloats) {
    const GroupNumbers numbers = load_group(format, panel, group);
    store(numbers.scales, table);
    store(numbers.zero_points, table + kLanes);
  }
}

[[gnu::always_inline]] inline GroupNumbers group_of_table(const float* table, std::size_t group) {
  const float* numbers = table + group * kTableFloats;
  return {load(numbers), load(numbers + kLanes)};
}

template <ScaledElement kElement, class Sums>
struct ScaledTile {
  static constexpr std::size_t kTokens = kParts == 1 ? 8 : (kSumRegisters - 4) / kParts;
  static constexpr std::size_t kSumsPerToken = 1;

  const PanelProduct& p;

  template <std::size_t T, std::size_t N>
  void run(const Pass& pass) const {
    auto* const tables = reinterpret_cast<float*>(p.scratch);
    for (std::size_t n = 0; n < N; ++n)
      make_table(*p.scaled, weights_of(p, pass, n), tables + n * p.scaled->groups * kTableFloats);
    typename Sums::template Results<T, N> results(p, pass);
    results.sum([&](const Leaf& leaf)
                    __attribute__((always_inline)) { run_leaf<T, N>(pass, leaf, tables, results); });
  }

  template <std::size_t T, std::size_t N>
  [[gnu::always_inline]] void run_leaf(const Pass& pass, const Leaf& leaf, const float* tables,
                                       typename Sums::template Results<T, N>& results) const {
    // Columns in a cache line of elements.
    constexpr std::size_t kLine = kVectorBytes / kLanes * (are_halves(kElement) ? 2 : 1);
    const ScaledFormat& format = *p.scaled;
    const float* x[T];
    for (std::size_t t = 0; t < T; ++t) x[t] = p.x + (pass.token + t) * p.x_stride;
    const unsigned char* elements[N];
    for (std::size_t n = 0; n < N; ++n) elements[n] = weights_at(p, pass, n, format.elements_place());
    Vector sums[N][T];
    set_zero(sums);
    for (std::size_t k = leaf.begin; k < leaf.end;) {
      const std::size_t group = format.group_of(k, p.column_groups);
      const std::size_t end_of_group = format.end_of_group(k);
      const std::size_t end = end_of_group < leaf.end ? end_of_group : leaf.end;
      GroupNumbers numbers[N];
      for (std::size_t n = 0; n < N; ++n)
        numbers[n] = group_of_table(tables + n * format.groups * kTableFloats, group);
      for (; k < end; ++k) {
        if (k % kLine == 0) {
          for (std::size_t n = 0; n < N; ++n) fetch_lines(elements[n] + format.element_bytes(k), 1);
        }
        Vector w[N];
        for (std::size_t n = 0; n < N; ++n) w[n] = values_of_column<kElement>(elements[n], k, numbers[n]);
        for (std::size_t t = 0; t < T; ++t) {
          for (std::size_t n = 0; n < N; ++n) multiply_add(w[n], x[t][k], sums[n][t]);
        }
      }
    }
    results.take(sums, leaf);
  }
};

// With this many tokens or fewer, a pass over the panels takes no longer than converting them to floats.
constexpr std::size_t kFewTokens = ScaledTile<ScaledElement::e4m3, Floats>::kTokens;

template <ScaledElement kElement>
void widen(const PanelProduct& p, const unsigned char* panel, float* out) {
  const ScaledFormat& format = *p.scaled;
  const unsigned char* elements = panel + format.elements_place();
  for (std::size_t k = 0; k < p.in_features;) {
    const GroupNumbers numbers = load_group(format, panel, format.group_of(k, p.column_groups));
    const std::size_t end_of_group = format.end_of_group(k);
    const std::size_t end = end_of_group < p.in_features ? end_of_group : p.in_features;
    for (; k < end; ++k, out += kLanes) {
      fetch_lines(elements + format.element_bytes(k), 1);
      store(values_of_column<kElement>(elements, k, numbers), out);
    }
  }
}

// Number of panels that are widened at a time.
std::size_t panels_at_once(std::size_t in_features) {
  const std::size_t panel = in_features * kVectorBytes;
  return 2 * panel < kResidentBytes ? kResidentBytes / (panel + 1) : 1;
}

std::size_t scratch_bytes(const ScaledFormat& format, std::size_t in_features, std::size_t panels,
                          std::size_t tokens) {
  // The most groups that the columns of any slice touch, because heads of a layer share scratch.
  const std::size_t groups = format.group == 0 ? format.groups : in_features / format.group + 2;
  const std::size_t tables = 2 * groups * kTableFloats * sizeof(float);
  if (tokens <= kFewTokens) return tables;
  const std::size_t max = panels_at_once(in_features);
  const std::size_t widened = (panels < max ? panels : max) * in_features * kVectorBytes;
  return widened > tables ? widened : tables;
}

template <ScaledElement kElement, class Sums>
void multiply_many(const PanelProduct& p) {
  const std::size_t max = panels_at_once(p.in_features);
  PanelProduct part = p;
  part.panels = p.scratch;
  part.panel_bytes = p.in_features * kVectorBytes;
  part.leaf_bytes = p.leaf * kVectorBytes;
  for (std::size_t begin = 0; begin < p.count; begin += max) {
    part.count = p.count - begin < max ? p.count - begin : max;
    for (std::size_t n = 0; n < part.count; ++n)
      widen<kElement>(p, p.panels + (begin + n) * p.panel_bytes,
                      reinterpret_cast<float*>(p.scratch) + n * p.in_features * kLanes);
    if (p.y != nullptr) part.y = p.y + begin * kPanel;
    if (p.sums != nullptr) part.sums = p.sums + begin * kPanel;
    part.out_features = p.out_features - begin * kPanel;
    run_panels(FloatTile<F32Weights, Sums>{part});
  }
}

template <ScaledElement kElement, class Sums>
void multiply_elements(const PanelProduct& p) {
  if (p.tokens > kFewTokens) return multiply_many<kElement, Sums>(p);
  run_panels(ScaledTile<kElement, Sums>{p});
}

template <class Sums>
void multiply_for(const PanelProduct& p) {
  switch (p.scaled->element) {
    case ScaledElement::e4m3:
      return multiply_elements<ScaledElement::e4m3, Sums>(p);
    case ScaledElement::bytes:
      return multiply_elements<ScaledElement::bytes, Sums>(p);
    case ScaledElement::half_bytes:
      return multiply_elements<ScaledElement::half_bytes, Sums>(p);
    case ScaledElement::nf4:
      return multiply_elements<ScaledElement::nf4, Sums>(p);
  }
}

void multiply(const PanelProduct& p) {
  if (p.sums != nullptr) return multiply_for<LeafSums>(p);
  multiply_for<Floats>(p);
}

}  // namespace

extern const ScaledKernels kScaledKernels;
#if defined(__AVX512BF16__) && defined(__AVX512VBMI__)
const ScaledKernels kScaledKernels = {multiply, scratch_bytes, multiply_e4m3_pairs, pair_scratch_bytes};
#else
const ScaledKernels kScaledKernels = {multiply, scratch_bytes, nullptr, nullptr};
#endif

}  // namespace tp::kernels::TP_ISA_NAMESPACE
