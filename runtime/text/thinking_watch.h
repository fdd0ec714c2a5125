#pragma once

#include "tp/request.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

// Watches a continuation for thinking that becomes too long.
class ThinkingWatch {
 public:
  explicit ThinkingWatch(ThinkingLimit limit) : limit_(std::move(limit)), thinks_(limit_.has_begun) {}

  // The next token, and its text, which may be empty.
  void push(TokenId token, std::string_view text);

  // The token that has to come next.
  std::optional<TokenId> forced_next() const;

  // How many tokens, whatever they are, can come without one of them or the next one being forced.
  std::size_t free_tokens() const;

 private:
  bool is_over_limit() const { return tokens_ >= static_cast<std::size_t>(limit_.max_tokens); }
  void find_markers();

  ThinkingLimit limit_;
  bool thinks_;
  std::size_t tokens_ = 0;  // of thinking, without those that were forced
  std::size_t forced_ = 0;  // of limit_.end_ids
  std::string tail_{};      // the last text, in which a marker may have begun
};

}  // namespace tp
