#include "runtime/modes/beam_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tp {

BeamState::BeamState(const BeamSearch& search, std::vector<TokenId> ends, std::size_t max_tokens)
    : search_(search),
      ends_(std::move(ends)),
      max_tokens_(max_tokens),
      beams_(static_cast<std::size_t>(search.beams)),
      looked_at_(std::max<std::size_t>(2, 1 + ends_.size()) * beams_),
      running_(1) {}

double BeamState::score(double sum, std::size_t tokens) const {
  return sum / std::pow(static_cast<double>(tokens), static_cast<double>(search_.length_penalty));
}

std::vector<BeamState::Continuation> BeamState::best_continuations(
    std::span<const std::vector<TokenLogprob>> candidates) const {
  std::vector<Continuation> all;
  for (std::size_t beam = 0; beam < candidates.size(); ++beam) {
    for (const TokenLogprob& token : candidates[beam])
      all.push_back({beam, token, running_[beam].sum + static_cast<double>(token.logprob)});
  }
  std::ranges::stable_sort(all, std::greater<>(), &Continuation::sum);
  if (all.size() > looked_at_) all.resize(looked_at_);
  return all;
}

Beam BeamState::continued(const Continuation& continuation) const {
  Beam beam = running_[continuation.beam];
  beam.tokens.push_back(continuation.token.id);
  beam.logprobs.push_back(continuation.token.logprob);
  beam.sum = continuation.sum;
  return beam;
}

void BeamState::advance(std::span<const std::vector<TokenLogprob>> candidates) {
  const std::vector<Continuation> best = best_continuations(candidates);
  const bool is_longest = running_.front().tokens.size() + 1 == max_tokens_;
  std::vector<Beam> next;
  for (std::size_t place = 0; place < best.size(); ++place) {
    const bool ends = std::ranges::find(ends_, best[place].token.id) != ends_.end();
    if (!ends && !is_longest) {
      if (next.size() < beams_) next.push_back(continued(best[place]));
    } else if (place < beams_) {
      Beam beam = continued(best[place]);
      const double own = score(beam.sum, beam.tokens.size());
      finished_.push_back({.beam = std::move(beam), .score = own, .ended = ends});
    }
  }
  std::ranges::stable_sort(finished_, std::greater<>(), &FinishedBeam::score);
  if (finished_.size() > beams_) finished_.resize(beams_);
  running_ = std::move(next);
  if (!running_.empty() && !can_improve()) running_.clear();
}

// Whether an unfinished text may still become better than a finished text.
bool BeamState::can_improve() const {
  if (finished_.size() < beams_) return true;
  if (search_.stop == BeamSearch::Stop::early) return false;
  const bool at_any_length = search_.stop == BeamSearch::Stop::never && search_.length_penalty > 0.0F;
  const std::size_t tokens = at_any_length ? max_tokens_ : running_.front().tokens.size();
  return score(running_.front().sum, tokens) > finished_.back().score;
}

}  // namespace tp
