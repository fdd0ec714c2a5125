#include "model/memory/state_cache.h"

#include "model/kernels/recurrent_run.h"

#include <cassert>
#include <cstring>

namespace tp {

std::size_t StateCache::slot_bytes(std::span<const std::size_t> layer_floats) {
  std::size_t floats = 0;
  for (const std::size_t layer : layer_floats) floats += kernels::padded(layer);
  return floats * sizeof(float);
}

StateCache::StateCache(std::span<const std::size_t> layer_floats, std::size_t slots)
    : slots_(slots),
      slot_floats_(slot_bytes(layer_floats) / sizeof(float)),
      memory_(slots * slot_floats_, kCacheMemory) {
  std::size_t offset = 0;
  for (const std::size_t floats : layer_floats) {
    offsets_.push_back(offset);
    offset += kernels::padded(floats);
  }
}

LayerStates StateCache::layer(std::size_t index) const {
  if (memory_.size() == 0) return {};
  return {memory_.data() + offsets_[index], slot_floats_};
}

void StateCache::copy(std::size_t from, std::size_t to) const {
  assert(from < slots_ && to < slots_);
  if (from == to || slot_floats_ == 0) return;  // a rank without heads has empty states
  std::memcpy(memory_.data() + to * slot_floats_, memory_.data() + from * slot_floats_,
              slot_floats_ * sizeof(float));
}

}  // namespace tp
