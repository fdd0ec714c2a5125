// Prefetches the blocks of the next step while this step is computed. Everything is local to the translation
// unit.
#pragma once

#include "model/kernels/simd/attention/attention_softmax.h"
#include "model/kernels/simd/attention/attention_tile.h"

namespace tp::kernels {
namespace {

// Prefetches blocks to the second-level cache, some lines at a time while other blocks are multiplied.
class BlockFetch {
 public:
  // `calls`: how often the step calls some().
  BlockFetch(const Step& step, std::size_t calls) : block_bytes_(step.tile.latent_bytes) {
    const AttentionTile& tile = step.tile;
    const std::size_t known = tile.num_blocks + tile.next_blocks;
    block_ = tile.blocks + step.end;
    end_ = tile.blocks + min(step.end + tile.blocks_per_step, known);
    const std::size_t lines = tile.blocks_per_step * block_bytes_ / kVectorBytes;
    lines_ = (lines + calls - 1) / (calls == 0 ? 1 : calls);
  }

  void some() {
    if (block_ == end_) return;
    const unsigned char* const last = *block_ + block_bytes_;
    const unsigned char* line = *block_ + done_;
    for (std::size_t i = 0; i < lines_ && line < last; ++i, line += kVectorBytes)
      __builtin_prefetch(line, 0, 2);
    done_ = static_cast<std::size_t>(line - *block_);
    if (line < last) return;
    ++block_;
    done_ = 0;
  }

 private:
  std::size_t block_bytes_;
  const unsigned char* const* block_;
  const unsigned char* const* end_;
  std::size_t lines_;
  std::size_t done_ = 0;  // fetched bytes of *block_
};

}  // namespace
}  // namespace tp::kernels
