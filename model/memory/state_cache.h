// What recurrent layers keep of sequences in place of keys and values: the bytes. Which slot holds what is
// decided in runtime/cache/block_manager.
#pragma once

#include "model/memory/buffer.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// The states of one layer on this rank. Without memory (null) a step is of shapes.
struct LayerStates {
  float* base = nullptr;
  std::size_t stride = 0;  // floats from a slot to the next one

  float* at(std::size_t slot) const { return base + slot * stride; }
};

// Slots of equal size. One holds the states of all recurrent layers of one sequence, behind one of its
// tokens.
class StateCache {
 public:
  // Of a model without recurrent layers.
  StateCache() = default;
  // `layer_floats`: the size of one sequence's state in every layer; 0 for layers that are not recurrent.
  // Memory is taken when a slot is first written. Throws ConfigError if not even addresses are left.
  StateCache(std::span<const std::size_t> layer_floats, std::size_t slots);

  LayerStates layer(std::size_t index) const;
  // Copies a slot to another one, which may be the same.
  void copy(std::size_t from, std::size_t to) const;
  std::size_t slots() const { return slots_; }
  // Bytes when every slot is in use.
  std::size_t capacity_bytes() const { return memory_.size() * sizeof(float); }

  // Bytes of a slot.
  static std::size_t slot_bytes(std::span<const std::size_t> layer_floats);

 private:
  std::size_t slots_ = 0;
  std::size_t slot_floats_ = 0;
  std::vector<std::size_t> offsets_;  // [layers] in a slot
  Buffer<float> memory_;              // [slots, slot_floats]
};

}  // namespace tp
