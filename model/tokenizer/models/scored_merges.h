#pragma once

#include "model/tokenizer/models/bpe.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A token of SentencePiece's BPE.
struct ScoredPiece {
  std::string_view text;
  float score;
  bool merges;  // may be the result and an operand of merges
};

// SentencePiece merges any two tokens whose concatenation is a token, the token with the greatest score
// first. Ids are indices into `tokens`.
std::vector<Bpe::Merge> scored_merges(const std::vector<ScoredPiece>& tokens);

// The BPE of a list of tokens in the order of their ids, the first of which is `first`. Merges run in the
// order of their results' ids.
Bpe bpe_of_ranks(const std::vector<std::string>& ranked, std::size_t first);

}  // namespace tp
