#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

namespace tp::kernels {

// The tokens of a sequence that a token sees.
struct AttentionPattern {
  // A token sees only itself and earlier tokens; if false, or in a bidirectional span, later tokens, too.
  bool causal = true;
  // A token sees only tokens less than `window` away.
  std::optional<std::size_t> window{};
  // The sequence is cut into chunks of `chunk` tokens. A token sees only its own chunk and `chunks_before`
  // chunks before it.
  std::optional<std::size_t> chunk{};
  std::size_t chunks_before = 0;
  // A window contains only every `dilation`-th token, counted from the token itself, and is `dilation` times
  // wider. The cache stores the tokens of a window side by side (see Residues), and a span contains the whole
  // sequence. Source: Beltagy et al., Longformer, 2020.
  std::size_t dilation = 1;
  // The sequence is cut into blocks of `block_size` tokens. Tokens of the first and last block see the whole
  // sequence. Other tokens see their own block, the neighbouring blocks, the last block and the first block.
  // The first block counts `block_repeats` + 1 times.
  std::size_t block_size = 0;  // 0: none
  std::size_t block_repeats = 0;

  bool operator==(const AttentionPattern&) const = default;

  // Whether a sequence of this many tokens attends by blocks. In shorter sequences, every token sees the
  // whole sequence. Source: Zaheer et al., Big Bird, 2020, and its code.
  bool is_by_blocks(std::size_t tokens) const {
    return block_size != 0 && tokens > (5 + 2 * block_repeats) * block_size;
  }
  // Whether a token is in the first or last block, and therefore sees the whole sequence.
  bool is_in_outer_block(std::size_t position, std::size_t tokens) const {
    return position < block_size || position / block_size == (tokens - 1) / block_size;
  }

  // A token sees only tokens stored less than this many places away; none: no limit.
  std::optional<std::size_t> reach() const {
    if (!chunk) return window;
    const std::size_t chunks = *chunk * (chunks_before + 1);
    return window ? std::min(*window, chunks) : chunks;
  }
};

// A sequence ordered by the residue of its positions modulo a dilation: 0, 3, 6, ..., 1, 4, ... In this
// order, a dilated window is an ordinary window within one residue.
struct Residues {
  std::size_t tokens = 0;  // length of the sequence
  std::size_t dilation = 1;

  // The first place of this residue.
  std::size_t begin(std::size_t residue) const {
    return residue * (tokens / dilation) + std::min(residue, tokens % dilation);
  }
  // The residue of the position stored at this place.
  std::size_t residue_at(std::size_t place) const {
    const std::size_t each = tokens / dilation;
    const std::size_t longer = tokens % dilation;  // number of residues with one more token
    if (place < longer * (each + 1)) return place / (each + 1);
    return longer + (place - longer * (each + 1)) / each;
  }
  // The position stored at this place.
  std::size_t position_at(std::size_t place) const {
    const std::size_t residue = residue_at(place);
    return residue + (place - begin(residue)) * dilation;
  }
};

}  // namespace tp::kernels
