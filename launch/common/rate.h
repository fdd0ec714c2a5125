// A measured rate compared with the machine's peak.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tp {

// Both in the same unit.
struct Rate {
  double found;
  double peak;

  // Whether the rate exceeds the peak: the peak was measured on a disturbed machine, or the data came from a
  // cache instead of memory.
  bool exceeds() const { return found > peak; }

  // "0.85", or "over"
  std::string share() const { return exceeds() ? "over" : fmt::format("{:.2f}", found / peak); }

  // "34.2 GB/s, above the measured peak of 19.8"
  std::string excess(std::string_view unit) const {
    return fmt::format("{:.3g} {}, above the measured peak of {:.3g}", found, unit, peak);
  }
};

}  // namespace tp
