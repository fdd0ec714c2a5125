#pragma once

#include "model/tokenizer/token_decoder.h"
#include "model/tokenizer/tokenizer.h"
#include "tp/token_id.h"

#include <span>
#include <string>

namespace tp {

// Decodes tokens as they are generated.
//
// All that push() and finish() return, put together, is what Tokenizer::decode() returns for the same ids,
// and every single text is well-formed UTF-8 in whole characters. A token that leaves a character unfinished,
// or whose text depends on what follows, returns less or nothing, and a later one more.
class Detokenizer {
 public:
  // `prompt`: the ids that come before the generated ones, or the last of them (with some text in them, for
  // tokenizers that treat the first word of a text in another way). Their text is not returned, but the first
  // generated token is spaced as one that follows them. A character that the prompt leaves unfinished is
  // returned when it is complete. The tokenizer must outlive this. Throws RequestError for an id that is not
  // in the vocabulary.
  Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt, SkipSpecial skip_special);

  // The text that this token makes certain. Throws RequestError for an id that is not in the vocabulary; the
  // detokenizer is unchanged then.
  std::string push(TokenId id);

  // The text that was kept back. To be called once, after the last token.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  TokenDecoder decoder_;
  SkipSpecial skip_special_;
};

}  // namespace tp
