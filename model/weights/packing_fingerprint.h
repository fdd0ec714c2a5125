// Whether two programs pack weights alike.
#pragma once

#include <cstdint>

namespace tp {

// A hash of some numbers packed in every type and layout: programs with the same one make the same bytes of
// the same elements.
std::uint64_t packing_fingerprint();

}  // namespace tp
