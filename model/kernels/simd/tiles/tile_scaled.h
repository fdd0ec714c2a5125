// Converts types with a ScaledFormat to tiles of bf16. For tile_kernels.cc only: everything is local to the
// translation unit.
#pragma once

#include "model/kernels/simd/matmul/scaled_panels.h"
#include "model/kernels/simd/tiles/tile_weights.h"

namespace tp::kernels {
namespace {

template <ScaledElement kElement>
void convert_columns(const TileProduct& p, const unsigned char* panel, std::size_t begin, std::size_t end,
                     std::uint32_t* out) {
  const ScaledFormat& format = *p.scaled;
  const unsigned char* elements = panel + format.elements_place();
  GroupNumbers numbers = {};
  std::size_t end_of_group = begin;
  const auto column = [&](std::size_t k) {
    if (k >= end) return Vector{};
    if (k >= end_of_group) {
      numbers = load_group(format, panel, format.group_of(k, p.column_groups));
      end_of_group = format.end_of_group(k);
    }
    return values_of_column<kElement>(elements, k, numbers);
  };
  for (std::size_t k = begin; k < end || (k - begin) % kDepth != 0; k += 2, out += kPanel) {
    __builtin_prefetch(elements + format.element_bytes(k) + kPrefetchBytes);
    const Vector first = column(k);
    store_words(round_half_up(first, column(k + 1)), out);
  }
}

struct ScaledWeights {
  static constexpr std::size_t kSummands = 1;
  static constexpr bool kConverts = true;
  static std::size_t bytes_before(const TileProduct& p, std::size_t k) {
    return k == 0 ? 0 : p.scaled->elements_place() + p.scaled->element_bytes(k);
  }

  static void convert(const TileProduct& p, const unsigned char* panel, std::size_t begin, std::size_t end,
                      std::uint32_t* out, std::uint32_t*) {
    switch (p.scaled->element) {
      case ScaledElement::e4m3:
        return convert_columns<ScaledElement::e4m3>(p, panel, begin, end, out);
      case ScaledElement::bytes:
        return convert_columns<ScaledElement::bytes>(p, panel, begin, end, out);
      case ScaledElement::half_bytes:
        return convert_columns<ScaledElement::half_bytes>(p, panel, begin, end, out);
      case ScaledElement::nf4:
        return convert_columns<ScaledElement::nf4>(p, panel, begin, end, out);
    }
  }
};

}  // namespace
}  // namespace tp::kernels
