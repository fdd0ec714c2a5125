#pragma once

#include <cstdint>

namespace tp {

// An index into a model's vocabulary.
using TokenId = std::int32_t;

}  // namespace tp
