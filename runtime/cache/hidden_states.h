// The model's most recent hidden states, for a multi-token prediction layer or a drafter that reads them.
#pragma once

#include "model/memory/buffer.h"
#include "runtime/cache/block_manager.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// A ring buffer of states, found by sequence and position: a new state overwrites the oldest. All memory is
// allocated in the constructor, so that a step that keeps states cannot run out of memory on a single rank.
class HiddenStates {
 public:
  HiddenStates(std::size_t rows, std::size_t hidden_size);

  static std::uint64_t bytes_of(std::size_t rows, std::size_t hidden_size) {
    return std::uint64_t{rows} * hidden_size * sizeof(float);
  }

  // Replaces an earlier state at this position. state: [hidden_size]
  void keep(SequenceId sequence, std::size_t position, std::span<const float> state) noexcept;
  // Like keep(), but returns the memory of the state, [hidden_size], to be filled in before the next find().
  float* place_for(SequenceId sequence, std::size_t position) noexcept;
  // Returns [hidden_size], valid until `rows` further states are kept; null if the state was never kept or
  // has been overwritten.
  const float* find(SequenceId sequence, std::size_t position) const;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Key {
    SequenceId sequence = 0;
    std::size_t position = 0;

    bool operator==(const Key&) const = default;
  };

  std::size_t bucket_of(const Key& key) const {
    return (key.sequence * 0x9e3779b97f4a7c15U + key.position) & (newest_.size() - 1);
  }
  void forget(std::size_t row);

  std::size_t hidden_size_;
  Buffer<float> states_;            // [rows, hidden_size]
  std::vector<Key> keys_;           // [rows]
  std::vector<std::size_t> older_;  // [rows]: next older row of the same bucket
  // [buckets, a power of two]: newest row of each bucket, so that a replacement is found before the replaced
  // row.
  std::vector<std::size_t> newest_;
  std::size_t next_ = 0;  // row of the next state
};

}  // namespace tp
