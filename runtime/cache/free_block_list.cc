#include "runtime/cache/free_block_list.h"

#include <algorithm>
#include <cassert>

namespace tp {

FreeBlockList::FreeBlockList(std::size_t num_blocks, std::size_t runs)
    : links_(num_blocks + runs), sizes_(runs, 0) {
  for (std::size_t run = 0; run < runs; ++run) link(end_of(run)) = {end_of(run), end_of(run)};
  for (BlockId block = 0; block < end_of(0); ++block) push_back(block);
}

std::size_t FreeBlockList::fullest_run() const {
  return static_cast<std::size_t>(std::ranges::max_element(sizes_) - sizes_.begin());
}

std::vector<BlockId> FreeBlockList::blocks() const {
  std::vector<BlockId> result;
  for (std::size_t run = 0; run < runs(); ++run) {
    for (BlockId block = link(end_of(run)).next; block != end_of(run); block = link(block).next)
      result.push_back(block);
  }
  return result;
}

void FreeBlockList::push_front(BlockId block) { insert_after(end_of(run_of(block)), block); }

void FreeBlockList::push_back(BlockId block) { insert_after(link(end_of(run_of(block))).previous, block); }

BlockId FreeBlockList::pop_front(std::size_t run) {
  const BlockId block = front(run);
  remove(block);
  return block;
}

void FreeBlockList::remove(BlockId block) {
  assert(block < end_of(0) && contains(block));
  const Link old = link(block);
  link(old.previous).next = old.next;
  link(old.next).previous = old.previous;
  link(block) = {};
  --sizes_[run_of(block)];
  --size_;
}

void FreeBlockList::insert_after(BlockId previous, BlockId block) {
  assert(!contains(block));
  const BlockId next = link(previous).next;
  link(block) = {previous, next};
  link(previous).next = block;
  link(next).previous = block;
  ++sizes_[run_of(block)];
  ++size_;
}

}  // namespace tp
