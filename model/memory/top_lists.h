// The best positions that each rank of a host has found, in memory that the ranks share.
#pragma once

#include "model/kernels/index_keys.h"

#include <cstddef>
#include <span>

namespace tp {

// Ranks exchange lists in rounds. In each round, a rank writes the lists of some tokens, waits until the
// other ranks of the host have written theirs, and reads the lists of all ranks. All ranks compute the same
// rounds in the same order.
//
// Rounds use two parts of the memory alternately. A rank thus overwrites the lists of a round only after the
// wait of the next round, and by then, all ranks have read them. So one wait per round is enough, whichever
// layers, half-batches and steps the rounds belong to.
class TopLists {
 public:
  static constexpr std::size_t kTokens = 64;  // most tokens of a round

  // Number of elements of the memory. `length`: of a list.
  static constexpr std::size_t elements(std::size_t ranks, std::size_t length) {
    return 2 * ranks * kTokens * length;
  }

  // `rank`: index of this rank among the `ranks` ranks of the host.
  TopLists(std::span<kernels::ScoredPosition> memory, std::size_t rank, std::size_t ranks)
      : memory_(memory), rank_(rank), ranks_(ranks), length_(memory.size() / elements(ranks, 1)) {}

  void begin_round() { part_ = 1 - part_; }

  std::size_t rank() const { return rank_; }
  std::size_t ranks() const { return ranks_; }
  // The list of a rank. `token`: number in the round.
  std::span<kernels::ScoredPosition> of(std::size_t rank, std::size_t token) const {
    return memory_.subspan(((part_ * ranks_ + rank) * kTokens + token) * length_, length_);
  }

 private:
  std::span<kernels::ScoredPosition> memory_;
  std::size_t rank_;
  std::size_t ranks_;
  std::size_t length_;
  std::size_t part_ = 0;
};

}  // namespace tp
