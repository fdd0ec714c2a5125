#include "runtime/token_history.h"

namespace tp {

void TokenHistory::add_prompt(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) ++counts_[token].prompt;
}

void TokenHistory::add_generated(TokenId token) {
  if (counts_[token].generated++ == 0) ++distinct_generated_;
}

TokenHistory::Counts TokenHistory::counts(TokenId token) const {
  const auto found = counts_.find(token);
  return found == counts_.end() ? Counts{} : found->second;
}

}  // namespace tp
