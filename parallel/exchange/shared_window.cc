#include "parallel/exchange/shared_window.h"

#include <algorithm>

namespace tp {
namespace {

constexpr std::size_t kHostRoot = 0;

}  // namespace

std::size_t WindowLayout::place(std::size_t rank, std::size_t piece_bytes) const {
  if (several_hosts || ranks < kTwoShotRanks || is_two_shot(piece_bytes)) return 0;
  const std::size_t own_part =
      WindowSlot::kPieceBytes * rank / ranks / WindowSlot::kCacheLine * WindowSlot::kCacheLine;
  return std::min(own_part, WindowSlot::kPieceBytes - kTwoShotBytes);
}

std::size_t WindowLayout::reader(std::size_t rank, std::size_t offset) const {
  constexpr std::size_t kBuffers = WindowSlot::kPageBytes;  // offset of the buffers
  if (offset < kBuffers) return rank;
  if (several_hosts) return kHostRoot;
  if (ranks < kTwoShotRanks) return rank;
  return (offset - kBuffers) % WindowSlot::kPieceBytes * ranks / WindowSlot::kPieceBytes;
}

}  // namespace tp
