// The texts of a progress bar.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

// Returns a line shorter than `columns`: "loading llama [=====     ]  50%, 47 s left". Long details shorten
// the bar.
std::string progress_line(std::string_view label, std::optional<double> fraction, std::string_view details,
                          std::size_t columns);

// "47 s", "3:20 min", "2:05 h"
std::string format_duration(double seconds);

}  // namespace tp
