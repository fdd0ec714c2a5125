#include "runtime/detokenizer.h"

namespace tp {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
                         SkipSpecial skip_special)
    : tokenizer_(&tokenizer), decoder_(tokenizer.decoder()), skip_special_(skip_special) {
  for (const TokenId id : prompt) push(id);
  std::string text_of_prompt;
  decoder_.settle(text_of_prompt);
}

std::string Detokenizer::push(TokenId id) {
  const std::string_view token = tokenizer_->id_to_token(id);
  std::string text;
  if (skip_special_ == SkipSpecial::no || !tokenizer_->is_special(id)) decoder_.push(token, text);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  decoder_.finish(text);
  return text;
}

}  // namespace tp
