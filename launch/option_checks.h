// What the value of an option must be. CLI11 has such checks too, but their texts are for programmers.
#pragma once

#include <cstdint>
#include <limits>

#include <CLI/CLI.hpp>

namespace tp {

// "expected a whole number from 1 to 1024, found 0"
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());

}  // namespace tp
