#pragma once

#include "model/tokenizer/steps/token_decoder.h"
#include "model/tokenizer/tokenizer.h"
#include "tp/token_id.h"

#include <span>
#include <string>
#include <vector>

namespace tp {

// Decodes tokens as they are generated.
//
// The concatenation of everything that push() and finish() return equals Tokenizer::decode() of the same ids,
// and each returned text is well-formed UTF-8 in whole characters. For a token that ends in the middle of a
// character, or whose text depends on the next token, push() returns less or nothing, and more for a later
// token.
class Detokenizer {
 public:
  // `prompt`: the ids before the generated ones, or the last of them (containing some text, as tokenizers may
  // treat the first word of a text differently). Their text is not returned, but the first generated token is
  // spaced as one that follows them, and a character that begins in the prompt is returned once it is
  // complete. Of the generated tokens, control tokens among `visible` are never skipped. The tokenizer must
  // outlive this object. Throws RequestError for an id outside the vocabulary.
  Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt, SkipSpecial skip_special,
              std::vector<TokenId> visible = {});

  // The text completed by this token. Throws RequestError for an id outside the vocabulary and is then
  // unchanged.
  std::string push(TokenId id);

  // The text held back so far. Call it once, after the last token.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  TokenDecoder decoder_;
  SkipSpecial skip_special_;
  std::vector<TokenId> visible_;
};

}  // namespace tp
