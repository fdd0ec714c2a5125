#include "runtime/stop_matcher.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tp {
namespace {

// The length of the longest end of `text` that `stop` begins with, without being the whole of it.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size) {
    if (text.substr(text.size() - size) == stop.substr(0, size)) return size;
  }
  return 0;
}

}  // namespace

std::string StopMatcher::push(const std::string& piece) {
  if (matched_) return {};
  held_ += piece;
  std::size_t first = std::string::npos;
  std::size_t end = std::string::npos;
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    // The stop text that is complete first counts, so that it does not matter how the text is cut into
    // pieces.
    if (const std::size_t found = held_.find(stop); found != std::string::npos) {
      if (found + stop.size() < end || (found + stop.size() == end && found < first)) first = found;
      end = std::min(end, found + stop.size());
    }
    keep = std::max(keep, overlap(held_, stop));
  }
  if (first != std::string::npos) {
    matched_ = true;
    return std::exchange(held_, {}).substr(0, first);
  }
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::finish() { return matched_ ? std::string() : std::exchange(held_, {}); }

}  // namespace tp
