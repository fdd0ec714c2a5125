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

  // Adds the next token and its text, which may be empty.
  void push(TokenId token, std::string_view text);

  // The token that must come next, if any.
  std::optional<TokenId> forced_next() const;

  // Number of further tokens, whatever they are, after which the next token is still not forced.
  std::size_t free_tokens() const;

 private:
  bool is_over_limit() const { return tokens_ >= static_cast<std::size_t>(limit_.max_tokens); }
  void find_markers();

  ThinkingLimit limit_;
  bool thinks_;
  std::size_t tokens_ = 0;  // tokens of thinking, without forced tokens
  std::size_t forced_ = 0;  // number of limit_.end_ids forced so far
  std::string tail_{};      // end of the text, which may contain the beginning of a marker
};

}  // namespace tp
