// 4-bit weights whose elements are places in a table: NVFP4 of ModelOpt and compressed-tensors, and
// bitsandbytes' nf4. Values by definition.
#pragma once

#include "tests/model/weights/checkpoint_files.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp::reference {

enum class FourBitFormat : std::uint8_t {
  modelopt,   // NVFP4
  packed,     // NVFP4 of compressed-tensors
  nf4,        // a float32 scale for 64 elements
  nf4_double  // the scales are quantized, too
};

// bitsandbytes' get_4bit_type("nf4").
inline constexpr float kNf4Levels[] = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

std::string name_of(FourBitFormat format);
// Returns the quantization_config of such weights.
nlohmann::json quantization_config(FourBitFormat format);

class FourBitFloats {
 public:
  // Rounds a matrix [out, in].
  FourBitFloats(const std::vector<float>& values, std::size_t out, std::size_t in, FourBitFormat format);

  float value(std::size_t row, std::size_t column) const;
  std::vector<float> values() const;  // [out, in]

  // The tensors of a layer, without ".weight".
  std::vector<test::TestTensor> tensors(const std::string& layer) const;

 private:
  bool is_nf4() const { return format_ == FourBitFormat::nf4 || format_ == FourBitFormat::nf4_double; }
  std::size_t group() const { return is_nf4() ? 64 : 16; }
  float scale(std::size_t group) const;
  float level(std::size_t place) const;
  void set_nvfp4_scales(const std::vector<float>& largest);
  void set_nf4_scales(const std::vector<float>& largest);
  std::vector<test::TestTensor> nvfp4_tensors(const std::string& layer) const;
  std::vector<test::TestTensor> nf4_tensors(const std::string& name) const;

  std::size_t out_;
  std::size_t in_;
  FourBitFormat format_;
  std::vector<std::uint8_t> places_;  // [out, in]
  std::vector<float> scales_;         // nf4: scales of groups
  std::vector<std::uint8_t> bytes_;   // nvfp4: a group's scale as FP8; nf4_double: its place in the map
  float of_matrix_ = 1.0F;            // nvfp4: the matrix's scale, or its stored reciprocal
  std::vector<float> map_;            // nf4_double
  std::vector<float> maxima_;         // nf4_double: maximum of 256 groups
  float offset_ = 0.0F;               // nf4_double
};

}  // namespace tp::reference
