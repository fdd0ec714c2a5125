#include "launch/progress.h"

#include "launch/message.h"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace tp {

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), visible_(isatty(STDERR_FILENO) == 1) {}

// The bar is gone when what it announced is there.
ProgressBar::~ProgressBar() { hide(); }

void ProgressBar::update(double fraction) {
  constexpr int kWidth = 30;
  const int percent = static_cast<int>(fraction * 100);
  if (percent != shown_percent_) draw(percent, kWidth, {});
}

void ProgressBar::update(double fraction, std::string_view details) {
  constexpr int kWidth = 15;  // the line is to fit into 80 columns
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < std::chrono::milliseconds(200)) return;
  drawn_ = now;
  draw(static_cast<int>(fraction * 100), kWidth, details);
}

void ProgressBar::hide() {
  if (visible_ && shown_percent_ >= 0) print_note("\r\033[K");
  shown_percent_ = -1;
}

void ProgressBar::draw(int percent, int width, std::string_view details) {
  if (!visible_) return;
  shown_percent_ = percent;
  const int filled = percent * width / 100;
  print_note(fmt::format("\r{} [{:=<{}}{: <{}}] {:3}%{}{}", label_, "", filled, "", width - filled, percent,
                         details, details.empty() ? "" : "\033[K"));
  std::fflush(stderr);
}

}  // namespace tp
