#pragma once

#include "model/tokenizer/text/utf8.h"
#include "model/tokenizer/tokenizer.h"
#include "tp/error.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace tp {

// Encodes a text and decodes any ids. Decoded texts are well-formed.
inline void use_tokenizer(const Tokenizer& tokenizer) {
  const std::vector<TokenId> ids =
      tokenizer.encode("Ab  ab's 123 \xC3\xA9\xE2\x96\x81\xF0\x9F\xA6\x99</s>\n\n\xFF.", AddSpecial::yes);
  if (!utf8::is_valid(tokenizer.decode(ids, SkipSpecial::no))) std::abort();
  TokenDecoder decoder = tokenizer.decoder();
  std::string text;
  for (std::size_t id = 0; id < std::min<std::size_t>(tokenizer.vocab_size(), 300); ++id) {
    try {
      tokenizer.push(static_cast<TokenId>(id), SkipSpecial::yes, decoder, text);
    } catch (const RequestError&) {
      // The token does not exist.
    }
  }
  decoder.flush(text);
  decoder.finish(text);
  if (!utf8::is_valid(text)) std::abort();
}

}  // namespace tp
