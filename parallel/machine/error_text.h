// Texts for users. The texts of the standard library's own exceptions don't say what to do.
#pragma once

#include <exception>

namespace tp {

// The text of an error for a rank that has no more memory.
inline constexpr const char* kRankOutOfMemory =
    "out of memory; use more ranks or hosts, use a smaller cache (`cache_tokens`), or raise the limit "
    "(ulimit -v)";

// Whether an allocation failed, or a container would be larger than any memory.
bool is_out_of_memory(const std::exception& error);

// The text of an exception for users: kRankOutOfMemory if memory ran out. Lives as long as the exception.
// Allocates nothing.
const char* error_text(const std::exception& error);

}  // namespace tp
