// Reads super-blocks of GGUF's types with codes to the strings that panels store.
//
// Source of the block layouts: ggml's block_iq2_xxs ... block_tq1_0. A super-block has 256 elements and an
// f16 d. The formats, with a grid's row g of four or eight elements, and small scales s of groups of 32 or
// 16:
//
//   IQ2_XXS, IQ2_XS, IQ2_S  d (2 s + 1) / 8 times g with signs      IQ3_XXS  d (2 s + 1) / 4 times g with
//   signs IQ3_S  d (2 s + 1) times g with signs                  IQ1_S, IQ1_M  d (2 s + 1) (g + 1/8 or g -
//   1/8) TQ1_0  d t, with five t of -1, 0 and 1 in a byte
#pragma once

#include <cstdint>

namespace tp {

// Writes the strings of a super-block, which begin at multiples of 64 bytes of `strings` [256], and d. See
// kernels::GridFormat and kernels::kTritBytes.
using CodesReader = void (*)(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d);

void read_iq2_xxs(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d);
void read_iq2_xs(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d);
void read_iq2_s(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d);
void read_iq3_xxs(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d);
void read_iq3_s(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d);
void read_iq1_s(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d);
void read_iq1_m(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d);
void read_tq1_0(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d);

}  // namespace tp
