// Rounds numbers for output: JSON prints a double with 17 digits, but few of them are significant in a
// measured time or rate.
#pragma once

#include <cstdlib>

#include <fmt/format.h>

namespace tp {

// Rounds to `digits` significant digits.
inline double rounded(double value, int digits = 5) {
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

// The shortest decimal that identifies the float.
inline double rounded(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

}  // namespace tp
