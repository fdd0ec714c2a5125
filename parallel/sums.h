// Sums of vectors in a fixed order.
#pragma once

#include <cstddef>
#include <span>

namespace tp {

// At least one addend, [size] each:
// out[i] = addends[0][i] + addends[1][i] + ... for i in [0, size). `out` may be one of the addends.
void sum_of(std::span<const float* const> addends, std::size_t size, float* out);

}  // namespace tp
