#include "runtime/candidates.h"

#include "runtime/exponential.h"
#include "runtime/max_logit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// NaN and +infinity are what overflow leaves behind; -infinity is a token that is ruled out.
bool all_usable(std::span<const float> logits) {
  std::uint32_t unusable = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) unusable += logits[i] < kInfinity ? 0U : 1U;
  return unusable == 0;
}

// Lanes of the sum are short, and their totals doubles, so that floats are good enough. There are many of
// them because g++ vectorises an inner loop only if it does not unroll it first.
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

std::vector<Candidate> all_entries(std::span<const float> logits, TokenId first_id) {
  std::vector<Candidate> entries(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    entries[i] = {first_id + static_cast<TokenId>(i), logits[i]};
  }
  return entries;
}

std::vector<Candidate> best_entries(std::span<const float> logits, TokenId first_id, std::size_t count) {
  BestCandidates best(count);
  for (std::size_t i = 0; i < logits.size(); ++i) best.add({first_id + static_cast<TokenId>(i), logits[i]});
  return best.take_sorted();
}

bool penalises(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
         params.frequency_penalty != 0.0F;
}

bool only_lowers(const SamplingParams& params) {
  return params.repetition_penalty >= 1.0F && params.presence_penalty >= 0.0F &&
         params.frequency_penalty >= 0.0F;
}

}  // namespace

ShardCandidates shard_candidates(std::span<const float> logits, TokenId first_id, std::size_t count) {
  ShardCandidates part;
  part.shard_size = logits.size();
  if (!all_usable(logits)) {
    part.sum_exp = std::numeric_limits<double>::quiet_NaN();
    return part;
  }
  part.max_logit = max_logit(logits);
  if (part.max_logit > -kInfinity) part.sum_exp = sum_exp_of(logits, part.max_logit);
  if (count >= logits.size()) {
    part.entries = all_entries(logits, first_id);
  } else if (count > 0) {
    part.entries = best_entries(logits, first_id, count);
  }
  return part;
}

Candidates merge_candidates(std::span<const ShardCandidates> parts) {
  Candidates all;
  std::size_t size = 0;
  float max = -kInfinity;
  for (const ShardCandidates& part : parts) {
    size += part.entries.size();
    max = std::max(max, part.max_logit);
  }
  all.entries.reserve(size);
  double sum = 0.0;
  for (const ShardCandidates& part : parts) {
    all.entries.insert(all.entries.end(), part.entries.begin(), part.entries.end());
    all.vocab_size += part.shard_size;
    // Without the condition a row of nothing but -infinity would give NaN, and an empty shard 0 * NaN.
    const bool ruled_out = part.sum_exp == 0.0;
    sum += ruled_out ? 0.0 : part.sum_exp * std::exp(static_cast<double>(part.max_logit) - max);
  }
  all.log_sum_exp = max + std::log(sum);
  return all;
}

// Why kept + P best tokens suffice when P tokens are penalised and penalties only lower logits: take a token
// t outside the best kept + P of the model's own order. That many tokens are before it, and at least `kept`
// of them are not penalised. Those keep their logits, that of t does not rise, and ids settle ties before as
// after; so they are still before t, and t is not among the `kept` best. The best kept + P of the whole row
// are among the kept + P best of the shards.
std::size_t candidates_needed(const SamplingParams& params, std::size_t distinct_penalised,
                              std::size_t vocab_size) {
  const std::size_t kept = params.greedy() ? 1 : static_cast<std::size_t>(std::max(params.top_k, 0));
  const std::size_t penalised = penalises(params) ? distinct_penalised : 0;
  const bool any_token_can_rise = penalised > 0 && !only_lowers(params);
  if (kept == 0 || any_token_can_rise) return vocab_size;
  const auto reported = static_cast<std::size_t>(std::max(params.logprobs, 0));
  return std::min(std::max(kept + penalised, reported), vocab_size);
}

std::size_t candidates_needed(const SamplingParams& params, const TokenHistory& history,
                              std::size_t vocab_size) {
  const bool prompt_counts = params.repetition_penalty != 1.0F;
  return candidates_needed(params, prompt_counts ? history.distinct_seen() : history.distinct_generated(),
                           vocab_size);
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
