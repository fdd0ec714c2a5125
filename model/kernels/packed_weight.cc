#include "model/kernels/packed_weight.h"

#include "model/kernels/code_string.h"
#include "model/kernels/half.h"
#include "model/kernels/scaled_weight.h"
#include "model/kernels/simd/pack/pack.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace tp::kernels {
namespace {

constexpr std::size_t kPanel = PackedLayout::kPanel;
constexpr std::size_t kGroup = PackedLayout::kGroup;
constexpr std::size_t kBlock = PackedLayout::kBlock;

std::size_t block_bytes(WeightType type) {
  const std::size_t elements = kPanel * kBlock;
  return (type == WeightType::int8 ? elements : elements / 2) + PackedLayout::kScaleBytes;
}

// An element of a block of int8 or int4, multiplied by its scale.
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

auto packer_of(WeightType type) {
  const PackKernels& kernels = pack_kernels();
  switch (type) {
    case WeightType::f32:
      return kernels.f32;
    case WeightType::f16:
      return kernels.f16;
    case WeightType::bf16:
      return kernels.bf16;
    case WeightType::int8:
      return kernels.int8;
    case WeightType::int4:
      return kernels.int4;
    default:
      break;
  }
  std::abort();  // no data is converted to the other types
}

}  // namespace

bool PackedLayout::fills_leaves() const {
  static_assert(kTileDepth == kGroup);
  assert(quant_format(type) == nullptr || leaf % kGroup == 0);
  return type != WeightType::f32 && type != WeightType::f16 && !is_scaled(type) && leaf % kGroup != 0;
}

std::size_t PackedLayout::padded_leaf() const { return fills_leaves() ? round_up(leaf, kGroup) : leaf; }

std::size_t PackedLayout::padded_in_features() const {
  if (fills_leaves()) {
    const std::size_t filled = (in_features + leaf - 1) / leaf * padded_leaf();
    return type == WeightType::bf16 ? filled : round_up(filled, kBlock);
  }
  switch (type) {
    case WeightType::f32:
    case WeightType::f16:
      return in_features;
    case WeightType::bf16:
      return round_up(in_features, kTileDepth);
    default:
      if (is_scaled(type)) return in_features;
      return in_features == 0 ? 0 : round_up(front() + in_features, kBlock);
  }
}

std::size_t PackedLayout::bytes_of(std::size_t columns) const {
  switch (type) {
    case WeightType::f32:
      return kPanel * columns * sizeof(float);
    case WeightType::f16:
    case WeightType::bf16:
      return kPanel * columns * sizeof(std::uint16_t);
    default:
      if (is_scaled(type)) return scaled.panel_bytes(columns);
      if (const QuantFormat* const format = quant_format(type))
        return format->panel_bytes(first_block(), columns / kBlock);
      return columns / kBlock * block_bytes(type);
  }
}

namespace {

std::uint16_t half_at(const unsigned char* from) {
  std::uint16_t half = 0;
  std::memcpy(&half, from, sizeof half);
  return half;
}

// A row of a block of a type with a QuantFormat.
struct QuantizedRow {
  const QuantFormat& format;
  const unsigned char* block;
  const unsigned char* super;
  std::size_t row;

  int bits(const unsigned char* plane, int count, std::size_t column) const {
    const std::size_t vectors = 2 * static_cast<std::size_t>(count);
    const std::size_t quad = column / 4;
    const unsigned char byte = plane[(quad % vectors * kPanel + row) * 4 + column % 4];
    return byte >> (static_cast<int>(quad / vectors) * count) & ((1 << count) - 1);
  }
  auto codes() const {
    return CodeString(format, [this, strings = format.strings()](std::size_t index) {
      return strings.byte(block, row, index);
    });
  }
  float element(std::size_t column) const {
    if (format.has_codes()) {
      const std::uint32_t byte = codes().elements(column / 4) >> (column % 4 * 8) & 255;
      return static_cast<float>(byte) - static_cast<float>(format.zero);
    }
    int value = bits(block, format.low_bits, column);
    if (format.high_bits > 0)
      value |= bits(block + format.low_bytes(), format.high_bits, column) << format.low_bits;
    if (format.codebook != Codebook::none) value = values_of(format.codebook)[value];
    return static_cast<float>(value - format.zero);
  }

  const unsigned char* scales() const { return block + format.plane_bytes(); }
  float half(const unsigned char* halves, std::size_t index) const {
    return f16_to_float(half_at(halves + (index * kPanel + row) * sizeof(std::uint16_t)));
  }
  int byte(std::size_t index) const { return scales()[index * kPanel + row]; }
  int six_bits(std::size_t index) const {
    if (index < 3) return byte(index) & 63;
    return byte(0) >> 6 | byte(1) >> 6 << 2 | byte(2) >> 6 << 4;
  }

  // NVFP4: a factor of all values.
  float factor() const {
    if (format.scales != ScaleKind::e4m3) return 1.0F;
    float factor = 0.0F;
    std::memcpy(&factor, super + row * sizeof factor, sizeof factor);
    return factor;
  }

  // Types with zero points: a group's scales and zero points for 16 rows.
  const unsigned char* zero_points_of(std::size_t group) const {
    return super + (format.scales_of_super() == 1 ? 0 : group) * format.kZeroPointBytes;
  }

  float scale(std::size_t group) const {
    switch (format.scales) {
      case ScaleKind::zero_point_f16:
        return half(zero_points_of(group), 0);
      case ScaleKind::zero_point_bf16:
        return bf16_to_float(half_at(zero_points_of(group) + row * sizeof(std::uint16_t)));
      case ScaleKind::f16:
        return half(scales(), group * (format.has_offsets ? 2 : 1));
      case ScaleKind::bf16:
        return bf16_to_float(half_at(scales() + (group * kPanel + row) * sizeof(std::uint16_t)));
      case ScaleKind::e4m3:
        return std::bit_cast<float>(static_cast<std::uint32_t>(byte(group)) << 20) * kHalfOfE4m3;
      case ScaleKind::super:
        return half(super, 0);
      case ScaleKind::in_codes:
        return half(super, 0) * codes().factor(group);
      case ScaleKind::e8m0:
        return std::bit_cast<float>(half_of_e8m0(static_cast<std::uint32_t>(byte(group))));
      case ScaleKind::bytes:
        return half(super, 0) * static_cast<float>(static_cast<std::int8_t>(byte(group)));
      case ScaleKind::six_bits:
        return half(super, 0) * static_cast<float>(six_bits(group) - format.scale_zero);
      case ScaleKind::half_bytes:
        return half(super, 0) * static_cast<float>(byte(group) & 15);
    }
    return 0.0F;
  }
  float offset(std::size_t group) const {
    if (format.scales == ScaleKind::f16) return half(scales(), 2 * group + 1);
    if (format.has_zero_points())
      return scale(group) * static_cast<float>(zero_points_of(group)[2 * kPanel + row]);
    const int number =
        format.scales == ScaleKind::six_bits ? six_bits(format.groups() + group) : byte(group) >> 4;
    return half(super, 1) * static_cast<float>(number);
  }
};

void unpack_quantized(const PackedView& weight, std::size_t row, float* out) {
  const PackedLayout& layout = weight.layout;
  const QuantFormat& format = *quant_format(layout.type);
  const auto* panel = reinterpret_cast<const unsigned char*>(weight.panel(row / kPanel));
  const std::size_t first = layout.first_block();
  const std::size_t front = layout.front();
  const std::size_t end = front + layout.in_features;
  for (std::size_t begin = 0; begin < end; begin += format.group) {
    const std::size_t block = begin / kBlock;
    const QuantizedRow from{format, panel + format.place(first, block),
                            panel + format.super_place(first, block), row % kPanel};
    const std::size_t group = begin % kBlock / format.group;
    const float scale = from.scale(group);
    const float offset = format.has_offsets ? from.offset(group) : 0.0F;
    const float factor = from.factor();
    for (std::size_t k = std::max(begin, front); k < std::min(begin + format.group, end); ++k) {
      const float value = scale * from.element(k % kBlock) * factor;
      out[k - front] = !format.has_offsets ? value : format.subtracts ? value - offset : value + offset;
    }
  }
}

// Up to 16 rows with each leaf padded with zeros, in `memory`.
StoredRows filled_rows(const PackedLayout& layout, const StoredRows& rows, std::vector<std::byte>& memory) {
  const std::size_t size = size_of(rows.type);
  const std::size_t columns = layout.padded_in_features();
  memory.assign(rows.rows * columns * size, std::byte{0});
  for (std::size_t row = 0; row < rows.rows; ++row) {
    for (std::size_t begin = 0, to = 0; begin < rows.columns;
         begin += layout.leaf, to += layout.padded_leaf()) {
      std::memcpy(memory.data() + (row * columns + to) * size, rows.data + row * rows.stride + begin * size,
                  std::min(layout.leaf, rows.columns - begin) * size);
    }
  }
  return {rows.type, memory.data(), rows.rows, columns, columns * size};
}

}  // namespace

void pack_rows(const PackedLayout& layout, std::size_t first_row, const StoredRows& rows, std::byte* data) {
  assert(first_row % kPanel == 0 && rows.columns == layout.in_features);
  assert(first_row + rows.rows <= layout.out_features);
  const auto pack = packer_of(layout.type);
  std::vector<std::byte> filled;
  for (std::size_t row = 0; row < rows.rows; row += kPanel) {
    StoredRows part = rows.rows_from(row, std::min(kPanel, rows.rows - row));
    if (layout.fills_leaves()) part = filled_rows(layout, part, filled);
    pack({part.type, reinterpret_cast<const unsigned char*>(part.data), part.rows, part.columns, part.stride},
         reinterpret_cast<unsigned char*>(data + (first_row + row) / kPanel * layout.panel_bytes()));
  }
}

void pack_groups(const PackedLayout& layout, std::size_t first_row, const GroupedRows& rows,
                 std::byte* data) {
  assert(first_row % kPanel == 0 && rows.elements.columns() == layout.in_features);
  assert(layout.in_features % kGroup == 0 && !layout.fills_leaves());
  const auto pack = layout.type == WeightType::int8 ? pack_kernels().int8_groups : pack_kernels().int4_groups;
  for (std::size_t row = 0; row < rows.elements.rows(); row += kPanel) {
    const GroupedRows part = rows.rows_from(row, std::min(kPanel, rows.elements.rows() - row));
    pack({part.elements.data(), part.elements.stride(), part.scales.data(), part.scales.stride(),
          part.elements.rows(), part.elements.columns()},
         reinterpret_cast<unsigned char*>(data + (first_row + row) / kPanel * layout.panel_bytes()));
  }
}

void pack_quantized(const PackedLayout& layout, std::size_t first_row, const QuantizedRows& rows,
                    std::byte* data) {
  assert(first_row % kPanel == 0 && first_row + rows.rows <= layout.out_features);
  const QuantFormat& format = *quant_format(layout.type);
  for (std::size_t row = 0; row < rows.rows; row += kPanel) {
    const QuantizedRows part = rows.rows_from(format, row, std::min(kPanel, rows.rows - row));
    pack_kernels().quantized(
        {format, part.elements, part.scales, part.offsets, part.halves, part.rows, part.super_blocks,
         layout.first_block(), layout.padded_in_features() / kBlock},
        reinterpret_cast<unsigned char*>(data) + (first_row + row) / kPanel * layout.panel_bytes());
  }
}

void unpack_row(const PackedView& weight, std::size_t row, float* out) {
  const PackedLayout& layout = weight.layout;
  assert(!layout.fills_leaves());
  if (quant_format(layout.type) != nullptr) return unpack_quantized(weight, row, out);
  if (is_scaled(layout.type)) return unpack_scaled_row(weight, row, out);
  const std::byte* panel = weight.panel(row / kPanel);
  const std::size_t r = row % kPanel;
  const auto* floats = reinterpret_cast<const float*>(panel);
  const auto* halves = reinterpret_cast<const std::uint16_t*>(panel);
  for (std::size_t k = 0; k < layout.in_features; ++k) {
    switch (layout.type) {
      case WeightType::f32:
        out[k] = floats[k * kPanel + r];
        break;
      case WeightType::f16:
        out[k] = f16_to_float(halves[k * kPanel + r]);
        break;
      case WeightType::bf16:
        out[k] = bf16_to_float(halves[k / 2 * 2 * kPanel + r * 2 + k % 2]);
        break;
      default:
        out[k] = block_element(layout.type, panel + k / kBlock * block_bytes(layout.type), r, k % kBlock);
        break;
    }
  }
}

}  // namespace tp::kernels
