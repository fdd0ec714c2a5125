#include "launch/progress.h"

#include "launch/message.h"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace tp {

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), visible_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  // The bar is gone when what it announced is there.
  if (visible_ && shown_percent_ >= 0) print_note("\r\033[K");
}

void ProgressBar::update(double fraction) {
  const int percent = static_cast<int>(fraction * 100);
  if (!visible_ || percent == shown_percent_) return;
  shown_percent_ = percent;
  constexpr int kWidth = 30;
  const int filled = percent * kWidth / 100;
  print_note(fmt::format("\r{} [{:=<{}}{: <{}}] {:3}%", label_, "", filled, "", kWidth - filled, percent));
  std::fflush(stderr);
}

}  // namespace tp
