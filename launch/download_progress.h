#pragma once

#include "launch/progress.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace tp {

// How far a download is, on stderr: a line per file, and at a terminal a bar with bytes, speed and time left.
class DownloadProgress {
 public:
  void line(const std::string& text);
  void update(std::uint64_t bytes, std::uint64_t total);

  double seconds() const;

 private:
  ProgressBar bar_{"downloading"};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::uint64_t first_bytes_ = 0;  // that were there before
  bool has_begun_ = false;
};

// "1.2 GiB of 4.9 GiB, 80.1 MiB/s, 47 s left", for a download that had `first` bytes at its start.
std::string download_details(std::uint64_t bytes, std::uint64_t total, std::uint64_t first, double seconds);

// "47 s", "3:20 min", "2:05 h"
std::string format_duration(double seconds);

}  // namespace tp
