// Encoders of the types with super-blocks of 256 elements.
#pragma once

#include <cstdint>

namespace tp {

// Each function writes one block of its type.
void encode_q2_k(const float* elements, std::uint8_t* block);
void encode_q3_k(const float* elements, std::uint8_t* block);
void encode_q4_k(const float* elements, std::uint8_t* block);
void encode_q5_k(const float* elements, std::uint8_t* block);
void encode_q6_k(const float* elements, std::uint8_t* block);
void encode_iq4_xs(const float* elements, std::uint8_t* block);

}  // namespace tp
