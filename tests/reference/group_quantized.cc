#include "tests/reference/group_quantized.h"

#include "model/kernels/half.h"

#include <algorithm>
#include <cmath>

namespace tp::reference {
namespace {

using test::bytes_of;
using test::TestTensor;

// AWQ's pack_intweight: the n-th number of a word belongs to output kAwqOrder[n] of eight, or
// kAwqOrderOf8Bits[n] of four.
constexpr std::size_t kAwqOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
constexpr std::size_t kAwqOrderOf8Bits[4] = {0, 2, 1, 3};

std::vector<std::size_t> in_order(std::size_t columns, std::size_t group) {
  std::vector<std::size_t> order;
  for (std::size_t column = 0; column < columns; ++column) order.push_back(column / group);
  return order;
}

}  // namespace

float value_of_f8(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 3 & 15U);
  const auto mantissa = static_cast<float>(bits & 7U);
  const float magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return bits >= 0x80 ? -magnitude : magnitude;
}

std::uint8_t nearest_f8(float value) {
  const float magnitude = std::min(std::fabs(value), 448.0F);
  const int exponent = magnitude == 0.0F ? -6 : std::max(std::ilogb(magnitude), -6);
  const auto eighths = static_cast<int>(std::lround(std::ldexp(magnitude, 3 - exponent)));  // 8 is 1.0
  const int bits = std::min((exponent + 6) * 8 + eighths, 0x7e);  // a carry goes to the exponent
  return static_cast<std::uint8_t>(bits | (std::signbit(value) ? 0x80 : 0));
}

template <class Number>
std::uint32_t GroupQuantized::word_of(bool is_awq, const Number& number) const {
  std::uint32_t word = 0;
  for (std::size_t n = 0; n < per_word(); ++n) {
    const std::size_t awq = bits_ == 4 ? kAwqOrder[n] : kAwqOrderOf8Bits[n];
    const std::uint32_t of_word = number(is_awq ? awq : n) & ((1U << bits_) - 1);
    word |= of_word << (bits_ * n);
  }
  return word;
}

std::string name_of(GroupFormat format) {
  constexpr const char* kNames[] = {"awq", "gptq", "gptq_v2", "packed", "packed_zeros", "packed_int8_zeros",
                                    "int8"};
  return kNames[static_cast<std::size_t>(format)];
}

nlohmann::json quantization_config(GroupFormat format, std::size_t group, unsigned bits) {
  switch (format) {
    case GroupFormat::awq:
      return {{"quant_method", "awq"}, {"bits", bits},      {"group_size", group},
              {"zero_point", true},    {"version", "gemm"}, {"modules_to_not_convert", nullptr}};
    case GroupFormat::gptq:
      return {{"quant_method", "gptq"}, {"bits", bits}, {"group_size", group}, {"desc_act", false}};
    case GroupFormat::gptq_v2:
      return {
          {"quant_method", "gptq"}, {"bits", bits}, {"group_size", group}, {"checkpoint_format", "gptq_v2"}};
    default:
      return {{"quant_method", "compressed-tensors"},
              {"format", format == GroupFormat::int8 ? "int-quantized" : "pack-quantized"},
              {"ignore", {"lm_head"}},
              {"config_groups",
               {{"group_0",
                 {{"targets", {"Linear"}},
                  {"weights", {{"num_bits", bits}, {"type", "int"}, {"group_size", group}}}}}}}};
  }
}

GroupQuantized::GroupQuantized(const std::vector<float>& values, std::size_t out, std::size_t in,
                               std::size_t group, bool symmetric, bool bf16_scales, unsigned bits)
    : GroupQuantized(values, out, in, in_order(in, group), symmetric, bf16_scales, bits) {}

GroupQuantized::GroupQuantized(const std::vector<float>& values, std::size_t out, std::size_t in,
                               std::vector<std::size_t> order, bool symmetric, bool bf16_scales,
                               unsigned bits)
    : out_(out),
      in_(in),
      order_(std::move(order)),
      bits_(bits),
      bf16_scales_(bf16_scales),
      numbers_(out * in) {
  const auto max_number = static_cast<float>((1U << bits) - 1);
  const auto middle = static_cast<float>(1U << (bits - 1));
  columns_of_.resize(*std::max_element(order_.begin(), order_.end()) + 1);
  for (std::size_t i = 0; i < in; ++i) columns_of_[order_[i]].push_back(i);
  for (std::size_t row = 0; row < out; ++row) {
    const float* const first = values.data() + row * in;
    for (const std::vector<std::size_t>& columns : columns_of_) {
      float min = INFINITY;
      float max = -INFINITY;
      for (const std::size_t i : columns) {
        min = std::min(min, first[i]);
        max = std::max(max, first[i]);
      }
      const float largest = std::max(std::abs(min), std::abs(max));
      const float step =
          symmetric ? largest / (middle - 1) : (std::max(max, 0.0F) - std::min(min, 0.0F)) / max_number;
      const std::uint16_t stored = bf16_scales ? kernels::float_to_bf16(step) : kernels::float_to_f16(step);
      const float scale = bf16_scales ? kernels::bf16_to_float(stored) : kernels::f16_to_float(stored);
      const float zero = symmetric ? middle : std::clamp(std::round(-min / scale), 0.0F, max_number);
      scales_.push_back(stored);
      zero_points_.push_back(static_cast<std::uint8_t>(zero));
      for (const std::size_t i : columns) {
        const float number = std::clamp(std::round(first[i] / scale) + zero, 0.0F, max_number);
        numbers_[row * in + i] = static_cast<std::uint8_t>(number);
      }
    }
  }
}

float GroupQuantized::value(std::size_t row, std::size_t column) const {
  const std::size_t index = row * groups() + order_[column];
  const float scale =
      bf16_scales_ ? kernels::bf16_to_float(scales_[index]) : kernels::f16_to_float(scales_[index]);
  return static_cast<float>(numbers_[row * in_ + column] - zero_points_[index]) * scale;
}

std::vector<float> GroupQuantized::values() const {
  std::vector<float> all;
  for (std::size_t row = 0; row < out_; ++row) {
    for (std::size_t column = 0; column < in_; ++column) all.push_back(value(row, column));
  }
  return all;
}

TestTensor GroupQuantized::awq_words(const std::string& name) const {
  std::vector<std::uint32_t> words;
  for (std::size_t column = 0; column < in_; ++column) {
    for (std::size_t row = 0; row < out_; row += per_word())
      words.push_back(word_of(true, [&](std::size_t n) { return numbers_[(row + n) * in_ + column]; }));
  }
  return {name, "I32", {in_, out_ / per_word()}, bytes_of(words)};
}

TestTensor GroupQuantized::gptq_words(const std::string& name) const {
  std::vector<std::uint32_t> words;
  for (std::size_t column = 0; column < in_; column += per_word()) {
    for (std::size_t row = 0; row < out_; ++row)
      words.push_back(word_of(false, [&](std::size_t n) { return numbers_[row * in_ + column + n]; }));
  }
  return {name, "I32", {in_ / per_word(), out_}, bytes_of(words)};
}

TestTensor GroupQuantized::packed_words(const std::string& name) const {
  std::vector<std::uint32_t> words;
  for (std::size_t row = 0; row < out_; ++row) {
    for (std::size_t column = 0; column < in_; column += per_word())
      words.push_back(word_of(false, [&](std::size_t n) { return numbers_[row * in_ + column + n]; }));
  }
  return {name, "I32", {out_, in_ / per_word()}, bytes_of(words)};
}

TestTensor GroupQuantized::zero_points(const std::string& name, GroupFormat format) const {
  std::vector<std::uint32_t> words;
  const unsigned less = format == GroupFormat::gptq ? 1 : 0;
  for (std::size_t group = 0; group < groups(); ++group) {
    for (std::size_t row = 0; row < out_; row += per_word()) {
      words.push_back(word_of(format == GroupFormat::awq, [&](std::size_t n) -> unsigned {
        return zero_points_[(row + n) * groups() + group] - less;
      }));
    }
  }
  return {name, "I32", {groups(), out_ / per_word()}, bytes_of(words)};
}

TestTensor GroupQuantized::packed_zero_points(const std::string& name, GroupFormat format) const {
  if (format == GroupFormat::packed_int8_zeros || format == GroupFormat::int8) {
    std::vector<std::int8_t> bytes;
    for (const std::uint8_t zero : zero_points_)
      bytes.push_back(static_cast<std::int8_t>(zero - (1 << (bits_ - 1))));
    return {name, "I8", {out_, groups()}, bytes_of(bytes)};
  }
  std::vector<std::uint32_t> words;
  for (std::size_t row = 0; row < out_; row += per_word()) {
    for (std::size_t group = 0; group < groups(); ++group) {
      words.push_back(word_of(false, [&](std::size_t n) -> unsigned {
        return row + n < out_ ? zero_points_[(row + n) * groups() + group] : 0;
      }));
    }
  }
  return {name, "I32", {(out_ + per_word() - 1) / per_word(), groups()}, bytes_of(words)};
}

TestTensor GroupQuantized::scales(const std::string& name, bool by_outputs) const {
  const std::string type = bf16_scales_ ? "BF16" : "F16";
  if (by_outputs) return {name, type, {out_, groups()}, bytes_of(scales_)};
  std::vector<std::uint16_t> transposed;
  for (std::size_t group = 0; group < groups(); ++group) {
    for (std::size_t row = 0; row < out_; ++row) transposed.push_back(scales_[row * groups() + group]);
  }
  return {name, type, {groups(), out_}, bytes_of(transposed)};
}

std::vector<TestTensor> GroupQuantized::tensors(const std::string& layer, GroupFormat format) const {
  if (format == GroupFormat::awq) {
    return {awq_words(layer + ".qweight"), zero_points(layer + ".qzeros", format),
            scales(layer + ".scales", false)};
  }
  if (format == GroupFormat::gptq || format == GroupFormat::gptq_v2) {
    const std::vector<std::int32_t> order(order_.begin(), order_.end());
    return {gptq_words(layer + ".qweight"),
            zero_points(layer + ".qzeros", format),
            scales(layer + ".scales", false),
            {layer + ".g_idx", "I32", {in_}, bytes_of(order)}};
  }
  if (format == GroupFormat::int8) {
    std::vector<std::int8_t> bytes;
    for (const std::uint8_t number : numbers_) bytes.push_back(static_cast<std::int8_t>(number - 128));
    return {{layer + ".weight", "I8", {out_, in_}, bytes_of(bytes)},
            scales(layer + ".weight_scale", true),
            packed_zero_points(layer + ".weight_zero_point", format)};
  }
  std::vector<TestTensor> tensors = {
      packed_words(layer + ".weight_packed"),
      scales(layer + ".weight_scale", true),
      {layer + ".weight_shape",
       "I64",
       {2},
       bytes_of(std::vector<std::int64_t>{static_cast<std::int64_t>(out_), static_cast<std::int64_t>(in_)})}};
  if (format != GroupFormat::packed)
    tensors.push_back(packed_zero_points(layer + ".weight_zero_point", format));
  if (!std::is_sorted(order_.begin(), order_.end())) {
    const std::vector<std::int32_t> order(order_.begin(), order_.end());
    tensors.push_back({layer + ".weight_g_idx", "I32", {in_}, bytes_of(order)});
  }
  return tensors;
}

F8Quantized::F8Quantized(const std::vector<float>& values, std::size_t out, std::size_t in,
                         std::size_t block_rows, std::size_t block_columns, const std::string& scale_type)
    : out_(out), in_(in), block_rows_(block_rows), block_columns_(block_columns), scale_type_(scale_type) {
  scales_.resize(scale_index(out - 1, in - 1) + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& scale = scales_[scale_index(i / in, i % in)];
    scale = std::max(scale, std::abs(values[i]) / 448.0F);
  }
  for (float& scale : scales_) {
    if (scale_type == "BF16") scale = kernels::bf16_to_float(kernels::float_to_bf16(scale));
    if (scale_type == "F8_E8M0" || scale_type == "U8") scale = std::ldexp(1.0F, std::ilogb(scale) + 1);
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    elements_.push_back(nearest_f8(values[i] / scales_[scale_index(i / in, i % in)]));
}

std::size_t F8Quantized::scale_index(std::size_t row, std::size_t column) const {
  return row / block_rows_ * ((in_ + block_columns_ - 1) / block_columns_) + column / block_columns_;
}

float F8Quantized::value(std::size_t row, std::size_t column) const {
  return value_of_f8(elements_[row * in_ + column]) * scales_[scale_index(row, column)];
}

std::vector<float> F8Quantized::values() const {
  std::vector<float> all;
  for (std::size_t row = 0; row < out_; ++row) {
    for (std::size_t column = 0; column < in_; ++column) all.push_back(value(row, column));
  }
  return all;
}

std::vector<TestTensor> F8Quantized::tensors(const std::string& layer, const std::string& scales,
                                             std::vector<std::size_t> shape) const {
  std::vector<std::uint16_t> halves;
  std::vector<std::uint8_t> exponents;
  for (const float scale : scales_) {
    halves.push_back(kernels::float_to_bf16(scale));
    exponents.push_back(static_cast<std::uint8_t>(std::ilogb(scale) + 127));
  }
  return {{layer + ".weight", "F8_E4M3", {out_, in_}, bytes_of(elements_)},
          {layer + scales, scale_type_, std::move(shape),
           scale_type_ == "F32"    ? bytes_of(scales_)
           : scale_type_ == "BF16" ? bytes_of(halves)
                                   : bytes_of(exponents)}};
}

}  // namespace tp::reference
