#include "model/weights/packing_fingerprint.h"

#include "model/kernels/packed_weight.h"
#include "model/kernels/scaled_weight.h"
#include "parallel/machine/hash.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace tp {

namespace {

using namespace kernels;

constexpr std::size_t kRows = 24;     // includes a partial panel
constexpr std::size_t kColumns = 96;  // includes a partial block

// Some numbers of `bits` bits.
template <class T>
std::vector<T> numbers(std::size_t count, unsigned bits) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = static_cast<T>(mixed(i) & ((std::uint64_t{1} << bits) - 1));
  return all;
}

using Use = std::function<void(const PackedView&)>;

template <class Pack>
void use_packed(const PackedLayout& layout, const Use& use, const Pack& pack) {
  std::vector<std::byte> packed(layout.bytes());
  pack(packed.data());
  use({layout, packed.data()});
}

void use_rows(WeightType type, const Use& use) {
  std::vector<float> elements(kRows * kColumns);
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = static_cast<float>(mixed(i) >> 40) / static_cast<float>(1 << 24) - 0.5F;
  const std::vector<std::uint16_t> halves = numbers<std::uint16_t>(kRows * kColumns, 14);
  const auto* stored = reinterpret_cast<const std::byte*>(halves.data());
  for (const std::size_t leaf : {0, 32, 40}) {
    const PackedLayout layout{type, kRows, kColumns, leaf != 0, leaf};
    for (const StoredRows& rows : {StoredRows::of({elements.data(), kRows, kColumns}),
                                   StoredRows{DType::f16, stored, kRows, kColumns, kColumns * 2},
                                   StoredRows{DType::bf16, stored, kRows, kColumns, kColumns * 2}})
      use_packed(layout, use, [&](std::byte* data) { pack_rows(layout, 0, rows, data); });
  }
}

void use_groups(WeightType type, const Use& use) {
  std::vector<std::int8_t> elements(kRows * kColumns);
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = static_cast<std::int8_t>(static_cast<int>(mixed(i) & 15) - 8);
  constexpr std::size_t kGroups = kColumns / PackedLayout::kGroup;
  std::vector<std::uint16_t> scales = numbers<std::uint16_t>(kRows * kGroups, 14);
  const GroupedRows rows{{elements.data(), kRows, kColumns}, {scales.data(), kRows, kGroups}};
  const PackedLayout layout{type, kRows, kColumns};
  use_packed(layout, use, [&](std::byte* data) { pack_groups(layout, 0, rows, data); });
}

void use_quantized(WeightType type, const QuantFormat& format, const Use& use) {
  constexpr std::size_t kElements = kRows * QuantizedRows::kColumns;
  std::vector<std::uint8_t> elements =
      numbers<std::uint8_t>(kElements, static_cast<unsigned>(format.element_bits()));
  std::vector<std::uint8_t> scales =
      numbers<std::uint8_t>(kElements, format.scales == ScaleKind::six_bits ? 6 : 8);
  std::vector<std::uint8_t> offsets(scales.rbegin(), scales.rend());
  std::vector<std::uint16_t> halves = numbers<std::uint16_t>(kRows * 16, 14);
  const QuantizedRows rows{kRows, 1, elements.data(), scales.data(), offsets.data(), halves.data()};
  for (const std::size_t phase : {0, 64, 160}) {
    const PackedLayout layout{type, kRows, kColumns, false, 0, phase};
    use_packed(layout, use, [&](std::byte* data) { pack_quantized(layout, 0, rows, data); });
  }
}

// Covers groups in order, of which the first is partial, and groups by a list; scales of rows, and of blocks
// that end within a panel.
void use_scaled(WeightType type, const Use& use) {
  constexpr std::size_t kGroups = 4;
  std::vector<std::uint8_t> elements =
      numbers<std::uint8_t>(kRows * kColumns, are_halves(scaled_element(type)) ? 4 : 6);
  std::vector<std::uint32_t> scales = numbers<std::uint32_t>(kRows * kGroups, 14);
  std::vector<std::uint8_t> zero_points = numbers<std::uint8_t>(kRows * kGroups, 4);
  const std::vector<std::uint16_t> list = numbers<std::uint16_t>(kColumns, 2);
  for (const std::size_t group : {std::size_t{0}, std::size_t{30}}) {
    for (const std::size_t scale_rows : {std::size_t{2}, PackedLayout::kPanel}) {
      const ScaledFormat format{scaled_element(type), ScaleType::f16, true, scale_rows, kGroups, group,
                                group == 0 ? 0U : 10U};
      const PackedLayout layout{type, kRows, kColumns, false, 0, 0, format};
      std::vector<std::uint8_t> rows(kRows);
      for (std::size_t row = 0; row < kRows; ++row) rows[row] = row % PackedLayout::kPanel < 5 ? 0 : 1;
      use_packed(layout, use, [&](std::byte* data) {
        if (layout.has_column_groups()) set_column_groups(layout, list, data);
        pack_scaled(
            layout, 0,
            {kRows, kColumns, kGroups, elements.data(), scales.data(), zero_points.data(), rows.data()},
            data);
      });
    }
  }
}

}  // namespace

void for_example_weights(const std::function<void(const kernels::PackedView&)>& use) {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(kLastWeightType); ++i) {
    const auto type = static_cast<WeightType>(i);
    if (const QuantFormat* const format = quant_format(type)) {
      use_quantized(type, *format, use);
    } else if (is_scaled(type)) {
      use_scaled(type, use);
    } else {
      use_rows(type, use);
      if (type == WeightType::int8 || type == WeightType::int4) use_groups(type, use);
    }
  }
}

std::uint64_t packing_fingerprint() {
  std::uint64_t hash = hash_of("");
  for_example_weights([&](const PackedView& weight) {
    hash = hash_of({reinterpret_cast<const char*>(weight.data), weight.layout.bytes()}, hash);
  });
  return hash;
}

}  // namespace tp
