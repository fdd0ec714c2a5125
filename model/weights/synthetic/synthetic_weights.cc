#include "model/weights/synthetic/synthetic_weights.h"

#include "model/weights/source/slice_check.h"
#include "parallel/machine/hash.h"

#include <bit>
#include <cmath>
#include <string_view>

namespace tp {
namespace {

// A tensor's values are uniform in mean +- sqrt(3) * deviation.
struct Distribution {
  float mean = 0;
  float deviation = 0;
};

// "...layernorm.weight", "q_norm.weight", "ln_1.weight", "norm_1.weight"
bool is_norm(std::string_view name) {
  if (!name.ends_with(".weight")) return false;
  const std::string_view layer = name.substr(0, name.rfind('.'));
  const std::string_view word = layer.substr(layer.rfind('.') + 1);
  return word.ends_with("norm") || word.starts_with("norm_") || word.starts_with("ln_");
}

Distribution distribution_of(std::string_view name, MatrixShape shape) {
  if (is_norm(name)) return {1.0f, 0.05f};
  if (name.ends_with(".bias")) return {0.0f, 0.02f};
  return {0.0f, 1.0f / std::sqrt(static_cast<float>(shape.columns))};
}

// 32 bits that depend on a row's 64-bit key and the column. If the key only entered at the start, rows with
// close keys would be permutations of each other. Therefore its second half enters between the rounds.
inline std::uint32_t hash_of_column(std::uint64_t row_key, std::uint32_t column) {
  std::uint32_t x = column ^ static_cast<std::uint32_t>(row_key);
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x ^= static_cast<std::uint32_t>(row_key >> 32);
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Rounds to the nearest float with `dropped` fewer bits, ties to even. Not for NaNs.
template <int dropped>
inline float rounded_mantissa(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t half_minus_one = (1u << (dropped - 1)) - 1;
  const std::uint32_t rounded = bits + half_minus_one + ((bits >> dropped) & 1u);
  return std::bit_cast<float>(rounded & ~((1u << dropped) - 1));
}

inline float rounded_to_bf16(float value) { return rounded_mantissa<16>(value); }

// For values below f16's largest, like all values here. Below its smallest normal number, 2^-14, f16 has
// steps of 2^-24, like floats around 0.5.
inline float rounded_to_f16(float value) {
  constexpr std::uint32_t smallest_normal_f16 = (127u - 14u) << 23;
  // Chosen by masks: a compiler may not vectorise a float operation that it considers conditional.
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) & 0x80000000u;
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) ^ sign;
  const auto subnormal = std::bit_cast<std::uint32_t>((std::bit_cast<float>(magnitude) + 0.5f) - 0.5f);
  const auto normal = std::bit_cast<std::uint32_t>(rounded_mantissa<13>(std::bit_cast<float>(magnitude)));
  const std::uint32_t is_subnormal = magnitude < smallest_normal_f16 ? ~0u : 0u;
  return std::bit_cast<float>(sign | (subnormal & is_subnormal) | (normal & ~is_subnormal));
}

template <class Round>
void make_row(std::uint64_t row_key, Range columns, Distribution distribution, float* out, Round round) {
  const float mean = distribution.mean;
  const float scale = distribution.deviation * std::sqrt(3.0f) * 0x1p-31f;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::uint32_t bits = hash_of_column(row_key, static_cast<std::uint32_t>(columns.begin + i));
    out[i] = round(mean + scale * static_cast<float>(static_cast<std::int32_t>(bits)));
  }
}

void make_row(DType type, std::uint64_t row_key, Range columns, Distribution distribution, float* out) {
  switch (type) {
    case DType::f32:
      return make_row(row_key, columns, distribution, out, [](float value) { return value; });
    case DType::f16:
      return make_row(row_key, columns, distribution, out, rounded_to_f16);
    case DType::bf16:
      return make_row(row_key, columns, distribution, out, rounded_to_bf16);
  }
}

}  // namespace

bool SyntheticWeights::contains(const std::string&) const { return true; }

std::vector<std::int64_t> SyntheticWeights::whole_numbers(const std::string& /*name*/, MatrixShape /*shape*/,
                                                          const std::string& /*reason*/) const {
  return {};
}

std::vector<std::string> SyntheticWeights::names() const { return {}; }

DType SyntheticWeights::dtype(const std::string&) const { return dtype_; }

void SyntheticWeights::expect(const std::string&, MatrixShape, const std::string&) const {}

void SyntheticWeights::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                            TensorView<float> out) const {
  check_slice(name, shape, slice, out);
  const std::uint64_t tensor_key = mixed(hash_of(name) + mixed(seed_));
  const Distribution distribution = distribution_of(name, shape);
  for (std::size_t i = 0; i < slice.rows.size(); ++i) {
    const std::uint64_t row_key = mixed(tensor_key + slice.rows.begin + i);
    make_row(dtype_, row_key, slice.columns, distribution, out.row(i));
  }
  bytes_read_.fetch_add(slice.size() * size_of(dtype_), std::memory_order_relaxed);
}

std::size_t SyntheticWeights::stored_bytes() const { return 0; }

std::size_t SyntheticWeights::bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

std::uint64_t SyntheticWeights::fingerprint() const { return hash_of(name_of(dtype_), mixed(seed_)); }

void SyntheticWeights::done_with(const std::string&) const {}

}  // namespace tp
