#pragma once

#include "runtime/text/detokenizer.h"
#include "runtime/text/stop_matcher.h"
#include "tp/request.h"

#include <span>
#include <string>

namespace tp {

// The text of one continuation on its way out.
class TextStream {
 public:
  // `tokenizer` must outlive it.
  TextStream(const Tokenizer& tokenizer, const Request& request)
      : detokenizer_(tokenizer, request.prompt, SkipSpecial::yes),
        stops_(request.stop, request.include_stop_str_in_output) {}

  // The text that a token makes certain. What comes before min_tokens is not searched for stop texts.
  std::string push(TokenId token, bool may_stop) {
    std::string text = detokenizer_.push(token);
    return may_stop ? stops_.push(text) : text;
  }
  // What was held back, after the last token.
  std::string finish() { return stops_.push(detokenizer_.finish()) + stops_.finish(); }
  // Whether a stop text has ended it.
  bool stopped() const { return stops_.matched(); }
  // Which one; there must be one.
  const std::string& stop() const { return stops_.match(); }

 private:
  Detokenizer detokenizer_;
  StopMatcher stops_;
};

}  // namespace tp
