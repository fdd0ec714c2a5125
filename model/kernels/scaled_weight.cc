#include "model/kernels/scaled_weight.h"

#include "model/kernels/half.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>

namespace tp::kernels {
namespace {

constexpr std::size_t kPanel = PackedLayout::kPanel;

bool is_nan(std::uint8_t e4m3) { return (e4m3 & 0x7fU) == 0x7fU; }

float value_of_e4m3(std::uint8_t bits) {
  if (is_nan(bits)) return std::numeric_limits<float>::quiet_NaN();
  // The bits of an f16, except for the exponent's bias.
  const auto half = static_cast<std::uint16_t>((bits & 0x7fU) << 7 | (bits & 0x80U) << 8);
  return f16_to_float(half) * 256.0F;
}

float value_of_scale(ScaleType type, std::uint32_t bits) {
  switch (type) {
    case ScaleType::f16:
      return f16_to_float(static_cast<std::uint16_t>(bits));
    case ScaleType::bf16:
      return bf16_to_float(static_cast<std::uint16_t>(bits));
    default:
      return std::bit_cast<float>(bits);
  }
}

std::uint32_t nan_of(ScaleType type) {
  return type == ScaleType::f32 ? 0x7fc00000U : type == ScaleType::f16 ? 0x7e00U : 0x7fc0U;
}

// Packs up to 16 rows.
void pack_panel(const ScaledFormat& format, const ScaledRows& rows, unsigned char* panel) {
  const std::size_t panel_bytes = format.panel_bytes(rows.columns);
  std::fill_n(panel, panel_bytes, 0);
  const bool has_own = format.scale_rows == kPanel;
  unsigned char* const scales = panel + format.scales_place();
  unsigned char* const zero_points = panel + format.zero_points_place();
  for (std::size_t row = 0; row < rows.rows; ++row) {
    const std::size_t place = has_own ? row : rows.scale_rows[row];
    assert(place < format.scale_rows && rows.groups == format.groups);
    if (!has_own) panel[row] = static_cast<unsigned char>(place);
    for (std::size_t group = 0; group < rows.groups; ++group) {
      const std::size_t to = group * format.scale_rows + place;
      std::memcpy(scales + to * format.scale_bytes(), rows.scales + row * rows.groups + group,
                  format.scale_bytes());
      if (format.has_zero_points) zero_points[to] = rows.zero_points[row * rows.groups + group];
    }
  }
  unsigned char* const elements = panel + format.elements_place();
  for (std::size_t row = 0; row < rows.rows; ++row) {
    const std::uint8_t* const from = rows.elements + row * rows.columns;
    for (std::size_t k = 0; k < rows.columns; ++k) {
      if (are_halves(format.element)) {
        elements[k / 2 * kPanel + row] |= static_cast<unsigned char>(from[k] << (k % 2 * 4));
      } else {
        elements[k * kPanel + row] = from[k];
      }
    }
  }
}

// Makes the scales of NaN elements NaN, because the kernels treat such elements as numbers.
void spoil_nans(const ScaledFormat& format, const ScaledRows& rows, unsigned char* panel) {
  for (std::size_t row = 0; row < rows.rows; ++row) {
    for (std::size_t k = 0; k < rows.columns; ++k) {
      if (!is_nan(rows.elements[row * rows.columns + k])) continue;
      const std::size_t place = format.scale_rows == kPanel ? row : rows.scale_rows[row];
      const std::uint32_t nan = nan_of(format.scale_type);
      const std::size_t to = format.group_of(k, nullptr) * format.scale_rows + place;
      std::memcpy(panel + format.scales_place() + to * format.scale_bytes(), &nan, format.scale_bytes());
    }
  }
}

}  // namespace

void pack_scaled(const PackedLayout& layout, std::size_t first_row, const ScaledRows& rows, std::byte* data) {
  assert(first_row % kPanel == 0 && rows.columns == layout.in_features);
  assert(first_row + rows.rows <= layout.out_features);
  static_assert(std::endian::native == std::endian::little);
  if (rows.columns == 0) return;
  for (std::size_t row = 0; row < rows.rows; row += kPanel) {
    const ScaledRows part = rows.rows_from(row, std::min(kPanel, rows.rows - row));
    auto* const panel =
        reinterpret_cast<unsigned char*>(data + layout.place_of_panel((first_row + row) / kPanel));
    pack_panel(layout.scaled, part, panel);
    if (layout.scaled.element == ScaledElement::e4m3) spoil_nans(layout.scaled, part, panel);
  }
}

void set_column_groups([[maybe_unused]] const PackedLayout& layout, std::span<const std::uint16_t> groups,
                       std::byte* data) {
  assert(layout.scaled.group == 0 && groups.size() == layout.in_features);
  if (!groups.empty()) std::memcpy(data, groups.data(), groups.size_bytes());
}

void unpack_scaled_row(const PackedView& weight, std::size_t row, float* out) {
  const ScaledFormat& format = weight.layout.scaled;
  const auto* const panel = reinterpret_cast<const unsigned char*>(weight.panel(row / kPanel));
  const std::size_t r = row % kPanel;
  const std::size_t place = format.scale_rows == kPanel ? r : panel[r];
  const unsigned char* const elements = panel + format.elements_place();
  for (std::size_t k = 0; k < weight.layout.in_features; ++k) {
    const std::size_t index = format.group_of(k, weight.column_groups()) * format.scale_rows + place;
    std::uint32_t bits = 0;
    std::memcpy(&bits, panel + format.scales_place() + index * format.scale_bytes(), format.scale_bytes());
    const float scale = value_of_scale(format.scale_type, bits);
    if (format.element == ScaledElement::e4m3) {
      out[k] = value_of_e4m3(elements[k * kPanel + r]) * scale;
      continue;
    }
    const int number = are_halves(format.element) ? elements[k / 2 * kPanel + r] >> (k % 2 * 4) & 15
                                                  : elements[k * kPanel + r];
    if (format.element == ScaledElement::nf4) {
      out[k] = kNf4Values[number] * scale;
      continue;
    }
    const int zero = format.has_zero_points ? panel[format.zero_points_place() + index] : format.zero();
    out[k] = static_cast<float>(number - zero) * scale;
  }
}

}  // namespace tp::kernels
