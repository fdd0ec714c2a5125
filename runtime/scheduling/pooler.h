// The hidden states of a sequence, as one vector.
#pragma once

#include "tp/model_kind.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Is given the hidden states of a sequence's tokens in order, in parts of any size. Sums are in float64, in
// that order, so that parts do not matter.
class Pooler {
 public:
  explicit Pooler(Pooling pooling) : pooling_(pooling) {}

  // The next tokens' states: [tokens, columns].
  void add(std::span<const float> states, std::size_t columns);

  // [columns], of at least one token.
  std::vector<float> pooled() const;

 private:
  Pooling pooling_;
  std::size_t tokens_ = 0;
  std::vector<double> state_;  // the sum of all, or the one that counts
};

}  // namespace tp
