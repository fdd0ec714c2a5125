#include "runtime/sampling/candidates.h"

#include "runtime/sampling/exponential.h"
#include "runtime/sampling/max_logit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Floats are precise enough, because each lane adds few values and the totals are doubles. The number of
// lanes is large because g++ vectorizes an inner loop only if it does not unroll the loop first.
double sum_exp_of(std::span<const float> logits, float max) {
  constexpr std::size_t kLanes = 64;
  constexpr std::size_t kPiece = kLanes * 16;
  double total = 0.0;
  std::size_t begin = 0;
  for (; begin + kPiece <= logits.size(); begin += kPiece) {
    std::array<float, kLanes> sums{};
    for (std::size_t i = begin; i < begin + kPiece; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += exp_nonpositive(logits[i + lane] - max);
    }
    for (const float sum : sums) total += sum;
  }
  for (; begin < logits.size(); ++begin) total += exp_nonpositive(logits[begin] - max);
  return total;
}

double weighted_sum_of(std::span<const float> logits, float max) {
  double total = 0.0;
  for (const float logit : logits) {
    const float distance = logit - max;
    const float weight = exp_nonpositive(distance);
    if (weight > 0.0F) total += static_cast<double>(weight) * distance;
  }
  return total;
}

// Adds up term_of(0) ... term_of(count - 1), rounded to multiples of 2^-34. Such sums are exact below 2^19
// and thus do not depend on the order. They stay below, because no term exceeds 1 and no vocabulary has 2^19
// tokens.
template <class TermOf>
double exact_sum(std::size_t count, TermOf term_of) {
  constexpr double kGrid = 1.5 * 262144.0;
  constexpr std::size_t kLanes = 32;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += (term_of(i + lane) + kGrid) - kGrid;
  }
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  for (; i < count; ++i) sum += (term_of(i) + kGrid) - kGrid;
  return sum;
}

}  // namespace

bool all_usable(std::span<const float> logits) {
  std::uint32_t unusable = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) unusable += logits[i] < kInfinity ? 0U : 1U;
  return unusable == 0;
}

std::vector<Candidate> best_candidates(std::span<const float> logits, TokenId first_id, std::size_t count) {
  if (count == 0) return {};
  BestCandidates best(std::min(count, std::max<std::size_t>(logits.size(), 1)));
  for (std::size_t i = 0; i < logits.size(); ++i) best.add({first_id + static_cast<TokenId>(i), logits[i]});
  return best.take_sorted();
}

double ExpSums::log_sum_exp() const { return max + std::log(sum); }

// -sum p log p, where log p = (logit - max) - log(sum).
double ExpSums::entropy() const { return std::log(sum) - weighted / sum; }

ExpSums exp_sums(std::span<const float> logits, bool with_entropy) {
  ExpSums sums;
  sums.max = max_logit(logits);
  if (sums.max == -kInfinity) return sums;
  sums.sum = sum_exp_of(logits, sums.max);
  if (with_entropy) sums.weighted = weighted_sum_of(logits, sums.max);
  return sums;
}

ExpSums exact_exp_sums(std::span<const float> logits, float row_max, bool with_entropy) {
  ExpSums sums;
  sums.max = row_max;
  if (sums.max == -kInfinity) return sums;
  const auto weight = [&](std::size_t i) {
    return static_cast<double>(exp_nonpositive(logits[i] - row_max));
  };
  sums.sum = exact_sum(logits.size(), weight);
  if (!with_entropy) return sums;
  sums.weighted = exact_sum(logits.size(), [&](std::size_t i) {
    const double term = weight(i);
    return term > 0.0 ? term * static_cast<double>(logits[i] - row_max) : 0.0;
  });
  return sums;
}

ExpSums merged(std::span<const ExpSums> parts) {
  ExpSums all;
  for (const ExpSums& part : parts) all.max = std::max(all.max, part.max);
  for (const ExpSums& part : parts) {
    // No token of this part is possible, and the difference of two infinities would be NaN.
    if (part.max == -kInfinity) continue;
    const double distance = static_cast<double>(part.max) - all.max;
    const double scale = std::exp(distance);
    all.sum += part.sum * scale;
    all.weighted += (part.weighted + part.sum * distance) * scale;
  }
  return all;
}

BestCandidates::BestCandidates(std::size_t count) : count_(count), limit_(2 * count + 64) {}

void BestCandidates::drop_surplus() {
  if (kept_.size() <= count_) return;
  const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(count_ - 1);
  std::nth_element(kept_.begin(), last, kept_.end(), more_likely);
  threshold_ = last->logit;
  kept_.resize(count_);
}

std::vector<Candidate> BestCandidates::take() {
  drop_surplus();
  threshold_ = -std::numeric_limits<float>::infinity();
  return std::exchange(kept_, {});
}

std::vector<Candidate> BestCandidates::take_sorted() {
  std::vector<Candidate> best = take();
  std::sort(best.begin(), best.end(), more_likely);
  return best;
}

}  // namespace tp
