// How a family of diffusion language models is sampled.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>

namespace tp {

struct DiffusionSpec {
  // How many positions the passes of a block settle.
  enum class Schedule : std::uint8_t {
    of_masks,  // its masks, divided evenly among the passes, the first ones taking what is left
    of_block,  // the same of its length, masked or not
    decaying,  // of the masks that are left the fraction by which a time from 1 to nearly 0 falls
  };
  // What a threshold settles: all above it, and at least one; those above it among as many as an even
  // schedule would have settled by then, and at least one; or all above it if these are as many as the
  // schedule says, else so many of the most probable.
  enum class Above : std::uint8_t { all, within_schedule, no_fewer_than_schedule };

  TokenId mask_token = 0;
  // Tokens see those of their own block and of the blocks before it, which are so long unless a request says
  // else; 0: all tokens see all.
  std::size_t block_length = 0;
  bool shifted = false;              // logits are for the position behind
  bool filtered_confidence = false;  // confidences are of what temperature, top-k and top-p leave
  Schedule schedule = Schedule::of_masks;
  Above above = Above::all;
};

}  // namespace tp
