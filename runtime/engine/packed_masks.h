// Masks of allowed tokens on their way from rank 0 to the others.
#pragma once

#include "tp/token_mask.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// A mask of few tokens is a list of their ids, any other its bits.
struct PackedMasks {
  static constexpr std::uint32_t kBits = 0xFFFFFFFF;

  std::vector<std::uint32_t> tokens;  // of each mask that is a list, or kBits
  std::vector<std::uint32_t> values;  // of all masks, one after the other

  explicit PackedMasks(std::span<TokenMask* const> masks);
  // For the masks that `tokens` describes, of which the values have not come yet.
  PackedMasks(std::vector<std::uint32_t> tokens_of_masks, std::size_t words_per_mask);

  // The masks must have the right size.
  void unpack(std::span<TokenMask* const> masks) const;
};

}  // namespace tp
