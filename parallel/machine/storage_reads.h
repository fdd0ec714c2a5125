#pragma once

#include <cstdint>
#include <optional>

namespace tp {

// Bytes that the kernel has fetched from storage for this process, including read-ahead but not pages that
// were already in memory. nullopt if the kernel does not report them.
std::optional<std::uint64_t> bytes_from_storage();

}  // namespace tp
