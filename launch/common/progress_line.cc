#include "launch/common/progress_line.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace tp {
namespace {

// Returns "[=====     ]" of this total width, or nothing if it would be too short.
std::string bar_of(double fraction, std::size_t room) {
  constexpr std::size_t kShortest = 5;
  constexpr std::size_t kLongest = 30;
  if (room < kShortest + 2) return {};
  const std::size_t width = std::min(room - 2, kLongest);
  const auto filled = static_cast<std::size_t>(fraction * static_cast<double>(width));
  return fmt::format("[{:=<{}}{: <{}}]", "", filled, "", width - filled);
}

}  // namespace

std::string progress_line(std::string_view label, std::optional<double> fraction, std::string_view details,
                          std::size_t columns) {
  std::string end(details);
  if (fraction) end = fmt::format(" {:3}%{}", static_cast<int>(*fraction * 100), details);
  std::string line(label);
  const std::size_t used = line.size() + 1 + end.size();
  const std::size_t room = columns - 1;
  const std::string bar = fraction && used < room ? bar_of(*fraction, room - used) : "";
  if (!bar.empty()) line += " " + bar;
  return (line + end).substr(0, room);
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

}  // namespace tp
