#include "model/weights/quantized/stored_groups.h"

#include "model/kernels/half.h"
#include "model/weights/gguf/gguf_codebooks.h"
#include "model/weights/gguf/gguf_factor.h"
#include "model/weights/source/widen.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tp {
namespace {

using kernels::ScaleType;

template <class T>
T element_at(const std::byte* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof value, sizeof value);
  return value;
}

// The words that contain a range of numbers.
Range words_of(Range numbers, std::size_t per_word) {
  return numbers.empty() ? Range{} : Range{numbers.begin / per_word, (numbers.end - 1) / per_word + 1};
}

float nested_scale(const NestedScales& nested, const std::byte* bytes, std::size_t index) {
  const float of_map = element_at<float>(nested.map, element_at<std::uint8_t>(bytes, index));
  const float product = of_map * element_at<float>(nested.maxima, index / nested.block);
  return product + nested.offset;
}

}  // namespace

MatrixShape StoredGroups::stored_shape() const {
  switch (layout) {
    case Layout::awq:
      return {shape.columns, shape.rows / per_word()};
    case Layout::gptq:
      return {shape.columns / per_word(), shape.rows};
    case Layout::packed:
      return {shape.rows, (shape.columns + per_word() - 1) / per_word()};
    case Layout::mxfp4:
    case Layout::nvfp4:
    case Layout::nf4:
      return {shape.rows, shape.columns / 2};
    default:
      return shape;
  }
}

TensorSlice StoredGroups::stored_slice(const TensorSlice& slice) const {
  switch (layout) {
    case Layout::awq:
      return {slice.columns, words_of(slice.rows, per_word())};
    case Layout::gptq:
      return {words_of(slice.columns, per_word()), slice.rows};
    case Layout::packed:
      return {slice.rows, words_of(slice.columns, per_word())};
    case Layout::mxfp4:
    case Layout::nvfp4:
    case Layout::nf4:
      return {slice.rows, words_of(slice.columns, 2)};
    default:
      return slice;
  }
}

std::size_t StoredGroups::awq_place(std::size_t row) const {
  constexpr std::size_t kOfEight[] = {0, 4, 1, 5, 2, 6, 3, 7};
  constexpr std::size_t kOfFour[] = {0, 2, 1, 3};
  return bits == 4 ? kOfEight[row % 8] : kOfFour[row % 4];
}

unsigned StoredGroups::bits_of(std::uint32_t word, std::size_t index) const {
  return word >> (bits * index) & ((1U << bits) - 1);
}

void StoredGroups::read_elements(const RowsInMemory& from, const TensorSlice& slice, std::uint8_t* out,
                                 std::size_t stride) const {
  const auto [rows, columns] = slice;
  if (layout == Layout::bytes) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::uint8_t* const row = out + i * stride;
      if (!columns.empty()) std::memcpy(row, from.data + i * from.stride, columns.size());
      if (is_e4m3) continue;
      for (std::size_t k = 0; k < columns.size(); ++k) row[k] ^= 128U;  // adds 128
    }
    return;
  }
  if (has_two_in_a_byte()) {
    const std::size_t in_high_half = layout == Layout::nf4 ? 0 : 1;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t column = columns.begin; column < columns.end; ++column) {
        const auto byte =
            std::to_integer<unsigned>(from.data[i * from.stride + column / 2 - columns.begin / 2]);
        out[i * stride + column - columns.begin] =
            static_cast<std::uint8_t>(column % 2 == in_high_half ? byte >> 4 : byte & 15U);
      }
    }
    return;
  }
  const TensorSlice stored = stored_slice(slice);
  const auto word = [&](std::size_t row, std::size_t column) {
    return element_at<std::uint32_t>(from.data + (row - stored.rows.begin) * from.stride,
                                     column - stored.columns.begin);
  };
  if (layout == Layout::awq) {
    for (std::size_t column = columns.begin; column < columns.end; ++column) {
      for (std::size_t row = rows.begin; row < rows.end; ++row)
        out[(row - rows.begin) * stride + column - columns.begin] =
            static_cast<std::uint8_t>(bits_of(word(column, row / per_word()), awq_place(row)));
    }
    return;
  }
  for (std::size_t first = columns.begin / per_word(); first * per_word() < columns.end; ++first) {
    const std::size_t begin = std::max(columns.begin, first * per_word());
    const std::size_t end = std::min(columns.end, (first + 1) * per_word());
    for (std::size_t row = rows.begin; row < rows.end; ++row) {
      const std::uint32_t numbers = layout == Layout::gptq ? word(first, row) : word(row, first);
      std::uint8_t* const to = out + (row - rows.begin) * stride;
      for (std::size_t column = begin; column < end; ++column)
        to[column - columns.begin] = static_cast<std::uint8_t>(bits_of(numbers, column % per_word()));
    }
  }
}

int StoredGroups::zero_point(std::size_t row, std::size_t group) const {
  const std::size_t of_row = row / groups.row_block * groups.groups + group;
  if (zero_points_kind == ZeroPoints::none) return zero();
  if (zero_points_kind == ZeroPoints::bytes) return element_at<std::int8_t>(zero_points, of_row) + zero();
  const std::size_t index = layout == Layout::packed ? row / per_word() * groups.groups + group
                                                     : group * (shape.rows / per_word()) + row / per_word();
  const std::size_t place = layout == Layout::awq ? awq_place(row) : row % per_word();
  const unsigned stored = bits_of(element_at<std::uint32_t>(zero_points, index), place);
  return static_cast<int>((stored + (zero_points_less_one ? 1U : 0U)) & ((1U << bits) - 1));
}

std::uint32_t StoredGroups::scale_bits(std::size_t row, std::size_t group) const {
  const bool by_groups = layout == Layout::awq || layout == Layout::gptq;
  const std::size_t index =
      by_groups ? group * shape.rows + row : row / groups.row_block * groups.groups + group;
  if (scales_are_exponents) return bf16_of_e8m0(element_at<std::uint8_t>(scales, index));
  if (nested.map != nullptr) return std::bit_cast<std::uint32_t>(nested_scale(nested, scales, index));
  if (groups.type == ScaleType::f32) return element_at<std::uint32_t>(scales, index);
  return element_at<std::uint16_t>(scales, index);
}

std::uint8_t StoredGroups::scale_byte(std::size_t row, std::size_t group) const {
  return element_at<std::uint8_t>(scales, row * groups.groups + group);
}

float StoredGroups::scale(std::size_t row, std::size_t group) const {
  // The table of E2M1 is doubled.
  if (layout == Layout::mxfp4) return std::ldexp(0.5F, scale_byte(row, group) - 127);
  if (layout == Layout::nvfp4) {
    float half = 0.0F;
    widen_f8_e4m3(scales + row * groups.groups + group, 1, 0.5F, &half);
    return half;
  }
  const std::uint32_t stored = scale_bits(row, group);
  switch (groups.type) {
    case ScaleType::f16:
      return kernels::f16_to_float(static_cast<std::uint16_t>(stored));
    case ScaleType::bf16:
      return kernels::bf16_to_float(static_cast<std::uint16_t>(stored));
    default:
      return std::bit_cast<float>(stored);
  }
}

void StoredGroups::read(const RowsInMemory& from, const TensorSlice& slice, TensorView<float> out) const {
  const std::size_t columns = slice.columns.size();
  std::vector<std::uint8_t> elements(slice.size());
  read_elements(from, slice, elements.data(), columns);
  for (std::size_t i = 0; i < slice.rows.size(); ++i) {
    const std::size_t row = slice.rows.begin + i;
    const std::uint8_t* const numbers = elements.data() + i * columns;
    for (std::size_t k = 0; k < columns;) {
      const std::size_t group = groups.group_of(slice.columns.begin + k);
      const float of_group = scale(row, group);
      std::size_t end = k + 1;
      while (end < columns && groups.group_of(slice.columns.begin + end) == group) ++end;
      if (has_fp4()) {  // the first product is exact
        for (std::size_t j = k; j < end; ++j)
          out(i, j) = static_cast<float>(kMxfp4Levels[numbers[j]]) * of_group * factor;
      } else if (layout == Layout::nf4) {
        for (std::size_t j = k; j < end; ++j) out(i, j) = kernels::kNf4Values[numbers[j]] * of_group;
      } else if (is_e4m3) {
        widen_f8_e4m3(reinterpret_cast<const std::byte*>(numbers) + k, end - k, of_group, out.row(i) + k);
      } else {
        const int less = zero_point(row, group);
        for (std::size_t j = k; j < end; ++j) out(i, j) = static_cast<float>(numbers[j] - less) * of_group;
      }
      k = end;
    }
  }
}

void StoredGroups::read(const RowsInMemory& from, const TensorSlice& slice,
                        const kernels::QuantizedRows& out) const {
  constexpr std::size_t kSuper = kernels::QuantizedRows::kColumns;
  constexpr std::size_t kGroup = kernels::PackedLayout::kGroup;
  const std::size_t first = slice.columns.begin / kSuper * kSuper;
  const std::size_t stride = out.super_blocks * kSuper;
  const std::size_t rows = slice.rows.size();
  std::fill_n(out.elements, rows * stride, std::uint8_t{0});
  read_elements(from, slice, out.elements + (slice.columns.begin - first), stride);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t row = slice.rows.begin + i;
    if (layout == Layout::nvfp4) {
      read_nvfp4_scales(row, first, i, out);
      continue;
    }
    for (std::size_t begin = 0; begin < stride; begin += kGroup) {
      const std::size_t place = (i * stride + begin) / kGroup;
      const bool is_behind = first + begin >= shape.columns;
      const std::size_t group = is_behind ? 0 : groups.group_of(first + begin);
      if (layout == Layout::mxfp4) {
        out.scales[place] = is_behind ? std::uint8_t{0} : scale_byte(row, group);
        continue;
      }
      out.halves[place] = is_behind ? std::uint16_t{0} : static_cast<std::uint16_t>(scale_bits(row, group));
      out.offsets[place] = is_behind ? std::uint8_t{0} : static_cast<std::uint8_t>(zero_point(row, group));
    }
  }
}

// `index`: of the row in `out`, whose columns begin with `first`. A negative scale changes the signs of its
// elements, because scales in memory have no sign. A scale that is NaN makes the row's factor NaN.
void StoredGroups::read_nvfp4_scales(std::size_t row, std::size_t first, std::size_t index,
                                     const kernels::QuantizedRows& out) const {
  constexpr std::size_t kGroup = 16;
  constexpr std::uint8_t kSign = 0x80;
  constexpr std::uint8_t kSignOfElement = 8;
  const std::size_t columns = out.super_blocks * kernels::QuantizedRows::kColumns;
  std::uint8_t* const elements = out.elements + index * columns;
  std::uint8_t* const to = out.scales + index * columns / kGroup;
  bool has_nan = false;
  for (std::size_t begin = 0; begin < columns; begin += kGroup) {
    const bool is_behind = first + begin >= shape.columns;
    const std::uint8_t scale = is_behind ? std::uint8_t{0} : scale_byte(row, (first + begin) / kGroup);
    to[begin / kGroup] = scale & ~kSign;
    has_nan = has_nan || (scale & ~kSign) == 0x7f;
    if ((scale & kSign) == 0) continue;
    for (std::size_t k = begin; k < begin + kGroup; ++k) elements[k] ^= kSignOfElement;
  }
  set_factor(has_nan ? std::numeric_limits<float>::quiet_NaN() : factor,
             out.rows_from(kernels::kNvfp4, index, 1));
}

void StoredGroups::read(const RowsInMemory& from, const TensorSlice& slice,
                        const kernels::ScaledRows& out) const {
  read_elements(from, slice, out.elements, out.columns);
  const Range touched = groups.groups_of(slice.columns);
  for (std::size_t i = 0; i < slice.rows.size(); ++i) {
    for (std::size_t j = 0; j < touched.size(); ++j) {
      const std::size_t row = slice.rows.begin + i;
      out.scales[i * out.groups + j] = scale_bits(row, touched.begin + j);
      if (groups.has_zero_points)
        out.zero_points[i * out.groups + j] = static_cast<std::uint8_t>(zero_point(row, touched.begin + j));
    }
  }
}

}  // namespace tp
