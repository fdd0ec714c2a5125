// Values of four-bit indices in GGUF's types with tables. Source: ggml, kvalues_iq4nl and kvalues_mxfp4.
#pragma once

#include <array>
#include <cstdint>

namespace tp {

// IQ4_NL and IQ4_XS: ascending.
inline constexpr std::array<std::int8_t, 16> kIq4Levels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};
// MXFP4: twice the format's values. The fourth bit of the index is the sign.
inline constexpr std::array<std::int8_t, 16> kMxfp4Levels = {0, 1,  2,  3,  4,  6,  8,  12,
                                                             0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace tp
