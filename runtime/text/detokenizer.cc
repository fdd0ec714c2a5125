#include "runtime/text/detokenizer.h"

namespace tp {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
                         SkipSpecial skip_special)
    : tokenizer_(&tokenizer), decoder_(tokenizer.decoder()), skip_special_(skip_special) {
  for (const TokenId id : prompt) push(id);
  std::string text_of_prompt;
  decoder_.settle(text_of_prompt);
}

std::string Detokenizer::push(TokenId id) {
  std::string text;
  tokenizer_->push(id, skip_special_, decoder_, text);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  decoder_.finish(text);
  return text;
}

}  // namespace tp
