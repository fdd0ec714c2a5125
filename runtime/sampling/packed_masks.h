// Masks of allowed tokens on their way from rank 0 to the others.
#pragma once

#include "tp/token_mask.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// A mask of few tokens is a list of their ids, any other its bits. Masks that are equal, as those within
// texts of different schemas are, travel once.
struct PackedMasks {
  static constexpr std::uint32_t kBits = 0xFFFFFFFF;
  static constexpr std::uint32_t kEqual = 0x80000000;

  // Of each mask: how many tokens are listed, kBits, or kEqual + the index of a mask before it.
  std::vector<std::uint32_t> kinds;
  std::vector<std::uint32_t> values;  // of all masks, one after the other

  explicit PackedMasks(std::span<TokenMask* const> masks);
  // For the masks that `kinds` describes, of which the values have not come yet.
  PackedMasks(std::vector<std::uint32_t> kinds_of_masks, std::size_t words_per_mask);

  // The masks must have the right size.
  void unpack(std::span<TokenMask* const> masks) const;
};

}  // namespace tp
