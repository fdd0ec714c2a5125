#include "parallel/machine/memory_reserve.h"

#include <cstddef>
#include <cstdlib>
#include <utility>

namespace tp {
namespace {

// Small enough to come from the heap, so that the memory stays usable after it is freed.
constexpr std::size_t kBytes = std::size_t{96} << 10;

}  // namespace

// Both functions are in this file, because a compiler that sees both removes a block that nobody uses.
MemoryReserve::MemoryReserve() : memory_(std::malloc(kBytes)) {}

void MemoryReserve::release() { std::free(std::exchange(memory_, nullptr)); }

}  // namespace tp
