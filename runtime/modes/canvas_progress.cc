#include "runtime/modes/canvas_progress.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tp {
namespace {

// Accepts positions in the order of their entropies until the sum of the accepted entropies exceeds `bound`.
// Prefers earlier positions if entropies are equal.
std::vector<std::size_t> within_bound(std::span<const Proposal> proposals, double bound) {
  std::vector<std::size_t> positions(proposals.size());
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  std::ranges::stable_sort(positions, std::ranges::greater{},
                           [&](std::size_t position) { return proposals[position].confidence; });
  double before = 0.0;
  std::size_t count = 0;
  while (count < positions.size() && before <= bound) before -= proposals[positions[count++]].confidence;
  positions.resize(count);
  std::ranges::sort(positions);
  return positions;
}

double mean_entropy(std::span<const Proposal> proposals) {
  double sum = 0.0;
  for (const Proposal& proposal : proposals) sum -= proposal.confidence;
  return sum / static_cast<double>(proposals.size());
}

}  // namespace

float CanvasProgress::temperature() const {
  const auto remaining = static_cast<float>(passes_ - pass_) / static_cast<float>(passes_);
  return settings_.t_min + (settings_.t_max - settings_.t_min) * remaining;
}

std::vector<std::size_t> CanvasProgress::take(std::span<const Proposal> proposals) {
  std::vector<TokenId> best;
  for (const Proposal& proposal : proposals) best.push_back(proposal.best);
  unchanged_ = best == best_ ? unchanged_ + 1 : 0;
  best_ = std::move(best);
  const bool is_stable = unchanged_ >= settings_.stability_threshold;
  const bool is_sure = mean_entropy(proposals) < static_cast<double>(settings_.confidence_threshold);
  ended_ = is_last_pass() || (is_stable && is_sure);
  ++pass_;
  return within_bound(proposals, static_cast<double>(settings_.entropy_bound));
}

}  // namespace tp
