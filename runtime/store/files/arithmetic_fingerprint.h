#pragma once

#include "tp/memory_types.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// A hash of the results of small products with weights of every type but those with a ScaledFormat,
// attentions over a cache of this type, recurrent steps, norms and rotations. A program that computes other
// bits, on this machine with its current instruction set, has another fingerprint.
std::uint64_t arithmetic_fingerprint(KvType type, std::size_t block_size);

}  // namespace tp
