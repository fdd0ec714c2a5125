// Weights of 4 or 8 bits in groups like in AWQ, GPTQ and compressed-tensors, and FP8 with block scales.
// Values by definition.
#pragma once

#include "tests/model/weights/checkpoint_files.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp::reference {

// Return the value of an F8_E4M3 number, and the nearest F8_E4M3 number.
float value_of_f8(unsigned bits);
std::uint8_t nearest_f8(float value);

enum class GroupFormat : std::uint8_t {
  awq,
  gptq,
  gptq_v2,
  packed,             // compressed-tensors, symmetric
  packed_zeros,       // with zero points in words
  packed_int8_zeros,  // the format of an earlier version
  int8                // compressed-tensors of 8 bits, a byte each
};

std::string name_of(GroupFormat format);
// Returns the quantization_config of such weights.
nlohmann::json quantization_config(GroupFormat format, std::size_t group, unsigned bits = 4);

class GroupQuantized {
 public:
  // Rounds a matrix [out, in] to 16 or 256 levels per group.
  GroupQuantized(const std::vector<float>& values, std::size_t out, std::size_t in, std::size_t group,
                 bool symmetric, bool bf16_scales, unsigned bits = 4);
  // Column k belongs to group order[k].
  GroupQuantized(const std::vector<float>& values, std::size_t out, std::size_t in,
                 std::vector<std::size_t> order, bool symmetric, bool bf16_scales, unsigned bits);

  // (number - zero point) * scale, in float32: exact.
  float value(std::size_t row, std::size_t column) const;
  std::vector<float> values() const;  // [out, in]

  // Returns the tensors of a layer, without ".weight".
  std::vector<test::TestTensor> tensors(const std::string& layer, GroupFormat format) const;

 private:
  std::size_t groups() const { return columns_of_.size(); }
  std::size_t per_word() const { return 32 / bits_; }
  // Packs number(n) of the outputs or inputs n into words, in AWQ's order or consecutively.
  template <class Number>
  std::uint32_t word_of(bool is_awq, const Number& number) const;
  test::TestTensor awq_words(const std::string& name) const;
  test::TestTensor gptq_words(const std::string& name) const;
  test::TestTensor packed_words(const std::string& name) const;
  test::TestTensor zero_points(const std::string& name, GroupFormat format) const;
  test::TestTensor packed_zero_points(const std::string& name, GroupFormat format) const;
  test::TestTensor scales(const std::string& name, bool by_outputs) const;

  std::size_t out_;
  std::size_t in_;
  std::vector<std::size_t> order_;
  std::vector<std::vector<std::size_t>> columns_of_;  // groups
  unsigned bits_;
  bool bf16_scales_;
  std::vector<std::uint8_t> numbers_;      // [out, in]
  std::vector<std::uint8_t> zero_points_;  // [out, groups]
  std::vector<std::uint16_t> scales_;      // [out, groups]
};

// The nearest F8_E4M3 numbers, with a scale for every block of this many rows and columns: block x block, a
// row, or the whole matrix.
class F8Quantized {
 public:
  F8Quantized(const std::vector<float>& values, std::size_t out, std::size_t in, std::size_t block_rows,
              std::size_t block_columns, const std::string& scale_type);

  // element * scale, rounded once to float32.
  float value(std::size_t row, std::size_t column) const;
  std::vector<float> values() const;  // [out, in]

  // Returns "NAME.weight" and its scales, with this name suffix and shape.
  std::vector<test::TestTensor> tensors(const std::string& layer, const std::string& scales,
                                        std::vector<std::size_t> shape) const;

 private:
  std::size_t scale_index(std::size_t row, std::size_t column) const;

  std::size_t out_;
  std::size_t in_;
  std::size_t block_rows_;
  std::size_t block_columns_;
  std::string scale_type_;
  std::vector<std::uint8_t> elements_;
  std::vector<float> scales_;
};

}  // namespace tp::reference
