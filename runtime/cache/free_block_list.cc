#include "runtime/cache/free_block_list.h"

#include <cassert>

namespace tp {

FreeBlockList::FreeBlockList(std::size_t num_blocks)
    : end_(static_cast<BlockId>(num_blocks)), links_(num_blocks + 1) {
  link(end_) = {end_, end_};
  for (BlockId block = 0; block < end_; ++block) push_back(block);
}

std::vector<BlockId> FreeBlockList::blocks() const {
  std::vector<BlockId> result;
  for (BlockId block = link(end_).next; block != end_; block = link(block).next) result.push_back(block);
  return result;
}

void FreeBlockList::push_front(BlockId block) { insert_after(end_, block); }

void FreeBlockList::push_back(BlockId block) { insert_after(link(end_).previous, block); }

BlockId FreeBlockList::pop_front() {
  const BlockId block = link(end_).next;
  remove(block);
  return block;
}

void FreeBlockList::remove(BlockId block) {
  assert(block != end_ && contains(block));
  const Link old = link(block);
  link(old.previous).next = old.next;
  link(old.next).previous = old.previous;
  link(block) = {};
  --size_;
}

void FreeBlockList::insert_after(BlockId previous, BlockId block) {
  assert(!contains(block));
  const BlockId next = link(previous).next;
  link(block) = {previous, next};
  link(previous).next = block;
  link(next).previous = block;
  ++size_;
}

}  // namespace tp
