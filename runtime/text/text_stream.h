#pragma once

#include "runtime/text/detokenizer.h"
#include "runtime/text/stop_matcher.h"
#include "tp/request.h"

#include <span>
#include <string>

namespace tp {

// The streamed text of one continuation: detokenized, and searched for stop texts.
class TextStream {
 public:
  // `tokenizer` must outlive it.
  TextStream(const Tokenizer& tokenizer, const Request& request)
      : detokenizer_(tokenizer, request.prompt, SkipSpecial::yes),
        stops_(request.stop, request.include_stop_str_in_output) {}

  // The text completed by a token. Stop texts are ignored before min_tokens.
  std::string push(TokenId token, bool may_stop) {
    std::string text = detokenizer_.push(token);
    return may_stop ? stops_.push(text) : text;
  }
  // The text held back, after the last token.
  std::string finish() { return stops_.push(detokenizer_.finish()) + stops_.finish(); }
  // Whether a stop text was found.
  bool stopped() const { return stops_.matched(); }
  // The stop text found. Requires that there is one.
  const std::string& stop() const { return stops_.match(); }

 private:
  Detokenizer detokenizer_;
  StopMatcher stops_;
};

}  // namespace tp
