#include "model/weights/checkpoint/stored_groups.h"

#include "model/kernels/half.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tp {
namespace {

using Method = GroupQuantization::Method;

template <class T>
T element_at(const std::byte* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof value, sizeof value);
  return value;
}

unsigned four_bits(std::uint32_t word, std::size_t index) { return word >> (4 * index) & 15U; }

// Where AWQ's words have each of eight outputs.
constexpr std::size_t kAwqPlaces[8] = {0, 4, 1, 5, 2, 6, 3, 7};

// The eight numbers of a word as bytes, the lowest first.
void spread(std::uint32_t word, std::uint8_t* to) {
  std::uint64_t bytes = word;
  bytes = (bytes | bytes << 16) & 0x0000ffff0000ffffU;
  bytes = (bytes | bytes << 8) & 0x00ff00ff00ff00ffU;
  bytes = (bytes | bytes << 4) & 0x0f0f0f0f0f0f0f0fU;
  std::memcpy(to, &bytes, sizeof bytes);
}

}  // namespace

unsigned StoredGroups::number(std::size_t row, std::size_t column) const {
  const auto word = [&](std::size_t index) { return element_at<std::uint32_t>(words, index); };
  switch (quantization.method) {
    case Method::awq:
      return four_bits(word(column * (shape.rows / 8) + row / 8), kAwqPlaces[row % 8]);
    case Method::gptq:
      return four_bits(word(column / 8 * shape.rows + row), column % 8);
    default:
      return four_bits(word(row * ((shape.columns + 7) / 8) + column / 8), column % 8);
  }
}

unsigned StoredGroups::zero_point(std::size_t row, std::size_t group_index) const {
  if (zero_points_kind == ZeroPoints::none) return 8;
  if (zero_points_kind == ZeroPoints::bytes)
    return static_cast<unsigned>(element_at<std::int8_t>(zero_points, row * groups() + group_index) + 8);
  const bool by_outputs = quantization.method == Method::pack_quantized;
  const std::size_t index =
      by_outputs ? row / 8 * groups() + group_index : group_index * (shape.rows / 8) + row / 8;
  const std::size_t place = quantization.method == Method::awq ? kAwqPlaces[row % 8] : row % 8;
  const unsigned stored = four_bits(element_at<std::uint32_t>(zero_points, index), place);
  return (stored + (quantization.zero_points_less_one ? 1U : 0U)) & 15U;
}

std::uint16_t StoredGroups::scale(std::size_t row, std::size_t group_index) const {
  const bool by_outputs = quantization.method == Method::pack_quantized;
  return element_at<std::uint16_t>(
      scales, by_outputs ? row * groups() + group_index : group_index * shape.rows + row);
}

void StoredGroups::read(const TensorSlice& slice, TensorView<float> out) const {
  for (std::size_t i = 0; i < slice.rows.size(); ++i) {
    const std::size_t row = slice.rows.begin + i;
    for (std::size_t column = slice.columns.begin; column < slice.columns.end;) {
      const std::size_t index = column / group;
      const int zero = static_cast<int>(zero_point(row, index));
      const std::uint16_t bits = scale(row, index);
      const float factor = has_bf16_scales ? kernels::bf16_to_float(bits) : kernels::f16_to_float(bits);
      const std::size_t end = std::min((index + 1) * group, slice.columns.end);
      for (; column < end; ++column) {
        out(i, column - slice.columns.begin) =
            static_cast<float>(static_cast<int>(number(row, column)) - zero) * factor;
      }
    }
  }
}

void StoredGroups::read(const TensorSlice& slice, const kernels::QuantizedRows& out) const {
  constexpr std::size_t kSuper = kernels::QuantizedRows::kColumns;
  constexpr std::size_t kGroup = kernels::PackedLayout::kGroup;
  const std::size_t first = slice.columns.begin / kSuper * kSuper;
  const std::size_t end = std::min(shape.columns, first + out.super_blocks * kSuper);
  const std::size_t stride = out.super_blocks * kSuper;
  const std::size_t rows = slice.rows.size();
  std::fill_n(out.elements, rows * stride, std::uint8_t{0});
  if (quantization.method == Method::awq) {
    for (std::size_t column = first; column < end; ++column) {
      for (std::size_t i = 0; i < rows; ++i)
        out.elements[i * stride + column - first] =
            static_cast<std::uint8_t>(number(slice.rows.begin + i, column));
    }
  } else {
    const bool by_outputs = quantization.method == Method::pack_quantized;
    const std::size_t row_step = by_outputs ? (shape.columns + 7) / 8 : 1;
    const std::size_t word_step = by_outputs ? 1 : shape.rows;
    for (std::size_t column = first; column < end; column += 8) {
      for (std::size_t i = 0; i < rows; ++i) {
        const std::size_t index = (slice.rows.begin + i) * row_step + column / 8 * word_step;
        spread(element_at<std::uint32_t>(words, index), out.elements + i * stride + column - first);
      }
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t begin = 0; begin < stride; begin += kGroup) {
      const std::size_t place = (i * stride + begin) / kGroup;
      const bool is_behind = first + begin >= shape.columns;
      const std::size_t index = (first + begin) / group;
      out.halves[place] = is_behind ? std::uint16_t{0} : scale(slice.rows.begin + i, index);
      out.offsets[place] =
          is_behind ? std::uint8_t{0} : static_cast<std::uint8_t>(zero_point(slice.rows.begin + i, index));
    }
  }
}

}  // namespace tp
