#include "launch/common/progress.h"

#include "launch/common/console.h"
#include "launch/common/message.h"
#include "launch/common/progress_line.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

namespace tp {
ProgressBar::ProgressBar(std::string label, bool own_terminal)
    : label_(std::move(label)),
      visible_(own_terminal ? ::isatty(STDERR_FILENO) == 1 : leads_to_terminal(STDERR_FILENO)) {}

// The bar disappears when the announced work is done.
ProgressBar::~ProgressBar() { hide(); }

void ProgressBar::update(std::optional<double> fraction, std::string_view details) {
  const auto now = Clock::now();
  if (!visible_ || now - drawn_ < std::chrono::milliseconds(200)) return;
  drawn_ = now;
  if (fraction) fraction = std::clamp(*fraction, 0.0, 1.0);
  const std::string left = fraction ? time_left(*fraction) : "";
  show_status(progress_line(label_, fraction, std::string(details) + left, terminal_columns(STDERR_FILENO)));
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
  if (seconds < 1 || done <= 0) return {};  // too early to estimate
  return fmt::format(", {} left", format_duration(seconds * (1 - fraction) / done));
}

}  // namespace tp
