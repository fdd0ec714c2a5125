// Memory for the states of recurrent layers, which replace keys and values. runtime/cache/block_manager
// decides what each slot contains.
#pragma once

#include "model/memory/buffer.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// The states of one layer on this rank. `base` is null in steps that only compute shapes.
struct LayerStates {
  float* base = nullptr;
  std::size_t stride = 0;  // floats from one slot to the next

  float* at(std::size_t slot) const { return base + slot * stride; }
  // The states without their first `floats` floats.
  LayerStates after(std::size_t floats) const { return {base != nullptr ? base + floats : nullptr, stride}; }
};

// The floats of a layer's state that belong to one head of the whole model, or to another unit that ranks
// never divide. So the parts of a state don't depend on the number of ranks.
struct StatePart {
  // `count` pieces of `floats` consecutive floats, the first at float `begin` of the layer's state.
  struct Rows {
    std::size_t begin = 0;
    std::size_t count = 1;
    std::size_t stride = 0;  // floats from one piece to the next
    std::size_t floats = 0;
    // Tokens after which no piece is in use again. 0: all pieces are always in use.
    std::size_t period = 0;

    // The pieces in use after `position` tokens come first. Other pieces contain old values.
    std::size_t in_use(std::size_t position) const { return period == 0 ? count : position % period; }
  };

  std::size_t index = 0;  // number among the parts of the whole layer
  std::vector<Rows> rows;
};

// Slots of equal size. A slot contains the states of all recurrent layers, for one sequence at one position.
class StateCache {
 public:
  // The cache of a model without recurrent layers.
  StateCache() = default;
  // `layer_floats`: the size of one sequence's state in each layer; 0 if the layer is not recurrent. A slot
  // takes memory when it is first written. Throws ConfigError if the address space is exhausted.
  StateCache(std::span<const std::size_t> layer_floats, std::size_t slots);

  LayerStates layer(std::size_t index) const;
  // Copies a slot. `from` may equal `to`.
  void copy(std::size_t from, std::size_t to) const;
  std::size_t slots() const { return slots_; }
  // Bytes if all slots are in use.
  std::size_t capacity_bytes() const { return memory_.size() * sizeof(float); }

  static std::size_t slot_bytes(std::span<const std::size_t> layer_floats);

 private:
  std::size_t slots_ = 0;
  std::size_t slot_floats_ = 0;
  std::vector<std::size_t> offsets_;  // [layers], floats from the slot's beginning
  Buffer<float> memory_;              // [slots, slot_floats]
};

}  // namespace tp
