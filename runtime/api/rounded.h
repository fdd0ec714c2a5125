// Numbers as people and programs want to read them: JSON prints a double with all its 17 digits, of which a
// time or a rate that was measured means few.
#pragma once

#include <cstdlib>

#include <fmt/format.h>

namespace tp {

// The number with that many significant digits.
inline double rounded(double value, int digits = 5) {
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

// The number with as few digits as tell it from all other floats.
inline double rounded(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

}  // namespace tp
