#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tp {

// A bar on stderr for something that takes long; silent unless stderr is a terminal.
class ProgressBar {
 public:
  // `label` says what is going on: "loading llama".
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // fraction in [0, 1]
  void update(double fraction);
  // With details behind the bar, which is shorter then: "1.2 GiB of 4.9 GiB". Drawn at most five times a
  // second.
  void update(double fraction, std::string_view details);

  // Until the next update: makes room for a line of text.
  void hide();

 private:
  void draw(int percent, int width, std::string_view details);

  std::string label_;
  bool visible_;
  int shown_percent_ = -1;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace tp
