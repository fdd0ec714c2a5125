// What was measured, against what the machine can do at best.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tp {

// Both in the same unit.
struct Rate {
  double found;
  double ceiling;

  // A ceiling that something has passed is none: it was taken while the machine was disturbed, or what is
  // meant to be read from memory is in the caches.
  bool exceeds() const { return found > ceiling; }

  // "0.85", or "over"
  std::string share() const { return exceeds() ? "over" : fmt::format("{:.2f}", found / ceiling); }

  // "34.2 GB/s, but 19.8 were measured as the ceiling"
  std::string excess(std::string_view unit) const {
    return fmt::format("{:.3g} {}, but {:.3g} were measured as the ceiling", found, unit, ceiling);
  }
};

}  // namespace tp
