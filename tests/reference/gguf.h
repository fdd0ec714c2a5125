// The formats of GGUF's quantized tensors, element by element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tp::reference {

// Returns element `i` of a block of the type "F32", "Q4_0", ..., "Q6_K". `block` points to the block's bytes.
float gguf_element(std::string_view type, const std::uint8_t* block, std::size_t i);

}  // namespace tp::reference
