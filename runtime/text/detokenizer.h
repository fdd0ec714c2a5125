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
// The concatenation of everything that push() and finish() return equals Tokenizer::decode() of the ids, and
// each returned text is well-formed UTF-8 in whole characters. If a token ends in the middle of a character,
// or its text depends on the next token, push() returns less or nothing, and the rest with a later token.
class Detokenizer {
 public:
  // `prompt`: the ids before the generated tokens, or only the last of them (containing some text, because
  // tokenizers may treat the first word of a text differently). The text of the prompt is not returned, but
  // determines how the first generated token is spaced. A character that begins in the prompt is returned
  // once it is complete. Generated control tokens among `visible` are never skipped. The tokenizer must
  // outlive this object. Throws RequestError for an id outside the vocabulary.
  Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt, SkipSpecial skip_special,
              std::vector<TokenId> visible = {});

  // Returns the text completed by this token. Throws RequestError for an id outside the vocabulary, and then
  // changes nothing.
  std::string push(TokenId id);

  // Returns the text held back so far. Call it once, after the last token.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  TokenDecoder decoder_;
  SkipSpecial skip_special_;
  std::vector<TokenId> visible_;
};

}  // namespace tp
