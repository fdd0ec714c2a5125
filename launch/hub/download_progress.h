#pragma once

#include "launch/common/progress.h"
#include "parallel/machine/stopwatch.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tp {

// Shows a download's progress on stderr: a line per file, and at a terminal a bar with bytes, speed and
// remaining time.
class DownloadProgress {
 public:
  void line(const std::string& text);
  void update(std::uint64_t bytes, std::uint64_t total);

  double seconds() const { return watch_.seconds(); }

 private:
  ProgressBar bar_{"downloading"};
  Stopwatch watch_;
  std::optional<std::uint64_t> first_bytes_;  // bytes of earlier downloads
};

}  // namespace tp
