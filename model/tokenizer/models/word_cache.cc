#include "model/tokenizer/models/word_cache.h"

#include <functional>

namespace tp {

std::size_t WordCache::slot_of(std::string_view word) {
  return std::hash<std::string_view>{}(word) % kSlotCount;
}

bool WordCache::append_tokens_of(std::string_view word, std::vector<TokenId>& out) const {
  if (word.size() > kMaxWordSize) return false;
  const std::size_t index = slot_of(word);
  const std::lock_guard lock(locks_[index % kLockCount]);
  const Slot& slot = slots_[index];
  if (slot.word != word) return false;
  out.insert(out.end(), slot.tokens.begin(), slot.tokens.end());
  return true;
}

void WordCache::remember(std::string_view word, const TokenId* tokens, std::size_t count) {
  if (word.size() > kMaxWordSize) return;
  const std::size_t index = slot_of(word);
  const std::lock_guard lock(locks_[index % kLockCount]);
  slots_[index].word.assign(word);
  slots_[index].tokens.assign(tokens, tokens + count);
}

}  // namespace tp
