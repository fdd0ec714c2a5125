#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

// A bar on stderr for long work. Silent if stderr doesn't lead to a terminal.
class ProgressBar {
 public:
  // `label` names the work: "loading llama". `own_terminal`: hides the bar on mpirun's terminal, which shows
  // stdout and stderr in any order, so that the end of the bar could erase a prompt.
  explicit ProgressBar(std::string label, bool own_terminal = false);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `fraction` is in [0, 1], or nothing if the end is unknown. `details` follow the bar: ", 1.2 GiB of 4.9
  // GiB". Draws at most five times per second. Shows the remaining time if the speed is known.
  void update(std::optional<double> fraction, std::string_view details = {});

  // Hides the bar until the next update, to make room for a line of text.
  void hide();

 private:
  using Clock = std::chrono::steady_clock;

  std::string time_left(double fraction);

  std::string label_;
  bool visible_;
  Clock::time_point drawn_{};
  Clock::time_point begun_{};
  std::optional<double> first_fraction_;  // progress before the bar began
};

}  // namespace tp
