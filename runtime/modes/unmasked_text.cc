#include "runtime/modes/unmasked_text.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tp {

UnmaskedText::UnmaskedText(const UnmaskingPlan& plan, std::vector<TokenId> prompt, std::size_t generated,
                           std::size_t max_length, RandomTokens random)
    : plan_(plan), prompt_(prompt.size()), tokens_(std::move(prompt)), random_(std::move(random)) {
  const std::size_t block = plan_.block_length;
  const bool aligned = plan_.spec.block_length != 0 && !plan_.spec.canvas;
  const std::size_t before = aligned ? 0 : prompt_;  // blocks are counted from here
  const std::size_t length = prompt_ + generated - before;
  const std::size_t whole = before + (length + block - 1) / block * block;
  tokens_.resize(plan_.spec.block_length != 0 ? std::min(max_length, whole) : prompt_ + generated,
                 plan_.spec.mask_token);
  masked_.assign(tokens_.size(), true);
  std::fill_n(masked_.begin(), prompt_, false);
  begin_block(aligned ? prompt_ / block * block : prompt_);
}

void UnmaskedText::begin_block(std::size_t begin) {
  block_ = {begin, std::min(begin + plan_.block_length, tokens_.size())};
  const auto first = masked_.begin() + static_cast<std::ptrdiff_t>(block_.begin);
  const auto last = masked_.begin() + static_cast<std::ptrdiff_t>(block_.end);
  const auto masks = static_cast<std::size_t>(std::count(first, last, true));
  in_block_ = false;
  progress_ = {.length = block_.end - block_.begin, .masks_at_start = masks, .masks = masks};
  if (plan_.spec.canvas && !done()) {
    canvas_ = CanvasProgress(plan_.canvas, plan_.passes);
    draw_canvas({});
  }
  skip_idle_passes();
}

void UnmaskedText::draw_canvas(std::span<const std::size_t> kept) {
  for (std::size_t position = block_.begin; position < block_.end; ++position) {
    if (!std::ranges::binary_search(kept, position))
      tokens_[position] = random_(draws_, position - block_.begin);
  }
  ++draws_;
}

// Skips passes for which the schedule unmasks nothing, because they would compute the same as the next pass.
void UnmaskedText::skip_idle_passes() {
  if (plan_.rule == UnmaskRule::threshold || plan_.spec.canvas) return;
  while (progress_.masks > 0 && scheduled(plan_, progress_) == 0) ++progress_.pass;
}

std::span<const TokenId> UnmaskedText::pass_tokens() const {
  const bool ends_with_block =
      plan_.spec.block_length != 0 || (uses_cache() && plan_.cache == UnmaskCache::dual);
  return std::span(tokens_).first(ends_with_block ? block_.end : tokens_.size());
}

// If a position's proposal is in the row of the previous token, the token before the block is computed, too.
std::size_t UnmaskedText::pass_begin() const {
  if (!uses_cache()) return 0;
  return block_.begin - (plan_.spec.shifted ? 1 : 0);
}

// The masked positions of the block, or all of its positions if it is a canvas or if the schedule unmasks
// more than are masked.
std::vector<std::size_t> UnmaskedText::proposed_positions() const {
  const bool all = plan_.spec.canvas ||
                   (scheduled(plan_, progress_) > progress_.masks && plan_.rule != UnmaskRule::sequential);
  std::vector<std::size_t> positions;
  for (std::size_t position = block_.begin; position < block_.end; ++position) {
    if (all || masked_[position]) positions.push_back(position);
  }
  return positions;
}

std::vector<std::size_t> UnmaskedText::pass_rows() const {
  std::vector<std::size_t> rows = proposed_positions();
  if (plan_.spec.shifted) std::ranges::for_each(rows, [](std::size_t& row) { --row; });
  return rows;
}

std::vector<UnmaskedToken> UnmaskedText::unmask_canvas(std::span<const Proposal> proposals) {
  std::vector<UnmaskedToken> accepted;
  std::vector<std::size_t> kept;
  const bool draws = !canvas_.is_last_pass();
  for (const std::size_t place : canvas_.take(proposals)) {
    const std::size_t position = block_.begin + place;
    accepted.push_back({position, proposals[place].id});
    kept.push_back(position);
    tokens_[position] = proposals[place].id;
  }
  if (draws) draw_canvas(kept);
  ++passes_;
  in_block_ = true;
  if (!canvas_.ended()) return accepted;
  std::ranges::copy(canvas_.best(), tokens_.begin() + static_cast<std::ptrdiff_t>(block_.begin));
  begin_block(block_.end);
  return accepted;
}

std::vector<UnmaskedToken> UnmaskedText::unmask(std::span<const Proposal> proposals) {
  if (plan_.spec.canvas) return unmask_canvas(proposals);
  const std::vector<std::size_t> positions = proposed_positions();
  std::vector<double> confidences(progress_.length, -std::numeric_limits<double>::infinity());
  std::vector<TokenId> proposed(progress_.length);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::size_t place = positions[i] - block_.begin;
    proposed[place] = proposals[i].id;
    if (masked_[positions[i]]) confidences[place] = proposals[i].confidence;
  }
  std::vector<UnmaskedToken> unmasked;
  for (const std::size_t place : positions_to_unmask(plan_, progress_, confidences)) {
    const std::size_t position = block_.begin + place;
    unmasked.push_back({position, proposed[place]});
    tokens_[position] = proposed[place];
    if (masked_[position]) --progress_.masks;
    masked_[position] = false;
  }
  ++passes_;
  ++progress_.pass;
  in_block_ = true;
  if (progress_.masks == 0)
    begin_block(block_.end);
  else
    skip_idle_passes();
  return unmasked;
}

std::size_t UnmaskedText::unmasked_end() const {
  // If blocks are a part of the model, a block may change until it is finished: see
  // DiffusionSpec::Schedule::of_block.
  if (plan_.spec.block_length != 0) return std::max(prompt_, block_.begin);
  const auto first = std::ranges::find(masked_, true);
  return static_cast<std::size_t>(first - masked_.begin());
}

}  // namespace tp
