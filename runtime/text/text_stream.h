#pragma once

#include "runtime/text/detokenizer.h"
#include "runtime/text/stop_matcher.h"
#include "runtime/text/thinking_watch.h"
#include "tp/request.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace tp {

// Streams the text of one continuation: detokenizes it, and searches it for stop texts and markers of
// thinking.
class TextStream {
 public:
  // `tokenizer` must outlive this object.
  TextStream(const Tokenizer& tokenizer, const Request& request)
      : detokenizer_(tokenizer, text_before(request), SkipSpecial::yes, request.visible_token_ids),
        stops_(request.stop, request.include_stop_str_in_output) {
    if (request.thinking) thinking_.emplace(*request.thinking);
  }

  // Returns the text completed by a token. `may_stop`: search for stop texts (not before min_tokens).
  std::string push(TokenId token, bool may_stop) {
    std::string text = detokenizer_.push(token);
    if (thinking_) thinking_->push(token, text);
    return may_stop ? stops_.push(text) : text;
  }
  // Returns the text held back, after the last token.
  std::string finish() { return stops_.push(detokenizer_.finish()) + stops_.finish(); }
  // Whether a stop text was found.
  bool stopped() const { return stops_.matched(); }
  // The token that must come next, if thinking has become too long.
  std::optional<TokenId> forced_next() const { return thinking_ ? thinking_->forced_next() : std::nullopt; }
  // Number of further tokens, whatever they are, after which the next token is still not forced.
  std::size_t tokens_until_forced() const {
    return thinking_ ? thinking_->free_tokens() : std::numeric_limits<std::size_t>::max();
  }
  // The stop text that was found. Requires a match.
  const std::string& stop() const { return stops_.match(); }

 private:
  // The text before the continuation. An encoder-decoder's output does not continue its input.
  static std::span<const TokenId> text_before(const Request& request) {
    return request.decoder_prompt.empty() ? request.prompt : request.decoder_prompt;
  }

  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::optional<ThinkingWatch> thinking_;
};

}  // namespace tp
