// Weights of 4 bits in groups as AWQ, GPTQ and compressed-tensors store them, and their values by definition.
#pragma once

#include "tests/checkpoint/checkpoint_files.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp::reference {

enum class GroupFormat : std::uint8_t {
  awq,
  gptq,
  gptq_v2,
  packed,            // compressed-tensors, symmetric
  packed_zeros,      // with zero points in words
  packed_int8_zeros  // as an earlier version stored them
};

std::string name_of(GroupFormat format);
// The quantization_config of such weights.
nlohmann::json quantization_config(GroupFormat format, std::size_t group);

class GroupQuantized {
 public:
  // Rounds a matrix [out, in] to 16 levels a group.
  GroupQuantized(const std::vector<float>& values, std::size_t out, std::size_t in, std::size_t group,
                 bool symmetric, bool bf16_scales);

  // (number - zero point) * scale, in float32: exact.
  float value(std::size_t row, std::size_t column) const;
  std::vector<float> values() const;  // [out, in]

  // The tensors of a layer, without ".weight".
  std::vector<test::TestTensor> tensors(const std::string& layer, GroupFormat format) const;

 private:
  std::size_t groups() const { return in_ / group_; }
  test::TestTensor awq_words(const std::string& name) const;
  test::TestTensor gptq_words(const std::string& name) const;
  test::TestTensor packed_words(const std::string& name) const;
  test::TestTensor zero_points(const std::string& name, GroupFormat format) const;
  test::TestTensor packed_zero_points(const std::string& name, GroupFormat format) const;
  test::TestTensor scales(const std::string& name, bool by_outputs) const;

  std::size_t out_;
  std::size_t in_;
  std::size_t group_;
  bool bf16_scales_;
  std::vector<std::uint8_t> numbers_;      // [out, in]
  std::vector<std::uint8_t> zero_points_;  // [out, groups]
  std::vector<std::uint16_t> scales_;      // [out, groups]
};

}  // namespace tp::reference
