// The tokens of a row with their logits, and what can be said of a part of them.
#pragma once

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

// Whether no logit is NaN or +infinity, which are what overflow leaves behind; -infinity is a token that is
// ruled out.
bool all_usable(std::span<const float> logits);

// The `count` most likely of the tokens [first_id, first_id + logits.size()), or all if there are fewer, the
// most likely first. The logits must be usable.
std::vector<Candidate> best_candidates(std::span<const float> logits, TokenId first_id, std::size_t count);

// What the probabilities of a row's tokens, or of a part of them, depend on.
struct ExpSums {
  float max = -std::numeric_limits<float>::infinity();  // the greatest logit
  double sum = 0.0;                                     // of exp(logit - max)
  double weighted = 0.0;                                // of exp(logit - max) * (logit - max)

  // Of all tokens together.
  double log_sum_exp() const;
  double entropy() const;  // in nats
};

// Of usable logits; `weighted` only if the entropy is wanted.
ExpSums exp_sums(std::span<const float> logits, bool with_entropy = false);
ExpSums merged(std::span<const ExpSums> parts);

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
