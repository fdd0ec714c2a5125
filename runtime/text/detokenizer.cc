#include "runtime/text/detokenizer.h"

#include <algorithm>
#include <utility>

namespace tp {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
                         SkipSpecial skip_special, std::vector<TokenId> visible)
    : tokenizer_(&tokenizer), decoder_(tokenizer.decoder()), skip_special_(skip_special) {
  for (const TokenId id : prompt) push(id);
  std::string text_of_prompt;
  decoder_.flush(text_of_prompt);
  visible_ = std::move(visible);
}

std::string Detokenizer::push(TokenId id) {
  std::string text;
  const bool is_visible = std::ranges::find(visible_, id) != visible_.end();
  tokenizer_->push(id, is_visible ? SkipSpecial::no : skip_special_, decoder_, text);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  decoder_.finish(text);
  return text;
}

}  // namespace tp
