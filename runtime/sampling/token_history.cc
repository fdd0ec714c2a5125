#include "runtime/sampling/token_history.h"

namespace tp {

void TokenHistory::append(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    Counts& counts = counts_[token];
    ++(tokens_.size() < prompt_tokens_ ? counts.prompt : counts.generated);
    tokens_.push_back(token);
  }
}

void TokenHistory::truncate(std::size_t size) {
  while (tokens_.size() > size) {
    const auto entry = counts_.find(tokens_.back());
    Counts& counts = entry->second;
    tokens_.pop_back();
    --(tokens_.size() < prompt_tokens_ ? counts.prompt : counts.generated);
    if (counts.prompt + counts.generated == 0) counts_.erase(entry);
  }
}

}  // namespace tp
