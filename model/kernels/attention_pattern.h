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
  // Only tokens of its own chunk: a sequence is cut into chunks of that many tokens.
  std::optional<std::size_t> chunk{};
  // Of a window every `dilation`-th only, counted from itself, with the window as many times wider.
  std::size_t dilation = 1;
  // The first tokens of a sequence are seen by all, and see all. (Windows with global tokens and dilation:
  // Beltagy et al., Longformer, 2020.)
  std::size_t global_tokens = 0;

  bool operator==(const AttentionPattern&) const = default;

  // The farthest that a token sees.
  std::optional<std::size_t> reach() const {
    if (!window) return chunk;
    const std::size_t reach = (*window - 1) * dilation + 1;
    return chunk ? std::min(reach, *chunk) : reach;
  }
};

}  // namespace tp::kernels
