#include "launch/progress.h"

#include "launch/console.h"
#include "launch/message.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tp {
namespace {

// A terminal of another process, such as mpirun's, is taken for a usual one.
std::size_t terminal_columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kUsual;
}

// "[=====     ]" with `room` for all of it; nothing if that is too short to be read.
std::string bar_of(double fraction, std::size_t room) {
  constexpr std::size_t kShortest = 5;
  constexpr std::size_t kLongest = 30;
  if (room < kShortest + 2) return {};
  const std::size_t width = std::min(room - 2, kLongest);
  const auto filled = static_cast<std::size_t>(fraction * static_cast<double>(width));
  return fmt::format("[{:=<{}}{: <{}}]", "", filled, "", width - filled);
}

}  // namespace

ProgressBar::ProgressBar(std::string label, bool own_terminal)
    : label_(std::move(label)),
      visible_(own_terminal ? ::isatty(STDERR_FILENO) == 1 : leads_to_terminal(STDERR_FILENO)) {}

// The bar is gone when what it announced is there.
ProgressBar::~ProgressBar() { hide(); }

void ProgressBar::update(std::optional<double> fraction, std::string_view details) {
  const auto now = Clock::now();
  if (!visible_ || now - drawn_ < std::chrono::milliseconds(200)) return;
  drawn_ = now;
  if (fraction) fraction = std::clamp(*fraction, 0.0, 1.0);
  const std::string left = fraction ? time_left(*fraction) : "";
  show_status(progress_line(label_, fraction, std::string(details) + left, terminal_columns()));
}

void ProgressBar::hide() {
  if (visible_) show_status({});
}

std::string ProgressBar::time_left(double fraction) {
  if (!first_fraction_) {
    first_fraction_ = fraction;
    begun_ = drawn_;
  }
  const double seconds = std::chrono::duration<double>(drawn_ - begun_).count();
  const double done = fraction - *first_fraction_;
  if (seconds < 1 || done <= 0) return {};  // too early to tell
  return fmt::format(", {} left", format_duration(seconds * (1 - fraction) / done));
}

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
