// The element types of GGUF files.
#pragma once

#include "tp/tensor.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tp {

// Elements are stored in blocks. A block is one element, or a group that shares scales.
struct GgufType {
  std::uint32_t id = 0;  // number in the file
  std::string_view name;
  std::size_t block_elements = 1;
  std::size_t block_bytes = 0;
  bool readable = false;  // whether gguf_dequantize.h supports it

  // Bytes of `elements` elements, a multiple of block_elements.
  constexpr std::size_t bytes_of(std::size_t elements) const {
    return elements / block_elements * block_bytes;
  }
  bool operator==(const GgufType&) const = default;
};

// Includes types that cannot be read: checking a file's layout requires the sizes of all tensors, even if no
// model uses them.
inline constexpr std::array kGgufTypes = {
    GgufType{0, "F32", 1, 4, true},
    GgufType{1, "F16", 1, 2, true},
    GgufType{2, "Q4_0", 32, 18, true},
    GgufType{3, "Q4_1", 32, 20, true},
    GgufType{6, "Q5_0", 32, 22, true},
    GgufType{7, "Q5_1", 32, 24, true},
    GgufType{8, "Q8_0", 32, 34, true},
    GgufType{9, "Q8_1", 32, 36, false},
    GgufType{10, "Q2_K", 256, 84, true},
    GgufType{11, "Q3_K", 256, 110, true},
    GgufType{12, "Q4_K", 256, 144, true},
    GgufType{13, "Q5_K", 256, 176, true},
    GgufType{14, "Q6_K", 256, 210, true},
    GgufType{15, "Q8_K", 256, 292, false},
    GgufType{16, "IQ2_XXS", 256, 66, true},
    GgufType{17, "IQ2_XS", 256, 74, true},
    GgufType{18, "IQ3_XXS", 256, 98, true},
    GgufType{19, "IQ1_S", 256, 50, true},
    GgufType{20, "IQ4_NL", 32, 18, true},
    GgufType{21, "IQ3_S", 256, 110, true},
    GgufType{22, "IQ2_S", 256, 82, true},
    GgufType{23, "IQ4_XS", 256, 136, true},
    GgufType{24, "I8", 1, 1},
    GgufType{25, "I16", 1, 2},
    GgufType{26, "I32", 1, 4},
    GgufType{27, "I64", 1, 8},
    GgufType{28, "F64", 1, 8},
    GgufType{29, "IQ1_M", 256, 56, true},
    GgufType{30, "BF16", 1, 2, true},
    GgufType{34, "TQ1_0", 256, 54, true},
    GgufType{35, "TQ2_0", 256, 66, true},
    GgufType{39, "MXFP4", 32, 17, true},
    GgufType{40, "NVFP4", 64, 36, true},
};

// The type with this number, or nullptr.
constexpr const GgufType* find_gguf_type(std::uint32_t id) {
  for (const GgufType& type : kGgufTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

// The type with this name, or nullptr.
constexpr const GgufType* find_gguf_type(std::string_view name) {
  for (const GgufType& type : kGgufTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

// Whether elements are integers without a scale.
constexpr bool is_integer(const GgufType& type) {
  return type.name == "I8" || type.name == "I16" || type.name == "I32" || type.name == "I64";
}

// The in-memory type of elements that are single floating-point numbers; nothing for other types.
constexpr std::optional<DType> plain_type(const GgufType& type) {
  if (type.name == "F32") return DType::f32;
  if (type.name == "F16") return DType::f16;
  if (type.name == "BF16") return DType::bf16;
  return std::nullopt;
}

}  // namespace tp
