#include "launch/download_progress.h"

#include "launch/message.h"
#include "runtime/text/format_bytes.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {

void DownloadProgress::line(const std::string& text) {
  bar_.hide();
  print_message("tp-infer: " + text);
}

void DownloadProgress::update(std::uint64_t bytes, std::uint64_t total) {
  if (!has_begun_) {
    has_begun_ = true;
    first_bytes_ = bytes;
    start_ = std::chrono::steady_clock::now();
  }
  const double fraction = static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(total, 1));
  bar_.update(fraction, ", " + download_details(bytes, total, first_bytes_, seconds()));
}

double DownloadProgress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::string download_details(std::uint64_t bytes, std::uint64_t total, std::uint64_t first, double seconds) {
  const std::string amount = fmt::format("{} of {}", format_bytes(bytes), format_bytes(total));
  const double speed = seconds > 0 ? static_cast<double>(bytes - first) / seconds : 0;
  if (seconds < 1 || speed < 1) return amount;  // too early to tell
  return fmt::format("{}, {}/s, {} left", amount, format_bytes(static_cast<std::size_t>(speed)),
                     format_duration(static_cast<double>(total - bytes) / speed));
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

}  // namespace tp
