// Tokens with their logits, and sums over a row of logits or a part of it.
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

// The order used by all selections: higher logits first, lower ids first among equal logits. It is a total
// order, so every selection has a unique result for any number of ranks.
inline bool more_likely(Candidate left, Candidate right) {
  return left.logit > right.logit || (left.logit == right.logit && left.id < right.id);
}

// Whether no logit is NaN or +infinity, which result from overflow. -infinity marks tokens that are ruled
// out.
bool all_usable(std::span<const float> logits);

// The `count` most likely of the tokens [first_id, first_id + logits.size()), or all if there are fewer; most
// likely first. The logits must be usable.
std::vector<Candidate> best_candidates(std::span<const float> logits, TokenId first_id, std::size_t count);

// The sums that normalize the probabilities of a row. Sums of its parts can be merged.
struct ExpSums {
  float max = -std::numeric_limits<float>::infinity();  // maximum logit
  double sum = 0.0;                                     // sum of exp(logit - max)
  double weighted = 0.0;                                // sum of exp(logit - max) * (logit - max)

  double log_sum_exp() const;
  double entropy() const;  // in nats
};

// The logits must be usable. `weighted` is computed only if `with_entropy`.
ExpSums exp_sums(std::span<const float> logits, bool with_entropy = false);
// Like exp_sums, but relative to the maximum logit of the whole row: merged sums have the same bits for any
// division of the row.
ExpSums exact_exp_sums(std::span<const float> logits, float row_max, bool with_entropy = false);
ExpSums merged(std::span<const ExpSums> parts);

// Collects the `count` most likely of any number of candidates in linear time and O(count) memory.
class BestCandidates {
 public:
  // count >= 1
  explicit BestCandidates(std::size_t count);

  // The logit must not be NaN.
  void add(Candidate candidate) {
    if (candidate.logit < threshold_) return;
    kept_.push_back(candidate);
    if (kept_.size() == limit_) drop_surplus();
  }

  // Returns the collected candidates in no particular order, and leaves this object empty.
  std::vector<Candidate> take();
  // Like take(), but sorted, most likely first.
  std::vector<Candidate> take_sorted();

 private:
  void drop_surplus();

  std::size_t count_;
  std::size_t limit_;  // size of kept_ at which the surplus is dropped, to keep the threshold high
  float threshold_ = -std::numeric_limits<float>::infinity();  // `count` kept candidates reach it
  std::vector<Candidate> kept_;
};

}  // namespace tp
