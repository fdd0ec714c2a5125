#include "tests/reference/group_quantized.h"

#include "model/kernels/half.h"

#include <algorithm>
#include <cmath>

namespace tp::reference {
namespace {

using test::bytes_of;
using test::TestTensor;

// AWQ's pack_intweight: the n-th four bits of a word are output kAwqOrder[n] of eight.
constexpr std::size_t kAwqOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
constexpr std::size_t kPlainOrder[8] = {0, 1, 2, 3, 4, 5, 6, 7};

// A word of number(order[0]), ..., the lowest bits first.
template <class Number>
std::uint32_t word_of(const std::size_t (&order)[8], const Number& number) {
  std::uint32_t word = 0;
  for (std::size_t n = 0; n < 8; ++n) word |= static_cast<std::uint32_t>(number(order[n]) & 15U) << (4 * n);
  return word;
}

}  // namespace

std::string name_of(GroupFormat format) {
  constexpr const char* kNames[] = {"awq", "gptq", "gptq_v2", "packed", "packed_zeros", "packed_int8_zeros"};
  return kNames[static_cast<std::size_t>(format)];
}

nlohmann::json quantization_config(GroupFormat format, std::size_t group) {
  switch (format) {
    case GroupFormat::awq:
      return {{"quant_method", "awq"}, {"bits", 4},         {"group_size", group},
              {"zero_point", true},    {"version", "gemm"}, {"modules_to_not_convert", nullptr}};
    case GroupFormat::gptq:
      return {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", group}, {"desc_act", false}};
    case GroupFormat::gptq_v2:
      return {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", group}, {"checkpoint_format", "gptq_v2"}};
    default:
      return {{"quant_method", "compressed-tensors"},
              {"format", "pack-quantized"},
              {"ignore", {"lm_head"}},
              {"config_groups",
               {{"group_0",
                 {{"targets", {"Linear"}},
                  {"weights", {{"num_bits", 4}, {"type", "int"}, {"group_size", group}}}}}}}};
  }
}

GroupQuantized::GroupQuantized(const std::vector<float>& values, std::size_t out, std::size_t in,
                               std::size_t group, bool symmetric, bool bf16_scales)
    : out_(out), in_(in), group_(group), bf16_scales_(bf16_scales) {
  for (std::size_t row = 0; row < out; ++row) {
    for (std::size_t begin = 0; begin < in; begin += group) {
      const float* const first = values.data() + row * in + begin;
      const auto [least, most] = std::minmax_element(first, first + group);
      const float largest = std::max(std::abs(*least), std::abs(*most));
      const float step = symmetric ? largest / 7 : (std::max(*most, 0.0F) - std::min(*least, 0.0F)) / 15;
      const std::uint16_t bits = bf16_scales ? kernels::float_to_bf16(step) : kernels::float_to_f16(step);
      const float scale = bf16_scales ? kernels::bf16_to_float(bits) : kernels::f16_to_float(bits);
      const float zero = symmetric ? 8.0F : std::clamp(std::round(-*least / scale), 0.0F, 15.0F);
      scales_.push_back(bits);
      zero_points_.push_back(static_cast<std::uint8_t>(zero));
      for (std::size_t i = 0; i < group; ++i) {
        const float number = std::clamp(std::round(first[i] / scale) + zero, 0.0F, 15.0F);
        numbers_.push_back(static_cast<std::uint8_t>(number));
      }
    }
  }
}

float GroupQuantized::value(std::size_t row, std::size_t column) const {
  const std::size_t index = row * groups() + column / group_;
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
    for (std::size_t row = 0; row < out_; row += 8)
      words.push_back(word_of(kAwqOrder, [&](std::size_t n) { return numbers_[(row + n) * in_ + column]; }));
  }
  return {name, "I32", {in_, out_ / 8}, bytes_of(words)};
}

TestTensor GroupQuantized::gptq_words(const std::string& name) const {
  std::vector<std::uint32_t> words;
  for (std::size_t column = 0; column < in_; column += 8) {
    for (std::size_t row = 0; row < out_; ++row)
      words.push_back(word_of(kPlainOrder, [&](std::size_t n) { return numbers_[row * in_ + column + n]; }));
  }
  return {name, "I32", {in_ / 8, out_}, bytes_of(words)};
}

TestTensor GroupQuantized::packed_words(const std::string& name) const {
  std::vector<std::uint32_t> words;
  for (std::size_t row = 0; row < out_; ++row) {
    for (std::size_t column = 0; column < in_; column += 8)
      words.push_back(word_of(kPlainOrder, [&](std::size_t n) { return numbers_[row * in_ + column + n]; }));
  }
  return {name, "I32", {out_, in_ / 8}, bytes_of(words)};
}

TestTensor GroupQuantized::zero_points(const std::string& name, GroupFormat format) const {
  std::vector<std::uint32_t> words;
  const unsigned less = format == GroupFormat::gptq ? 1 : 0;
  for (std::size_t group = 0; group < groups(); ++group) {
    for (std::size_t row = 0; row < out_; row += 8) {
      words.push_back(word_of(
          format == GroupFormat::awq ? kAwqOrder : kPlainOrder,
          [&](std::size_t n) -> unsigned { return zero_points_[(row + n) * groups() + group] - less; }));
    }
  }
  return {name, "I32", {groups(), out_ / 8}, bytes_of(words)};
}

TestTensor GroupQuantized::packed_zero_points(const std::string& name, GroupFormat format) const {
  if (format == GroupFormat::packed_int8_zeros) {
    std::vector<std::int8_t> bytes;
    for (const std::uint8_t zero : zero_points_) bytes.push_back(static_cast<std::int8_t>(zero - 8));
    return {name, "I8", {out_, groups()}, bytes_of(bytes)};
  }
  std::vector<std::uint32_t> words;
  for (std::size_t row = 0; row < out_; row += 8) {
    for (std::size_t group = 0; group < groups(); ++group) {
      words.push_back(word_of(kPlainOrder, [&](std::size_t n) -> unsigned {
        return row + n < out_ ? zero_points_[(row + n) * groups() + group] : 0;
      }));
    }
  }
  return {name, "I32", {(out_ + 7) / 8, groups()}, bytes_of(words)};
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
    std::vector<std::int32_t> order;
    for (std::size_t column = 0; column < in_; ++column)
      order.push_back(static_cast<std::int32_t>(column / group_));
    return {gptq_words(layer + ".qweight"),
            zero_points(layer + ".qzeros", format),
            scales(layer + ".scales", false),
            {layer + ".g_idx", "I32", {in_}, bytes_of(order)}};
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
  return tensors;
}

}  // namespace tp::reference
