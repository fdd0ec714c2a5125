// What a config.json says of quantized weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace tp {

// Weights of 4 bits in groups, as three tools store them.
struct GroupQuantization {
  enum class Method : std::uint8_t { awq, gptq, pack_quantized };

  Method method;
  // GPTQ's first format stores zero points less one.
  bool zero_points_less_one = false;

  bool operator==(const GroupQuantization&) const = default;
};

// "AWQ", "GPTQ", "compressed-tensors".
std::string_view name_of(GroupQuantization::Method method);

// The quantization_config of a folder's config.json; nothing if there is none, or one of FP8 with the scales
// of blocks, whose tensors tell for themselves. Throws ConfigError for others, by name.
std::optional<GroupQuantization> find_group_quantization(const std::filesystem::path& folder);

}  // namespace tp
