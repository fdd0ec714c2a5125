#pragma once

#include "model/tokenizer/models/bpe.h"

#include <string_view>
#include <vector>

namespace tp {

// A token of SentencePiece's BPE.
struct ScoredPiece {
  std::string_view text;
  float score;
  bool merges;  // may be made of two others, and be one of the two
};

// SentencePiece merges whatever two tokens make a third, that with the greatest score first. Ids are places
// in `tokens`.
std::vector<Bpe::Merge> scored_merges(const std::vector<ScoredPiece>& tokens);

}  // namespace tp
