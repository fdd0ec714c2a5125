// Masks of allowed tokens, packed to send them from rank 0 to the other ranks.
#pragma once

#include "tp/token_mask.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// A mask with few tokens is a list of their ids; other masks are sent as bits. Equal masks, which are common
// within texts of different schemas, are sent once.
struct PackedMasks {
  static constexpr std::uint32_t kBits = 0xFFFFFFFF;
  static constexpr std::uint32_t kEqual = 0x80000000;

  // [masks]: number of listed tokens, kBits, or kEqual + index of an equal earlier mask.
  std::vector<std::uint32_t> kinds;
  std::vector<std::uint32_t> values;  // values of all masks, concatenated

  explicit PackedMasks(std::span<TokenMask* const> masks);
  // Allocates `values` for the masks that `kinds_of_masks` describes. The caller then receives `values`.
  PackedMasks(std::vector<std::uint32_t> kinds_of_masks, std::size_t words_per_mask);

  // The masks must have the right size.
  void unpack(std::span<TokenMask* const> masks) const;
};

}  // namespace tp
