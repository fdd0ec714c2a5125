#include "runtime/cache/hidden_states.h"

#include <algorithm>
#include <bit>

namespace tp {

HiddenStates::HiddenStates(std::size_t rows, std::size_t hidden_size)
    : hidden_size_(hidden_size),
      states_(rows * hidden_size, "hidden states"),
      keys_(rows),
      older_(rows, kNone),
      newest_(std::bit_ceil(rows), kNone) {}

void HiddenStates::keep(SequenceId sequence, std::size_t position, std::span<const float> state) noexcept {
  std::ranges::copy(state, place_for(sequence, position));
}

float* HiddenStates::place_for(SequenceId sequence, std::size_t position) noexcept {
  forget(next_);
  const Key key{sequence, position};
  std::size_t& newest = newest_[bucket_of(key)];
  keys_[next_] = key;
  older_[next_] = newest;
  newest = next_;
  float* const place = states_.data() + next_ * hidden_size_;
  next_ = (next_ + 1) % keys_.size();
  return place;
}

// Does nothing if the row does not hold a state yet.
void HiddenStates::forget(std::size_t row) {
  std::size_t* link = &newest_[bucket_of(keys_[row])];
  while (*link != row && *link != kNone) link = &older_[*link];
  if (*link == row) *link = older_[row];
}

const float* HiddenStates::find(SequenceId sequence, std::size_t position) const {
  const Key key{sequence, position};
  std::size_t row = newest_[bucket_of(key)];
  while (row != kNone && keys_[row] != key) row = older_[row];
  return row == kNone ? nullptr : states_.data() + row * hidden_size_;
}

}  // namespace tp
