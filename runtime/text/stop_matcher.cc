#include "runtime/text/stop_matcher.h"

#include "runtime/chat/overlap.h"

#include <algorithm>
#include <utility>

namespace tp {
std::string StopMatcher::push(const std::string& piece) {
  if (matched()) return {};
  const std::size_t before = held_.size();
  held_ += piece;
  std::size_t first = std::string::npos;
  std::size_t end = std::string::npos;
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    // The stop text completed first wins, so that the result does not depend on how the text is divided into
    // pieces. If several stop texts end at the same place, the longest wins.
    // The text before this piece contains no whole stop text.
    const std::size_t begin = before - std::min(before, stop.size() - 1);
    if (const std::size_t found = held_.find(stop, begin); found != std::string::npos) {
      const std::size_t stop_end = found + stop.size();
      if (stop_end < end || (stop_end == end && found < first)) {
        first = found;
        end = stop_end;
        match_ = static_cast<std::size_t>(&stop - stops_.data());
      }
    }
    keep = std::max(keep, overlap(held_, stop));
  }
  if (matched()) return std::exchange(held_, {}).substr(0, include_ ? end : first);
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::finish() { return matched() ? std::string() : std::exchange(held_, {}); }

}  // namespace tp
