#include "model/weights/synthetic/synthetic_blocks.h"

#include "model/kernels/code_string.h"
#include "model/kernels/half.h"
#include "parallel/machine/hash.h"

#include <algorithm>
#include <cmath>

namespace tp {
namespace {

using kernels::QuantFormat;
using kernels::QuantizedRows;
using kernels::ScaleKind;

constexpr std::size_t kSuper = QuantizedRows::kColumns;
constexpr std::uint8_t kOneOfE4m3 = 56;  // the bits of 1 in FP8

// Mean and deviation of an element's value before scaling, over all of its bit patterns.
struct Spread {
  double mean = 0.0;
  double deviation = 0.0;
};

// Elements below this are values.
unsigned levels_of(const QuantFormat& format) {
  return format.codebook == kernels::Codebook::ternary ? 3 : 1U << format.element_bits();
}

// The spread of values before the factor of the super-block, over random strings.
Spread spread_of_codes(const QuantFormat& format) {
  constexpr std::size_t kStrings = 256;
  constexpr std::size_t kQuads = 16;
  double squares = 0.0;
  for (std::size_t i = 0; i < kStrings; ++i) {
    const kernels::CodeString string(
        format, [i](std::size_t index) { return static_cast<std::uint32_t>(mixed(i * 64 + index) & 255); });
    for (std::size_t quad = 0; quad < kQuads; ++quad) {
      const std::uint32_t elements = string.elements(quad);
      const double factor = string.factor(4 * quad / format.group);
      for (std::size_t j = 0; j < 4; ++j) {
        const double value = factor * (static_cast<int>(elements >> (8 * j) & 255) - format.zero);
        squares += value * value;
      }
    }
  }
  return {0.0, std::sqrt(squares / (kStrings * kQuads * 4))};
}

Spread spread_of(const QuantFormat& format) {
  if (format.has_codes()) return spread_of_codes(format);
  const std::size_t levels = levels_of(format);
  const std::uint8_t* const values = kernels::values_of(format.codebook);
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < levels; ++i) {
    const double value = (values == nullptr ? static_cast<double>(i) : values[i]) - format.zero;
    sum += value;
    squares += value * value;
  }
  const double mean = sum / static_cast<double>(levels);
  return {mean, std::sqrt(squares / static_cast<double>(levels) - mean * mean)};
}

// A group's scale is `unit` times a random whole number, one of `count` numbers from `min` on.
struct GroupScales {
  std::uint8_t min;
  std::uint8_t count;  // a power of two
  double mean() const { return min + (count - 1) / 2.0; }
};

GroupScales group_scales(const QuantFormat& format) {
  switch (format.scales) {
    case ScaleKind::six_bits:  // Q3_K's scales are stored plus 32
      return {static_cast<std::uint8_t>(format.scale_zero == 0 ? 24 : 40), 16};
    case ScaleKind::bytes:
      return {format.codebook == kernels::Codebook::none ? std::uint8_t{48} : std::uint8_t{8}, 16};
    case ScaleKind::half_bytes:
      return {8, 8};
    case ScaleKind::e4m3:
      return {kOneOfE4m3, 1};
    default:
      return {1, 1};
  }
}

std::uint16_t half_of(ScaleKind kind, double value) {
  const auto number = static_cast<float>(value);
  const bool is_bf16 =
      kind == ScaleKind::e4m3 || kind == ScaleKind::bf16 || kind == ScaleKind::zero_point_bf16;
  return is_bf16 ? kernels::float_to_bf16(number) : kernels::float_to_f16(number);
}

// Makes super-blocks of one type with one deviation.
class BlockMaker {
 public:
  BlockMaker(const QuantFormat& format, double deviation) : format_(format), scales_(group_scales(format)) {
    const Spread spread = spread_of(format);
    const double unit = deviation / spread.deviation / (scales_.mean() - format.scale_zero);
    exponent_ = static_cast<std::uint8_t>(128 + std::lround(std::log2(unit)));  // E8M0 of 2 * unit
    // NVFP4's scale is half of 1, and the factor's low half is 0.
    const bool is_e4m3 = format.scales == ScaleKind::e4m3;
    scale_ = half_of(format.scales, is_e4m3 ? 2 * kOneOfE4m3 * unit : unit);
    // Types that subtract offsets store them like scales, as multiples of a unit.
    offset_ = half_of(format.scales, format.subtracts ? unit * spread.mean : -unit * spread.mean);
  }

  // Makes super-block `index` of `rows` from a key.
  void make(std::uint64_t key, const QuantizedRows& rows, std::size_t index) const {
    make_elements(key, rows.elements + index * kSuper);
    const std::size_t groups = QuantizedRows::groups(format_);
    make_scales(key, rows.scales + index * groups, rows.offsets + index * groups, groups);
    const std::size_t halves = QuantizedRows::halves_of(format_);
    for (std::size_t i = 0; i < halves; ++i) rows.halves[index * halves + i] = half(i);
  }

 private:
  std::uint16_t half(std::size_t index) const {
    if (format_.scales == ScaleKind::e4m3) return index % 2 == 0 ? 0 : scale_;
    const bool is_offset = format_.has_offsets && !format_.has_zero_points() && index % 2 == 1;
    return is_offset ? offset_ : scale_;
  }

  // A hash contains the bytes of eight elements.
  void make_elements(std::uint64_t key, std::uint8_t* elements) const {
    const unsigned levels = levels_of(format_);
    for (std::size_t i = 0; i < kSuper; i += 8) {
      const std::uint64_t bits = mixed(key + i);
      for (std::size_t j = 0; j < 8; ++j)
        elements[i + j] = static_cast<std::uint8_t>((bits >> (8 * j) & 255) % levels);
    }
  }

  void make_scales(std::uint64_t key, std::uint8_t* scales, std::uint8_t* offsets, std::size_t groups) const {
    const std::uint64_t bits = mixed(~key);
    for (std::size_t i = 0; i < groups; ++i) {
      const auto random = static_cast<std::uint8_t>(bits >> (4 * i) & (scales_.count - 1U));
      const auto scale = static_cast<std::uint8_t>(scales_.min + random);
      scales[i] = format_.scales == ScaleKind::e8m0         ? exponent_
                  : format_.scales == ScaleKind::half_bytes ? static_cast<std::uint8_t>(scale | scale << 4)
                                                            : scale;
      offsets[i] = format_.has_zero_points() ? kZeroPoint : scale;
    }
  }

  // The exact middle would be between two levels, so that means are off by half a step.
  static constexpr std::uint8_t kZeroPoint = 8;

  const QuantFormat& format_;
  GroupScales scales_;
  std::uint8_t exponent_ = 0;
  std::uint16_t scale_ = 0;
  std::uint16_t offset_ = 0;
};

}  // namespace

std::optional<WeightType> SyntheticBlocks::group_type(const std::string& /*name*/, Range columns) const {
  const bool is_aligned = columns.begin % format_.group == 0 && columns.end % format_.group == 0;
  return is_aligned ? std::optional(type()) : std::nullopt;
}

void SyntheticBlocks::read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                     const QuantizedRows& out) const {
  const BlockMaker maker(format_, 1.0 / std::sqrt(static_cast<double>(shape.columns)));
  const std::size_t first = slice.columns.begin / kSuper;
  for (std::size_t row = 0; row < slice.rows.size(); ++row) {
    const std::uint64_t row_key = key_of(name, slice.rows.begin + row);
    for (std::size_t i = 0; i < out.super_blocks; ++i)
      maker.make(row_key + (first + i) * kSuper, out, row * out.super_blocks + i);
  }
}

// Unpacks elements like the kernels. Slices that cut groups have the same elements.
void SyntheticBlocks::read_matrix(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                  TensorView<float> out) const {
  const std::size_t begin = slice.columns.begin / kSuper * kSuper;
  const std::size_t blocks = (slice.columns.end - begin + kSuper - 1) / kSuper;
  const std::size_t groups = QuantizedRows::groups(format_);
  std::vector<std::uint8_t> bytes(blocks * (kSuper + 2 * groups));
  std::vector<std::uint16_t> halves(blocks * QuantizedRows::halves_of(format_));
  std::uint8_t* const scales = bytes.data() + blocks * kSuper;
  const QuantizedRows row{1, blocks, bytes.data(), scales, scales + blocks * groups, halves.data()};
  const kernels::PackedLayout layout{type(), 1, blocks * kSuper};
  std::vector<std::byte> memory(layout.bytes());
  std::vector<float> elements(layout.in_features);
  for (std::size_t i = 0; i < slice.rows.size(); ++i) {
    const std::size_t index = slice.rows.begin + i;
    read_quantized(name, shape, {{index, index + 1}, {begin, slice.columns.end}}, row);
    kernels::pack_quantized(layout, 0, row, memory.data());
    kernels::unpack_row({layout, memory.data()}, 0, elements.data());
    std::copy_n(elements.data() + (slice.columns.begin - begin), slice.columns.size(), out.row(i));
  }
}

}  // namespace tp
