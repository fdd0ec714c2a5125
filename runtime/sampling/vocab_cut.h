// Finds the last token that top-k or top-p keeps, in rows whose vocabulary is sharded over the ranks.
#pragma once

#include "runtime/sampling/candidates.h"
#include "runtime/sampling/nucleus.h"
#include "tp/communicator.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace tp {

// The tokens of one row that this rank owns, and the row's last token that counts.
struct VocabPart {
  std::span<const float> logits;  // [local_vocab]
  TokenId first_id = 0;
  NucleusScale scale;
  std::optional<Candidate> last{};  // less likely tokens do not count; empty: all tokens count

  Candidate token(std::size_t i) const { return {first_id + static_cast<TokenId>(i), logits[i]}; }
  bool counts(Candidate token) const { return !last || !more_likely(*last, token); }
};

// The part of a row to keep: this many of its most likely tokens, or the most likely tokens that reach this
// share of the total weight.
struct Cut {
  VocabPart* part = nullptr;
  std::size_t tokens = 0;  // 0: use `share`
  float share = 1.0F;
};

// Collective. Sets part->last of every cut. The result does not depend on the number of ranks: sums of masses
// are exact (see NucleusScale), and everything else is decided identically on every rank.
//
// Ranks exchange the masses of buckets, then the number of tokens in the bucket that contains the end, then
// these tokens. A bucket of more than kMaxBoundary tokens is divided again, by logit and finally by id. So at
// most kMaxBoundary tokens per row are exchanged.
void cut_vocabulary(Communicator& comm, std::span<const Cut> cuts);

inline constexpr std::size_t kMaxBoundary = 1024;  // tokens of one row

}  // namespace tp
