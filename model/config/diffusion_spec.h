// How a family of diffusion language models generates text.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>

namespace tp {

struct DiffusionSpec {
  // How many positions each pass over a block unmasks.
  enum class Schedule : std::uint8_t {
    of_masks,  // the block's masks, divided evenly among passes; the first passes get the remainder
    of_block,  // the block's length, masked or not, divided evenly among passes
    decaying,  // a share of the remaining masks: the fraction by which time falls, from 1 to nearly 0
  };
  // The positions that a threshold unmasks, always at least one. all: all positions above the threshold.
  // within_schedule: like all, but in total no more positions than an even schedule would have unmasked by
  // then. no_fewer_than_schedule: like all, or the most confident positions if the schedule unmasks more.
  enum class Above : std::uint8_t { all, within_schedule, no_fewer_than_schedule };

  TokenId mask_token = 0;  // -1: the model has none
  // Block length in tokens, unless a request sets a different length. Tokens attend to their own block and to
  // earlier blocks. 0: tokens attend to all tokens.
  std::size_t block_length = 0;
  // Blocks are canvases: they begin as random tokens after the text, and every pass proposes a token for each
  // of their positions. Tokens of the text attend to earlier tokens only. A finished canvas becomes text.
  bool canvas = false;
  bool shifted = false;              // logits predict the token at the next position
  bool filtered_confidence = false;  // confidences are computed after temperature, top-k and top-p
  Schedule schedule = Schedule::of_masks;
  Above above = Above::all;
};

}  // namespace tp
