#include "model/tokenizer/models/merge_table.h"

#include <algorithm>
#include <bit>

namespace tp {

MergeTable::MergeTable(std::size_t merge_count)
    : entries_(std::bit_ceil(std::max<std::size_t>(2 * merge_count, 16))),
      mask_(entries_.size() - 1),
      shift_(64 - static_cast<unsigned>(std::countr_zero(entries_.size()))) {}

void MergeTable::add(TokenId left, TokenId right, const Merge& merge) {
  const std::uint64_t key = key_of(left, right);
  entries_[slot_of(key)] = {key, merge};
}

}  // namespace tp
