#pragma once

#include <cstddef>
#include <string>

namespace tp {

// Formats a number of bytes, for example "1.5 GiB".
std::string format_bytes(std::size_t bytes);

}  // namespace tp
