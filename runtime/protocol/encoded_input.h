#pragma once

#include <algorithm>
#include <cstdint>

namespace tp {

// Position of an encoder-decoder's input in its sequence. The first positions of the cache hold the input's
// keys and values for the decoder's cross-attention, in whole blocks, so that sequences with equal inputs can
// share them. The positions of the decoder's tokens follow. All zeros for other models.
struct EncodedInput {
  std::uint64_t tokens = 0;
  std::uint64_t positions = 0;  // includes positions that fill the input's last block
  std::uint64_t blocks = 0;

  // Number of the request's tokens in the first `count` positions of a sequence.
  std::uint64_t tokens_until(std::uint64_t count) const {
    return count <= positions ? std::min(count, tokens) : count - positions + tokens;
  }
};

}  // namespace tp
