#include "model/kernels/packed_weight.h"

#include "model/kernels/half.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

namespace tp {
namespace kernels {
namespace {

constexpr std::size_t kPanel = PackedLayout::kPanel;
constexpr std::size_t kGroup = PackedLayout::kGroup;
constexpr std::size_t kBlock = PackedLayout::kBlock;

std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

std::size_t block_bytes(WeightType type) {
  const std::size_t elements = kPanel * kBlock;
  return (type == WeightType::int8 ? elements : elements / 2) + PackedLayout::kScaleBytes;
}

}  // namespace

std::size_t PackedLayout::padded_in_features() const {
  switch (type) {
    case WeightType::f32:
    case WeightType::f16:
      return in_features;
    case WeightType::bf16:
      return round_up(in_features, 2);
    default:
      return round_up(in_features, kBlock);
  }
}

std::size_t PackedLayout::panel_bytes() const {
  switch (type) {
    case WeightType::f32:
      return kPanel * in_features * sizeof(float);
    case WeightType::f16:
    case WeightType::bf16:
      return kPanel * padded_in_features() * sizeof(std::uint16_t);
    default:
      return padded_in_features() / kBlock * block_bytes(type);
  }
}

std::size_t PackedLayout::bytes() const {
  return type == WeightType::f32 ? out_features * in_features * sizeof(float) : panels() * panel_bytes();
}

namespace {

// Element (row, column) of up to 16 rows, zero beyond them: panels and steps are filled up with zeros.
class PanelRows {
 public:
  explicit PanelRows(TensorView<const float> rows) : rows_(rows) {}
  float operator()(std::size_t row, std::size_t column) const {
    return row < rows_.rows() && column < rows_.columns() ? rows_.row(row)[column] : 0.0F;
  }

 private:
  TensorView<const float> rows_;
};

void pack_bf16(const PanelRows& rows, std::size_t in_features, std::byte* panel) {
  auto* out = reinterpret_cast<std::uint16_t*>(panel);
  for (std::size_t pair = 0; pair < in_features; pair += 2) {
    for (std::size_t row = 0; row < kPanel; ++row) {
      *out++ = float_to_bf16(rows(row, pair));
      *out++ = float_to_bf16(rows(row, pair + 1));
    }
  }
}

void pack_f16(const PanelRows& rows, std::size_t in_features, std::byte* panel) {
  auto* out = reinterpret_cast<std::uint16_t*>(panel);
  for (std::size_t column = 0; column < in_features; ++column) {
    for (std::size_t row = 0; row < kPanel; ++row) *out++ = float_to_f16(rows(row, column));
  }
}

struct Group {
  std::array<std::int8_t, kGroup> elements;
  std::uint16_t scale;  // f16
};

// Q8_0: the scale makes the largest magnitude 127. Source: GGUF, quantize_row_q8_0.
Group quantize_int8(const PanelRows& rows, std::size_t row, std::size_t first) {
  float largest = 0.0F;
  for (std::size_t i = 0; i < kGroup; ++i) largest = std::max(largest, std::abs(rows(row, first + i)));
  const float scale = largest / 127.0F;
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  Group group;
  group.scale = float_to_f16(scale);
  for (std::size_t i = 0; i < kGroup; ++i) {
    group.elements[i] = static_cast<std::int8_t>(std::lround(rows(row, first + i) * inverse));
  }
  return group;
}

// Q4_0: the scale makes the element of the largest magnitude -8. Source: GGUF, quantize_row_q4_0.
Group quantize_int4(const PanelRows& rows, std::size_t row, std::size_t first) {
  float extreme = 0.0F;
  for (std::size_t i = 0; i < kGroup; ++i) {
    const float value = rows(row, first + i);
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  const float scale = extreme / -8.0F;
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  Group group;
  group.scale = float_to_f16(scale);
  for (std::size_t i = 0; i < kGroup; ++i) {
    const int element = static_cast<int>(rows(row, first + i) * inverse + 8.5F);
    group.elements[i] = static_cast<std::int8_t>(std::min(element, 15) - 8);
  }
  return group;
}

// `group_of(row, first)` gives the group of 32 that begins at element `first` of a row.
template <class GroupOf>
void pack_int8(const GroupOf& group_of, std::size_t in_features, std::byte* panel) {
  for (std::size_t block = 0; block < in_features; block += kBlock, panel += block_bytes(WeightType::int8)) {
    auto* scales = reinterpret_cast<std::uint16_t*>(panel + kPanel * kBlock);
    for (std::size_t g = 0; g < 2; ++g) {
      for (std::size_t row = 0; row < kPanel; ++row) {
        const Group group = group_of(row, block + g * kGroup);
        scales[g * kPanel + row] = group.scale;
        for (std::size_t i = 0; i < kGroup; ++i) {
          panel[g * kPanel * kGroup + i / 4 * 4 * kPanel + row * 4 + i % 4] =
              static_cast<std::byte>(group.elements[i] + 128);
        }
      }
    }
  }
}

template <class GroupOf>
void pack_int4(const GroupOf& group_of, std::size_t in_features, std::byte* panel) {
  for (std::size_t block = 0; block < in_features; block += kBlock, panel += block_bytes(WeightType::int4)) {
    auto* scales = reinterpret_cast<std::uint16_t*>(panel + kPanel * kBlock / 2);
    for (std::size_t row = 0; row < kPanel; ++row) {
      const Group low = group_of(row, block);
      const Group high = group_of(row, block + kGroup);
      scales[row] = low.scale;
      scales[kPanel + row] = high.scale;
      for (std::size_t i = 0; i < kGroup; ++i) {
        panel[i / 4 * 4 * kPanel + row * 4 + i % 4] =
            static_cast<std::byte>((low.elements[i] + 8) | (high.elements[i] + 8) << 4);
      }
    }
  }
}

// An element of a block of int8 or int4, with its scale.
float block_element(WeightType type, const std::byte* block, std::size_t row, std::size_t k) {
  const std::size_t g = k / kGroup;
  const std::size_t place = k % kGroup / 4 * 4 * kPanel + row * 4 + k % 4;
  const std::byte* scales = block + block_bytes(type) - PackedLayout::kScaleBytes;
  std::uint16_t scale = 0;
  std::memcpy(&scale, scales + (g * kPanel + row) * sizeof(scale), sizeof(scale));
  const int element = type == WeightType::int8
                          ? std::to_integer<int>(block[g * kPanel * kGroup + place]) - 128
                          : (std::to_integer<int>(block[place]) >> (4 * g) & 15) - 8;
  return static_cast<float>(element) * f16_to_float(scale);
}

}  // namespace

void pack_rows(const PackedLayout& layout, std::size_t first_row, TensorView<const float> rows,
               std::byte* data) {
  assert(first_row % kPanel == 0 && rows.columns() == layout.in_features);
  assert(first_row + rows.rows() <= layout.out_features);
  if (layout.type == WeightType::f32) {
    auto* out = reinterpret_cast<float*>(data) + first_row * layout.in_features;
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      std::memcpy(out + row * layout.in_features, rows.row(row), layout.in_features * sizeof(float));
    }
    return;
  }
  const std::size_t padded = layout.padded_in_features();
  for (std::size_t row = 0; row < rows.rows(); row += kPanel) {
    const PanelRows part(rows.rows_from(row, std::min(kPanel, rows.rows() - row)));
    std::byte* panel = data + (first_row + row) / kPanel * layout.panel_bytes();
    switch (layout.type) {
      case WeightType::bf16:
        pack_bf16(part, padded, panel);
        break;
      case WeightType::f16:
        pack_f16(part, padded, panel);
        break;
      case WeightType::int8:
        pack_int8([&](std::size_t r, std::size_t first) { return quantize_int8(part, r, first); }, padded,
                  panel);
        break;
      default:
        pack_int4([&](std::size_t r, std::size_t first) { return quantize_int4(part, r, first); }, padded,
                  panel);
        break;
    }
  }
}

void pack_groups(const PackedLayout& layout, std::size_t first_row, const GroupedRows& rows,
                 std::byte* data) {
  assert(first_row % kPanel == 0 && rows.elements.columns() == layout.in_features);
  assert(layout.in_features % kGroup == 0);
  const auto group_of = [&](std::size_t row, std::size_t first) {
    Group group{};  // of zeros where the panel is filled up
    if (row < rows.elements.rows() && first < layout.in_features) {
      std::memcpy(group.elements.data(), rows.elements.row(row) + first, kGroup);
      group.scale = rows.scales(row, first / kGroup);
    }
    return group;
  };
  for (std::size_t row = 0; row < rows.elements.rows(); row += kPanel) {
    const auto in_panel = [&](std::size_t r, std::size_t first) { return group_of(row + r, first); };
    std::byte* panel = data + (first_row + row) / kPanel * layout.panel_bytes();
    if (layout.type == WeightType::int8)
      pack_int8(in_panel, layout.padded_in_features(), panel);
    else
      pack_int4(in_panel, layout.padded_in_features(), panel);
  }
}

void unpack_row(const PackedView& weight, std::size_t row, float* out) {
  const PackedLayout& layout = weight.layout;
  if (layout.type == WeightType::f32) {
    std::memcpy(out, weight.f32().row(row), layout.in_features * sizeof(float));
    return;
  }
  const std::byte* panel = weight.panel(row / kPanel);
  const std::size_t r = row % kPanel;
  const auto* halves = reinterpret_cast<const std::uint16_t*>(panel);
  for (std::size_t k = 0; k < layout.in_features; ++k) {
    switch (layout.type) {
      case WeightType::bf16:
        out[k] = bf16_to_float(halves[k / 2 * 2 * kPanel + r * 2 + k % 2]);
        break;
      case WeightType::f16:
        out[k] = f16_to_float(halves[k * kPanel + r]);
        break;
      default:
        out[k] = block_element(layout.type, panel + k / kBlock * block_bytes(layout.type), r, k % kBlock);
        break;
    }
  }
}

}  // namespace kernels
}  // namespace tp
