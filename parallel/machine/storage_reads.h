// Bytes that this process has read from storage.
#pragma once

#include <cstdint>
#include <optional>

namespace tp {

// Bytes that the kernel has fetched from storage for this process so far, with what it read ahead; those that
// it found in memory are not among them. Nothing where the kernel does not tell.
std::optional<std::uint64_t> bytes_from_storage();

}  // namespace tp
