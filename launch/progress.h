#pragma once

#include <string>

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

 private:
  std::string label_;
  bool visible_;
  int shown_percent_ = -1;
};

}  // namespace tp
