// Detects whether two programs pack weights alike.
#pragma once

#include "model/kernels/packed_weight.h"

#include <cstdint>
#include <functional>

namespace tp {

// Calls `use` with small weights in every type and layout. A weight is valid during the call.
void for_example_weights(const std::function<void(const kernels::PackedView&)>& use);

// A hash of some numbers packed in every type and layout. Programs with equal fingerprints pack equal
// elements to equal bytes.
std::uint64_t packing_fingerprint();

}  // namespace tp
