// Reads descriptions of quantized weights from config.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace tp {

// Quantized weights with scales of groups, in the formats of several tools.
struct GroupQuantization {
  enum class Method : std::uint8_t { awq, gptq, compressed_tensors, fp8, mxfp4, nvfp4, bitsandbytes };

  Method method = Method::fp8;
  unsigned bits = 4;  // bits of integers; 0: 4 or 8, determined by shapes
  // GPTQ's first format stores zero points less one.
  bool zero_points_less_one = false;
  // Rows and columns of an FP8 weight that share a scale, if several do.
  std::size_t block_rows = 128;
  std::size_t block_columns = 128;

  bool operator==(const GroupQuantization&) const = default;
};

// "AWQ", "GPTQ", "compressed-tensors", "FP8", ...
std::string_view name_of(GroupQuantization::Method method);

// The quantization that a model's folder or config.json describes; nothing if there is none. Throws
// ConfigError, naming the method, if it cannot be read.
std::optional<GroupQuantization> find_group_quantization(const std::filesystem::path& model);

}  // namespace tp
