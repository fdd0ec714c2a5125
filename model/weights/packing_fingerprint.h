// Detects whether two programs pack weights alike.
#pragma once

#include <cstdint>

namespace tp {

// A hash of some numbers packed in every type and layout. Programs with equal fingerprints pack equal
// elements to equal bytes.
std::uint64_t packing_fingerprint();

}  // namespace tp
