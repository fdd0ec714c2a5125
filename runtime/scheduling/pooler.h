// Pools the hidden states of a sequence into one vector, or keeps some of its states.
#pragma once

#include "tp/model_kind.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace tp {

// Receives the hidden states of a sequence's tokens in order, in parts of any size. Sums are computed in
// float64 in token order, so the sizes of the parts don't affect the result.
class Pooler {
 public:
  // Without a pooling, it keeps all states that it receives.
  explicit Pooler(std::optional<Pooling> pooling) : pooling_(pooling) {}

  // Adds the states of the next tokens, [tokens, columns].
  void add(std::span<const float> states, std::size_t columns);

  // Returns the pooled state, [columns], or all states, [tokens, columns]. Requires at least one token.
  std::vector<float> pooled() const;

 private:
  std::optional<Pooling> pooling_;
  std::size_t tokens_ = 0;
  std::vector<double> state_;  // [columns]: sum of all states, or the first or last state; or all states
};

}  // namespace tp
