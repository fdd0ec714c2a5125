// The keys that a sequence's tokens see, and the splits of its cache that contain these keys; for
// attention.cc.
#pragma once

#include "model/kernels/attention_pattern.h"
#include "model/kernels/attention_scratch.h"
#include "model/kernels/paged_cache.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace tp::kernels {

// Places [begin, end) of a sequence's cache.
struct Places {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// The splits of a sequence that some of its tokens see: a run of splits, and single splits before and after
// it. Splits in between are never touched, so that windows with far keys cost only the keys that they show.
class SeenSplits {
 public:
  SeenSplits(Places near, std::span<const std::size_t> far) : near_(near) {
    const auto first = std::ranges::lower_bound(far, near.begin);
    const auto last = std::ranges::lower_bound(far, std::max(near.begin, near.end));
    before_ = {far.begin(), first};
    after_ = {last, far.end()};
  }

  std::size_t size() const { return before_.size() + (near_.end - near_.begin) + after_.size(); }
  std::size_t operator[](std::size_t index) const {
    if (index < before_.size()) return before_[index];
    index -= before_.size();
    const std::size_t near = near_.end - near_.begin;
    return index < near ? near_.begin + index : after_[index - near];
  }

 private:
  Places near_;
  std::span<const std::size_t> before_;
  std::span<const std::size_t> after_;
};

// The mask of one span: what its tokens see.
class AttentionMask {
 public:
  AttentionMask(const AttentionPattern& pattern, const AttentionSpan& span, const KvLayout& layout)
      : pattern_(pattern),
        keys_(span.keys()),
        is_causal_(pattern.causal && !span.bidirectional),
        causal_block_(span.causal_block),
        canvas_(span.canvas),
        residues_{keys_, pattern.dilation} {
    if (span.key_bias == nullptr) return;
    has_key_bias_.assign((keys_ + layout.block_size - 1) / layout.block_size, 0);
    for (std::size_t key = 0; key < keys_; ++key) {
      if (span.key_bias[key] == -INFINITY) continue;
      const std::size_t block = key / layout.block_size;
      const std::size_t split = block / blocks_per_split(layout);
      has_key_bias_[block] = 1;
      if (far_splits_.empty() || far_splits_.back() != split) far_splits_.push_back(split);
    }
  }

  // The places that the pattern shows to the token at `place`, apart from far keys.
  Places visible(std::size_t place) const { return {visible_begin(place), visible_end(place)}; }
  // Whether the token sees everything although other tokens attend by blocks.
  bool sees_all(std::size_t place) const {
    return pattern_.block_size != 0 && pattern_.is_in_outer_block(place, keys_);
  }

  // The splits with keys that tokens see in addition to their patterns, ascending.
  std::span<const std::size_t> far_splits() const { return far_splits_; }
  bool is_far(std::size_t split) const { return std::ranges::binary_search(far_splits_, split); }
  // [blocks of the sequence] whether they contain such keys; null if none does.
  const unsigned char* has_key_bias() const { return has_key_bias_.empty() ? nullptr : has_key_bias_.data(); }

 private:
  // Whether the token attends by blocks: to its own block and its neighbours.
  bool sees_near_blocks(std::size_t place) const {
    return pattern_.is_by_blocks(keys_) && !pattern_.is_in_outer_block(place, keys_);
  }

  std::size_t visible_begin(std::size_t place) const {
    if (sees_near_blocks(place)) return (place / pattern_.block_size - 1) * pattern_.block_size;
    place = std::min(place, canvas_);
    std::size_t begin = place + 1 - std::min(pattern_.reach().value_or(place + 1), place + 1);
    if (pattern_.chunk) {
      const std::size_t chunk = place / *pattern_.chunk;
      begin = std::max(begin, (chunk - std::min(chunk, pattern_.chunks_before)) * *pattern_.chunk);
    }
    if (pattern_.dilation == 1) return begin;
    return std::max(begin, residues_.begin(residues_.residue_at(place)));
  }

  std::size_t visible_end(std::size_t place) const {
    if (place >= canvas_) return keys_;
    if (is_causal_) return std::min(keys_, (place / causal_block_ + 1) * causal_block_);
    std::size_t end = keys_;
    if (sees_near_blocks(place))
      return std::min(end, (place / pattern_.block_size + 2) * pattern_.block_size);
    if (pattern_.chunk) end = std::min(end, (place / *pattern_.chunk + 1) * *pattern_.chunk);
    if (pattern_.dilation != 1) end = std::min(end, residues_.begin(residues_.residue_at(place) + 1));
    return pattern_.window ? std::min(end, place + *pattern_.window) : end;
  }

  const AttentionPattern& pattern_;
  std::size_t keys_;
  bool is_causal_;
  std::size_t causal_block_;
  std::size_t canvas_;
  Residues residues_;
  std::vector<unsigned char> has_key_bias_;
  std::vector<std::size_t> far_splits_;
};

}  // namespace tp::kernels
