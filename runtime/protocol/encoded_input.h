#pragma once

#include <algorithm>
#include <cstdint>

namespace tp {

// Where an encoder-decoder's sequence has its input. The first positions of its cache hold what the decoder's
// cross-attention sees of the input, in whole blocks, so that sequences with the same input can share them;
// the positions of the decoder's tokens follow. In other models all is 0.
struct EncodedInput {
  std::uint64_t tokens = 0;
  std::uint64_t positions = 0;  // with those that fill its last block
  std::uint64_t blocks = 0;

  // How many tokens of the request the first `count` positions of a sequence are.
  std::uint64_t tokens_until(std::uint64_t count) const {
    return count <= positions ? std::min(count, tokens) : count - positions + tokens;
  }
};

}  // namespace tp
