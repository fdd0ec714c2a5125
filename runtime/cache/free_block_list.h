#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// An index into the blocks of the KV cache.
using BlockId = std::int32_t;

// The cache blocks without an owning sequence, in allocation order. The blocks consist of equal runs of
// ascending ids, and each run has a list of its own. Operations on single blocks take constant time.
class FreeBlockList {
 public:
  // All blocks [0, num_blocks) are free, in ascending order.
  explicit FreeBlockList(std::size_t num_blocks, std::size_t runs = 1);

  // Number of free blocks, in all runs or in one.
  std::size_t size() const { return size_; }
  std::size_t size(std::size_t run) const { return sizes_[run]; }
  bool contains(BlockId block) const { return link(block).next != kUnlinked; }
  std::size_t runs() const { return sizes_.size(); }
  std::size_t run_of(BlockId block) const {
    return static_cast<std::size_t>(block) * runs() / (links_.size() - runs());
  }
  // The run with the most free blocks.
  std::size_t fullest_run() const;
  // All free blocks, run by run, in order.
  std::vector<BlockId> blocks() const;

  // Frees a block that is in use.
  void push_front(BlockId block);
  void push_back(BlockId block);
  // The first block of a run, which must have free blocks.
  BlockId front(std::size_t run) const { return link(end_of(run)).next; }
  // Removes and returns it.
  BlockId pop_front(std::size_t run = 0);
  // Removes a block from anywhere in its list.
  void remove(BlockId block);

 private:
  static constexpr BlockId kUnlinked = -1;
  struct Link {
    BlockId previous = kUnlinked;
    BlockId next = kUnlinked;
  };

  Link& link(BlockId block) { return links_[static_cast<std::size_t>(block)]; }
  const Link& link(BlockId block) const { return links_[static_cast<std::size_t>(block)]; }
  // The sentinel that links a run's last block to the first: a ring needs no special cases.
  BlockId end_of(std::size_t run) const { return static_cast<BlockId>(links_.size() - runs() + run); }
  void insert_after(BlockId previous, BlockId block);

  std::vector<Link> links_;         // [num_blocks + runs]: links of every block and of the sentinels
  std::vector<std::size_t> sizes_;  // [runs]
  std::size_t size_ = 0;
};

}  // namespace tp
