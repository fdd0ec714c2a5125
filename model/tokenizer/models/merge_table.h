#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// The merges of a BPE model: pairs of adjacent tokens, their results and ranks. A hash table with open
// addressing, because it is read several times per character of text.
class MergeTable {
 public:
  using Rank = std::uint32_t;
  static constexpr Rank kNoRank = 0xFFFFFFFF;

  explicit MergeTable(std::size_t merge_count);

  // The merge of a pair. Lower ranks merge first.
  struct Merge {
    Rank rank = kNoRank;  // kNoRank: the pair does not merge
    TokenId result = 0;
  };

  // Adds a merge, at most merge_count times. A repeated pair gets the later rank.
  void add(TokenId left, TokenId right, const Merge& merge);

  // Calls visit(left, right, merge) for all merges, in no particular order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Entry& entry : entries_) {
      if (entry.merge.rank == kNoRank) continue;
      visit(static_cast<TokenId>(entry.key >> 32), static_cast<TokenId>(entry.key & 0xFFFFFFFF), entry.merge);
    }
  }

  Merge find(TokenId left, TokenId right) const { return entries_[slot_of(key_of(left, right))].merge; }

 private:
  struct Entry {
    std::uint64_t key = 0;
    Merge merge;  // kNoRank: the slot is free
  };

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }

  // The slot of the key, or the free slot where the key belongs.
  std::size_t slot_of(std::uint64_t key) const {
    std::size_t slot = (key * 0x9E3779B97F4A7C15u) >> shift_;
    while (entries_[slot].merge.rank != kNoRank && entries_[slot].key != key) slot = (slot + 1) & mask_;
    return slot;
  }

  std::vector<Entry> entries_;  // at most half full
  std::size_t mask_;
  unsigned shift_;
};

}  // namespace tp
