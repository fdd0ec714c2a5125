// The model's most recent hidden states, for a multi-token prediction layer that reads them.
#pragma once

#include "model/memory/buffer.h"
#include "runtime/engine/block_manager.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

namespace tp {

// A ring buffer of states, found by sequence and position: a new one overwrites the oldest.
class HiddenStates {
 public:
  HiddenStates(std::size_t rows, std::size_t hidden_size);

  static std::uint64_t bytes_of(std::size_t rows, std::size_t hidden_size) {
    return std::uint64_t{rows} * hidden_size * sizeof(float);
  }
  std::size_t hidden_size() const { return hidden_size_; }

  // Replaces an earlier one at this position. state: [hidden_size]
  void keep(SequenceId sequence, std::size_t position, std::span<const float> state);
  // [hidden_size], valid until `rows` more are kept; null: none was kept, or it has been overwritten.
  const float* find(SequenceId sequence, std::size_t position) const;

 private:
  struct Key {
    SequenceId sequence = 0;
    std::size_t position = 0;

    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>()(key.sequence * 0x9e3779b97f4a7c15U + key.position);
    }
  };

  std::size_t hidden_size_;
  Buffer<float> states_;                               // [rows, hidden_size]
  std::vector<Key> keys_;                              // [rows] that were kept so far
  std::size_t rows_;                                   // at most
  std::size_t next_ = 0;                               // where the next one is kept
  std::unordered_map<Key, std::size_t, Hash> by_key_;  // the row that holds it
};

}  // namespace tp
