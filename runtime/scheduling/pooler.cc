#include "runtime/scheduling/pooler.h"

namespace tp {

void Pooler::add(std::span<const float> states, std::size_t columns) {
  if (!pooling_) {
    state_.insert(state_.end(), states.begin(), states.end());
    return;
  }
  state_.resize(columns);
  for (; !states.empty(); states = states.subspan(columns), ++tokens_) {
    if (pooling_ == Pooling::first && tokens_ > 0) continue;
    for (std::size_t i = 0; i < columns; ++i)
      state_[i] = pooling_ == Pooling::mean ? state_[i] + states[i] : states[i];
  }
}

std::vector<float> Pooler::pooled() const {
  const double divisor = pooling_ == Pooling::mean ? static_cast<double>(tokens_) : 1.0;
  std::vector<float> pooled;
  pooled.reserve(state_.size());
  for (const double element : state_) pooled.push_back(static_cast<float>(element / divisor));
  return pooled;
}

}  // namespace tp
