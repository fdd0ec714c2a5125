#include "model/weights/synthetic/synthetic_scaled.h"

#include "model/kernels/half.h"
#include "model/weights/source/widen.h"
#include "parallel/machine/hash.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tp {
namespace {

constexpr std::size_t kScaleBlock = 128;  // columns (for FP8, also rows) that share a scale
constexpr std::size_t kNf4Block = 64;
constexpr std::uint8_t kMiddle[] = {0, 128, 8, 7};

// The zero point; for types without zero points, the number that stands for zero.
std::uint8_t middle_of(WeightType type) {
  return kMiddle[static_cast<std::size_t>(kernels::scaled_element(type))];
}

// The random bits of an element. FP8 gets neither NaN nor its largest values.
std::uint8_t mask_of(WeightType type) {
  return type == WeightType::f8_e4m3 ? 0xbf : type == WeightType::int8_scaled ? 0xff : 0x0f;
}

float value_of(WeightType type, std::uint8_t element, float scale) {
  if (type == WeightType::nf4) return kernels::kNf4Values[element] * scale;
  if (type != WeightType::f8_e4m3) return static_cast<float>(element - middle_of(type)) * scale;
  const auto byte = static_cast<std::byte>(element);
  float value = 0.0F;
  widen_f8_e4m3(&byte, 1, scale, &value);
  return value;
}

bool has_f32_scales(WeightType type) { return type == WeightType::f8_e4m3 || type == WeightType::nf4; }

// The deviation of elements whose scale is 1.
double deviation_of(WeightType type) {
  double squares = 0.0;
  double count = 0.0;
  for (int bits = 0; bits < 256; ++bits) {
    if ((bits & ~mask_of(type)) != 0) continue;
    const double value = value_of(type, static_cast<std::uint8_t>(bits), 1.0F);
    squares += value * value;
    ++count;
  }
  return std::sqrt(squares / count);
}

}  // namespace

void SyntheticScaled::expect(const std::string& name, MatrixShape shape, const std::string&) const {
  const std::scoped_lock lock(mutex_);
  columns_[name] = shape.columns;
}

const std::vector<std::uint16_t>& SyntheticScaled::column_groups(std::size_t columns) const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::uint16_t>& list = lists_[columns];
  if (!list.empty()) return list;
  for (std::size_t k = 0; k < columns; ++k) list.push_back(static_cast<std::uint16_t>(k / kScaleBlock));
  // Shuffles alike on every rank.
  for (std::size_t k = columns; k > 1; --k) std::swap(list[k - 1], list[mixed(k + seed()) % k]);
  return list;
}

StoredScales SyntheticScaled::scales_of(const std::string& name) const {
  if (type() == WeightType::f8_e4m3)
    return {.type = kernels::ScaleType::f32, .row_block = kScaleBlock, .column_block = kScaleBlock};
  if (type() == WeightType::nf4) return {.type = kernels::ScaleType::f32, .column_block = kNf4Block};
  constexpr std::size_t kWholeRow = std::numeric_limits<std::uint32_t>::max();
  if (type() == WeightType::int8_scaled) return {.type = kernels::ScaleType::f16, .column_block = kWholeRow};
  std::size_t columns = 0;
  {
    const std::scoped_lock lock(mutex_);
    columns = columns_.at(name);
  }
  return {.type = kernels::ScaleType::f16,
          .has_zero_points = true,
          .column_block = 0,
          .groups = (columns + kScaleBlock - 1) / kScaleBlock,
          .column_groups = column_groups(columns)};
}

// A hash contains the bytes of eight elements.
void SyntheticScaled::make_elements(std::uint64_t row_key, Range columns, std::uint8_t* out) const {
  const std::uint8_t mask = mask_of(type());
  std::uint64_t bits = 0;
  for (std::size_t k = columns.begin; k < columns.end; ++k) {
    if (k == columns.begin || k % 8 == 0) bits = mixed(row_key + k / 8);
    *out++ = static_cast<std::uint8_t>(bits >> (k % 8 * 8)) & mask;
  }
}

std::uint32_t SyntheticScaled::scale_bits(std::size_t columns) const {
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(columns)) / deviation_of(type()));
  return has_f32_scales(type()) ? std::bit_cast<std::uint32_t>(scale) : kernels::float_to_f16(scale);
}

void SyntheticScaled::read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                  const kernels::ScaledRows& out) const {
  const std::uint32_t scale = scale_bits(shape.columns);
  for (std::size_t row = 0; row < slice.rows.size(); ++row)
    make_elements(key_of(name, slice.rows.begin + row), slice.columns, out.elements + row * out.columns);
  std::fill_n(out.scales, slice.rows.size() * out.groups, scale);
  std::fill_n(out.zero_points, slice.rows.size() * out.groups, middle_of(type()));
}

void SyntheticScaled::read_matrix(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                  TensorView<float> out) const {
  const std::uint32_t bits = scale_bits(shape.columns);
  const float scale = has_f32_scales(type()) ? std::bit_cast<float>(bits)
                                             : kernels::f16_to_float(static_cast<std::uint16_t>(bits));
  std::vector<std::uint8_t> elements(slice.columns.size());
  for (std::size_t row = 0; row < slice.rows.size(); ++row) {
    make_elements(key_of(name, slice.rows.begin + row), slice.columns, elements.data());
    std::transform(elements.begin(), elements.end(), out.row(row),
                   [&](std::uint8_t element) { return value_of(type(), element, scale); });
  }
}

}  // namespace tp
