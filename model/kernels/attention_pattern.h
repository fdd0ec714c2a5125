#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

namespace tp::kernels {

// What a token sees of its sequence.
struct AttentionPattern {
  // Itself and the tokens before it; otherwise, or in a bidirectional span, those behind it in its span too.
  bool causal = true;
  // Only tokens less than `window` away.
  std::optional<std::size_t> window{};
  // Only tokens of its own chunk, and of so many before it: a sequence is cut into chunks of that many
  // tokens.
  std::optional<std::size_t> chunk{};
  std::size_t chunks_before = 0;
  // Of a window every `dilation`-th only, counted from itself, with the window as many times wider. Tokens
  // that are a multiple of it apart are then stored side by side (see Residues), all of a sequence in one
  // span. Source: Beltagy et al., Longformer, 2020.
  std::size_t dilation = 1;
  // The sequence is cut into blocks of that many tokens, and a token sees its own block and its neighbours;
  // those of the first and the last block see all. Each of `block_repeats` + 1 times the first block counts
  // for others, and the last block once.
  std::size_t block_size = 0;  // 0: none
  std::size_t block_repeats = 0;

  bool operator==(const AttentionPattern&) const = default;

  // Whether tokens of a sequence of that many attend by blocks: shorter ones see all. Source: Zaheer et al.,
  // Big Bird, 2020, and its code.
  bool is_by_blocks(std::size_t tokens) const {
    return block_size != 0 && tokens > (5 + 2 * block_repeats) * block_size;
  }
  // Whether a token of a sequence with so many sees all of it though others attend by blocks.
  bool is_in_outer_block(std::size_t position, std::size_t tokens) const {
    return position < block_size || position / block_size == (tokens - 1) / block_size;
  }

  // The farthest that a token sees, among those stored side by side.
  std::optional<std::size_t> reach() const {
    if (!chunk) return window;
    const std::size_t chunks = *chunk * (chunks_before + 1);
    return window ? std::min(*window, chunks) : chunks;
  }
};

// A sequence in the order of what is left when positions are divided by a dilation: 0, 3, 6, ..., 1, 4, ... A
// dilated window is an ordinary one there, within its residue.
struct Residues {
  std::size_t tokens = 0;  // of the sequence
  std::size_t dilation = 1;

  // The place of the first one with this residue.
  std::size_t begin(std::size_t residue) const {
    return residue * (tokens / dilation) + std::min(residue, tokens % dilation);
  }
  // The residue of what is at this place.
  std::size_t residue_at(std::size_t place) const {
    const std::size_t each = tokens / dilation;
    const std::size_t longer = tokens % dilation;  // so many residues have one more
    if (place < longer * (each + 1)) return place / (each + 1);
    return longer + (place - longer * (each + 1)) / each;
  }
  // The position of what is at this place.
  std::size_t position_at(std::size_t place) const {
    const std::size_t residue = residue_at(place);
    return residue + (place - begin(residue)) * dilation;
  }
};

}  // namespace tp::kernels
