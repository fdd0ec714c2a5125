// Types of values sent between hosts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tp {

// The type of the values that all-reduces send between hosts. Within a host, values are float32, or float64
// for the exact sums of EngineOptions::same_bits.
enum class WireType : std::uint8_t {
  f32,  // exact sums stay float64
  bf16,
  int8,  // 8.5 bits per value: each group of 32 values has a scale
};
inline constexpr WireType kLastWireType = WireType::int8;

constexpr std::string_view name_of(WireType type) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "int8"};
  return kNames[static_cast<std::size_t>(type)];
}

// The type with this name, or none.
constexpr std::optional<WireType> find_wire_type(std::string_view name) {
  for (std::size_t type = 0; type <= static_cast<std::size_t>(kLastWireType); ++type) {
    if (name == name_of(static_cast<WireType>(type))) return static_cast<WireType>(type);
  }
  return std::nullopt;
}

}  // namespace tp
