#include "runtime/modes/unmasking_plan.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <limits>

namespace tp {
namespace {

constexpr double kUnmasked = -std::numeric_limits<double>::infinity();

// The share of `count` that belongs to this pass. The first passes get the remainder.
std::size_t even_share(std::size_t count, std::size_t passes, std::size_t pass) {
  return count / passes + (pass < count % passes ? 1 : 0);
}

// The time of a pass, among `passes` + 1 evenly spaced times from 1 to nearly 0. Computed in float32, like in
// Dream's code, because counts are rounded down.
float time_at(std::size_t pass, std::size_t passes) {
  constexpr float kBegin = 1.0F;
  constexpr float kEnd = 1e-3F;
  const float step = (kEnd - kBegin) / static_cast<float>(passes);
  if (pass < (passes + 1) / 2) return kBegin + step * static_cast<float>(pass);
  return kEnd - step * static_cast<float>(passes - pass);
}

std::size_t decaying_share(std::size_t masks, std::size_t passes, std::size_t pass) {
  if (pass + 1 >= passes) return masks;
  const float fraction = 1.0F - time_at(pass + 1, passes) / time_at(pass, passes);
  return static_cast<std::size_t>(static_cast<float>(masks) * fraction);
}

// Returns the `count` most confident positions, ascending. Prefers earlier positions if masked positions are
// equally confident. Among unmasked positions, keeps those that std::nth_element leaves in front: torch.topk
// does the same, and the families' results depend on it.
std::vector<std::size_t> most_confident(std::span<const double> confidences, std::size_t count) {
  count = std::min(count, confidences.size());
  if (count == 0) return {};
  std::vector<std::size_t> places(confidences.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  const auto comes_first = [&](std::size_t left, std::size_t right) {
    if (confidences[left] != confidences[right]) return confidences[left] > confidences[right];
    return confidences[left] != kUnmasked && left < right;
  };
  std::nth_element(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count - 1), places.end(),
                   comes_first);
  places.resize(count);
  std::ranges::sort(places);
  return places;
}

std::vector<std::size_t> first_masked(std::span<const double> confidences, std::size_t count) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < confidences.size() && places.size() < count; ++i) {
    if (confidences[i] != kUnmasked) places.push_back(i);
  }
  return places;
}

// Returns the `budget` most confident positions that reach the threshold, and at least the most confident
// position.
std::vector<std::size_t> above_threshold(const UnmaskingPlan& plan, std::span<const double> confidences,
                                         std::size_t budget) {
  std::vector<std::size_t> places = most_confident(confidences, budget);
  const std::vector<std::size_t> best = most_confident(confidences, 1);
  std::erase_if(places, [&](std::size_t place) {
    return place != best.front() && confidences[place] < plan.threshold;
  });
  return places;
}

// Number of positions that an even schedule would have unmasked by now, minus the unmasked positions.
std::size_t budget_of(const UnmaskingPlan& plan, const BlockProgress& block) {
  if (block.pass + 1 >= plan.passes) return block.masks;
  const std::size_t by_now = (block.pass + 1) * (block.masks_at_start / plan.passes);
  const std::size_t unmasked = block.masks_at_start - block.masks;
  return std::clamp<std::size_t>(by_now - std::min(by_now, unmasked), 1, block.masks);
}

std::vector<std::size_t> by_threshold(const UnmaskingPlan& plan, const BlockProgress& block,
                                      std::span<const double> confidences) {
  switch (plan.spec.above) {
    case DiffusionSpec::Above::all:
      return above_threshold(plan, confidences, block.masks);
    case DiffusionSpec::Above::within_schedule:
      return above_threshold(plan, confidences, budget_of(plan, block));
    case DiffusionSpec::Above::no_fewer_than_schedule:
      break;
  }
  std::vector<std::size_t> above;
  for (std::size_t i = 0; i < confidences.size(); ++i) {
    if (confidences[i] > plan.threshold) above.push_back(i);
  }
  const std::size_t min = std::max<std::size_t>(1, scheduled(plan, block));
  return above.size() >= min ? above : most_confident(confidences, min);
}

// Throws RequestError if canvases cannot do what the request asks.
void check_canvas(const DiffusionSpec& model, const Unmasking& asked) {
  require<RequestError>(!asked.rule && !asked.threshold,
                        "cannot unmask tokens with `{}`: this model has no masks, and accepts tokens by the "
                        "entropy_bound of its "
                        "generation_config.json; leave it out",
                        asked.rule ? "unmask" : "threshold");
  require<RequestError>(static_cast<std::size_t>(asked.block_length) <= model.block_length,
                        "cannot make canvases: `block_length` is {}, expected at most the model's {} "
                        "(canvas_length); lower it, or leave it out",
                        asked.block_length, model.block_length);
}

}  // namespace

UnmaskingPlan::UnmaskingPlan(const DiffusionSpec& model, const Unmasking& asked, std::size_t max_tokens,
                             const CanvasDefaults& defaults)
    : spec(model),
      rule(asked.rule.value_or(UnmaskRule::low_confidence)),
      threshold(static_cast<double>(asked.threshold.value_or(0.9F))),
      cache(asked.cache.value_or(UnmaskCache::exact)),
      canvas(defaults) {
  if (model.canvas) check_canvas(model, asked);
  const std::size_t usual = model.block_length != 0 ? model.block_length : max_tokens;
  block_length = asked.block_length != 0 ? static_cast<std::size_t>(asked.block_length) : usual;
  require<RequestError>(model.block_length != 0 || max_tokens % block_length == 0,
                        "cannot unmask tokens in blocks: `block_length` must divide `max_tokens` evenly, "
                        "found {} and {}; change "
                        "one of them",
                        block_length, max_tokens);
  const std::size_t blocks = (max_tokens + block_length - 1) / block_length;
  const auto steps = static_cast<std::size_t>(asked.steps);
  require<RequestError>(steps % blocks == 0,
                        "cannot unmask tokens: `steps` must be a multiple of the {} blocks ({} tokens in "
                        "blocks of {}), found {}; "
                        "give each block the same number of passes",
                        blocks, max_tokens, block_length, steps);
  constexpr std::size_t kMaxPasses = 64;  // passes per token; more passes unmask nothing sooner
  require<RequestError>(
      steps <= kMaxPasses * max_tokens,
      "cannot unmask tokens: `steps` is {}, expected at most {} for each of {} tokens; use fewer", steps,
      kMaxPasses, max_tokens);
  const std::size_t usual_passes = model.canvas ? defaults.max_denoising_steps : block_length;
  passes = steps == 0 ? usual_passes : steps / blocks;
}

ProposalSettings UnmaskingPlan::proposal() const {
  ProposalSettings settings{.filtered = spec.filtered_confidence, .mask_token = spec.mask_token};
  if (rule == UnmaskRule::margin) settings.measure = ProposalMeasure::margin;
  if (rule == UnmaskRule::entropy || spec.canvas) settings.measure = ProposalMeasure::entropy;
  return settings;
}

std::size_t scheduled(const UnmaskingPlan& plan, const BlockProgress& block) {
  if (block.pass >= plan.passes) return block.masks;
  switch (plan.spec.schedule) {
    case DiffusionSpec::Schedule::of_masks:
      return std::min(block.masks, even_share(block.masks_at_start, plan.passes, block.pass));
    case DiffusionSpec::Schedule::of_block:
      return even_share(block.length, plan.passes, block.pass);
    case DiffusionSpec::Schedule::decaying:
      return decaying_share(block.masks, plan.passes, block.pass);
  }
  return block.masks;
}

std::vector<std::size_t> positions_to_unmask(const UnmaskingPlan& plan, const BlockProgress& block,
                                             std::span<const double> confidences) {
  if (plan.rule == UnmaskRule::threshold) return by_threshold(plan, block, confidences);
  const std::size_t count = std::max<std::size_t>(1, scheduled(plan, block));
  return plan.rule == UnmaskRule::sequential ? first_masked(confidences, count)
                                             : most_confident(confidences, count);
}

}  // namespace tp
