// Finds where the most likely tokens of rows end, whose vocabulary is spread over the ranks.
#pragma once

#include "runtime/engine/candidates.h"
#include "runtime/engine/nucleus.h"
#include "tp/communicator.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace tp {

// The tokens of one row that this rank owns, and where those that count end.
struct VocabPart {
  std::span<const float> logits;  // [local_vocab]
  TokenId first_id = 0;
  NucleusScale scale;
  std::optional<Candidate> last{};  // less likely tokens do not count; none: all do

  Candidate token(std::size_t i) const { return {first_id + static_cast<TokenId>(i), logits[i]}; }
  bool counts(Candidate token) const { return !last || !more_likely(*last, token); }
};

// Wanted of a row: so many of its most likely tokens, or as many as have that share of all weights.
struct Cut {
  VocabPart* part = nullptr;
  std::size_t tokens = 0;  // 0: by share
  float share = 1.0F;
};

// Collective. Sets part->last of every cut. The result is the same at every number of ranks: sums of masses
// are exact (see NucleusScale), and everything else is decided alike on every rank.
//
// Ranks exchange the masses of buckets, then the number of tokens in the bucket where the end lies, then
// these tokens. If they are more than kMaxBoundary, that bucket is divided again, by logit and at last by id.
// No more than that ever travels.
void cut_vocabulary(Communicator& comm, std::span<const Cut> cuts);

inline constexpr std::size_t kMaxBoundary = 1024;  // tokens of one row

}  // namespace tp
