#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// An index into the blocks of the KV cache.
using BlockId = std::int32_t;

// The cache blocks without an owner, in allocation order. Operations on single blocks take constant time.
class FreeBlockList {
 public:
  // All blocks [0, num_blocks) are free, in ascending order.
  explicit FreeBlockList(std::size_t num_blocks);

  std::size_t size() const { return size_; }
  bool contains(BlockId block) const { return link(block).next != kUnlinked; }
  // All free blocks, in order.
  std::vector<BlockId> blocks() const;

  // Frees a block that is in use.
  void push_front(BlockId block);
  void push_back(BlockId block);
  // Removes and returns the first block. The list must not be empty.
  BlockId pop_front();
  // Removes a block from anywhere in the list.
  void remove(BlockId block);

 private:
  static constexpr BlockId kUnlinked = -1;
  struct Link {
    BlockId previous = kUnlinked;
    BlockId next = kUnlinked;
  };

  Link& link(BlockId block) { return links_[static_cast<std::size_t>(block)]; }
  const Link& link(BlockId block) const { return links_[static_cast<std::size_t>(block)]; }
  void insert_after(BlockId previous, BlockId block);

  BlockId end_;              // sentinel that links the last block to the first: a ring needs no special cases
  std::vector<Link> links_;  // [num_blocks + 1]: links of every block and of end_
  std::size_t size_ = 0;
};

}  // namespace tp
