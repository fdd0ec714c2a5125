#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

// A bar on stderr for something that takes long; silent unless stderr leads to a terminal.
class ProgressBar {
 public:
  // `label` says what is going on: "loading llama".
  // `own_terminal`: not at mpirun's terminal, which shows stdout and stderr in any order, so that the end of
  // the bar could erase a prompt.
  explicit ProgressBar(std::string label, bool own_terminal = false);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `fraction` is in [0, 1], or nothing if the end is unknown. `details` follow the bar: ", 1.2 GiB of 4.9
  // GiB". Draws at most five times a second, and adds the time left when the speed is known.
  void update(std::optional<double> fraction, std::string_view details = {});

  // Until the next update: makes room for a line of text.
  void hide();

 private:
  using Clock = std::chrono::steady_clock;

  std::string time_left(double fraction);

  std::string label_;
  bool visible_;
  Clock::time_point drawn_{};
  Clock::time_point begun_{};
  std::optional<double> first_fraction_;  // something may be done before the bar begins
};

}  // namespace tp
