#include "runtime/cache/block_scores.h"

#include <utility>

namespace tp {

void TokenScores::append(std::span<const double> more, std::span<const std::vector<TokenLogprob>> more_top) {
  logprobs.insert(logprobs.end(), more.begin(), more.end());
  top.insert(top.end(), more_top.begin(), more_top.end());
}

void TokenScores::drop(std::size_t tokens) {
  logprobs.erase(logprobs.begin(), logprobs.begin() + static_cast<std::ptrdiff_t>(tokens));
  if (!top.empty()) top.erase(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(tokens));
}

const TokenScores* BlockScores::find(ContentId contents, std::size_t min_top) const {
  const auto found = blocks_.find(contents);
  return found == blocks_.end() || found->second.top < min_top ? nullptr : &found->second.scores;
}

void BlockScores::keep(ContentId contents, TokenScores scores, std::size_t top) {
  Block& block = blocks_[contents];
  if (block.scores.logprobs.empty() || block.top < top) block = {std::move(scores), top};
}

}  // namespace tp
