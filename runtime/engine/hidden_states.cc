#include "runtime/engine/hidden_states.h"

#include <algorithm>

namespace tp {

HiddenStates::HiddenStates(std::size_t rows, std::size_t hidden_size)
    : hidden_size_(hidden_size), states_(rows * hidden_size, "hidden states"), rows_(rows) {
  keys_.reserve(rows);
  by_key_.reserve(rows);
}

void HiddenStates::keep(SequenceId sequence, std::size_t position, std::span<const float> state) {
  const Key key{sequence, position};
  if (next_ == keys_.size()) {
    keys_.push_back(key);
  } else {
    // What it held may have been kept again elsewhere.
    const auto old = by_key_.find(keys_[next_]);
    if (old != by_key_.end() && old->second == next_) by_key_.erase(old);
    keys_[next_] = key;
  }
  by_key_[key] = next_;
  std::ranges::copy(state, states_.data() + next_ * hidden_size_);
  next_ = (next_ + 1) % rows_;
}

const float* HiddenStates::find(SequenceId sequence, std::size_t position) const {
  const auto found = by_key_.find({sequence, position});
  return found == by_key_.end() ? nullptr : states_.data() + found->second * hidden_size_;
}

}  // namespace tp
