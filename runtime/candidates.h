// What rank 0 learns of the logits of one output row, whose vocabulary is spread over the ranks.
#pragma once

#include "runtime/token_history.h"
#include "tp/request.h"
#include "tp/token_id.h"

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace tp {

struct Candidate {
  TokenId id = 0;
  float logit = 0.0F;
};

// The order of all selections: the higher logit first, the lower id first among equals. It is total, so every
// selection has one right answer, at every number of ranks.
inline bool more_likely(Candidate left, Candidate right) {
  return left.logit > right.logit || (left.logit == right.logit && left.id < right.id);
}

// One rank's part of a row.
struct ShardCandidates {
  std::vector<Candidate> entries;  // its best ones, or its whole shard
  float max_logit = -std::numeric_limits<float>::infinity();
  double sum_exp = 0.0;  // of exp(logit - max_logit) over the whole shard; NaN if a logit is NaN or +infinity
  std::size_t shard_size = 0;  // tokens of the vocabulary that this rank owns
};

// The parts of all ranks put together.
struct Candidates {
  std::vector<Candidate> entries;  // in no particular order; fastest to sample from if entries[i].id == i
  double log_sum_exp = 0.0;        // of the model's logits over the whole vocabulary; NaN as above
  std::size_t vocab_size = 0;

  bool complete() const { return entries.size() == vocab_size; }
};

// The part of a rank that owns the tokens [first_id, first_id + logits.size()): its `count` best, most likely
// first, or all of them in the order of their ids if it has no more than that. A shard with logits that are
// not numbers has no entries, and its sum_exp says so.
ShardCandidates shard_candidates(std::span<const float> logits, TokenId first_id, std::size_t count);

// Puts the parts, given in the order of the ranks, together.
Candidates merge_candidates(std::span<const ShardCandidates> parts);

// How many of its best tokens every rank must contribute (all of them if it owns fewer), so that a choice
// from the merged candidates is the choice from the complete row. `distinct_penalised` is the number of
// different tokens that a penalty applies to. Never more than vocab_size, which means: complete rows.
std::size_t candidates_needed(const SamplingParams& params, std::size_t distinct_penalised,
                              std::size_t vocab_size);
// The same with the number of penalised tokens taken from the sequence's history.
std::size_t candidates_needed(const SamplingParams& params, const TokenHistory& history,
                              std::size_t vocab_size);

// Collects the `count` most likely of any number of candidates in linear time and O(count) memory.
class BestCandidates {
 public:
  // count >= 1
  explicit BestCandidates(std::size_t count);

  // The logit must be a number.
  void add(Candidate candidate) {
    if (candidate.logit < threshold_) return;
    kept_.push_back(candidate);
    if (kept_.size() == limit_) drop_surplus();
  }

  // What was collected, in no particular order; leaves this object empty.
  std::vector<Candidate> take();
  // The same, the most likely first.
  std::vector<Candidate> take_sorted();

 private:
  void drop_surplus();

  std::size_t count_;
  std::size_t limit_;  // surplus is dropped when so many are kept: often enough to keep the threshold high
  float threshold_ = -std::numeric_limits<float>::infinity();  // `count` of the kept ones reach it
  std::vector<Candidate> kept_;
};

}  // namespace tp
