#include "runtime/text/thinking_watch.h"

#include <algorithm>

namespace tp {

void ThinkingWatch::push(TokenId token, std::string_view text) {
  if (forced_next() == token) {
    ++forced_;
  } else {
    if (thinks_) ++tokens_;
    forced_ = 0;
  }
  tail_ += text;
  find_markers();
  if (forced_ < limit_.end_ids.size()) return;
  // Even if the forced tokens result in a different text, they are not forced again.
  thinks_ = false;
  forced_ = 0;
}

// Searches text instead of tokens, because a marker need not be a token of its own.
void ThinkingWatch::find_markers() {
  while (true) {
    const std::string& marker = thinks_ ? limit_.end : limit_.begin;
    const std::size_t place = marker.empty() ? std::string::npos : tail_.find(marker);
    if (place == std::string::npos) break;
    tail_.erase(0, place + marker.size());
    thinks_ = !thinks_;
  }
  const std::size_t longest = std::max(limit_.begin.size(), limit_.end.size());
  if (tail_.size() >= longest) tail_.erase(0, tail_.size() - longest + 1);
}

std::optional<TokenId> ThinkingWatch::forced_next() const {
  const bool is_ending = forced_ > 0;
  if (!is_ending && (!thinks_ || !is_over_limit())) return std::nullopt;
  return limit_.end_ids[forced_];
}

// If thinking has not begun, the next token may begin it, and is not counted itself.
std::size_t ThinkingWatch::free_tokens() const {
  if (is_over_limit()) return 0;
  const std::size_t left = static_cast<std::size_t>(limit_.max_tokens) - tokens_;
  return thinks_ ? left - 1 : left;
}

}  // namespace tp
