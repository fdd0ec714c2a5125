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

// The streamed text of one continuation: detokenized, and searched for stop texts and markers of thinking.
class TextStream {
 public:
  // `tokenizer` must outlive it.
  TextStream(const Tokenizer& tokenizer, const Request& request)
      : detokenizer_(tokenizer, text_before(request), SkipSpecial::yes, request.visible_token_ids),
        stops_(request.stop, request.include_stop_str_in_output) {
    if (request.thinking) thinking_.emplace(*request.thinking);
  }

  // The text completed by a token. Stop texts are ignored before min_tokens.
  std::string push(TokenId token, bool may_stop) {
    std::string text = detokenizer_.push(token);
    if (thinking_) thinking_->push(token, text);
    return may_stop ? stops_.push(text) : text;
  }
  // The text held back, after the last token.
  std::string finish() { return stops_.push(detokenizer_.finish()) + stops_.finish(); }
  // Whether a stop text was found.
  bool stopped() const { return stops_.matched(); }
  // The token that has to come next, if thinking has become too long.
  std::optional<TokenId> forced_next() const { return thinking_ ? thinking_->forced_next() : std::nullopt; }
  // How many tokens can come without one of them or the next one being forced.
  std::size_t tokens_until_forced() const {
    return thinking_ ? thinking_->free_tokens() : std::numeric_limits<std::size_t>::max();
  }
  // The stop text found. Requires that there is one.
  const std::string& stop() const { return stops_.match(); }

 private:
  // What the continuation continues: an encoder-decoder's text is not one of its input.
  static std::span<const TokenId> text_before(const Request& request) {
    return request.decoder_prompt.empty() ? request.prompt : request.decoder_prompt;
  }

  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::optional<ThinkingWatch> thinking_;
};

}  // namespace tp
