#include "launch/hub/download_progress.h"

#include "launch/common/message.h"
#include "runtime/text/format_bytes.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {

void DownloadProgress::line(const std::string& text) { print_message("tp-infer: " + text); }

void DownloadProgress::update(std::uint64_t bytes, std::uint64_t total) {
  if (!first_bytes_) {
    first_bytes_ = bytes;
    watch_.restart();
  }
  std::string details = fmt::format(", {} of {}", format_bytes(bytes), format_bytes(total));
  const double speed = static_cast<double>(bytes - *first_bytes_) / watch_.seconds();
  if (watch_.seconds() >= 1 && speed >= 1)  // too early to estimate before
    details += fmt::format(", {}/s", format_bytes(static_cast<std::size_t>(speed)));
  bar_.update(static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(total, 1)), details);
}

}  // namespace tp
