// Pools of consecutive tokens, for layers that make one key of each pool.
#pragma once

#include "model/kernels/recurrent_run.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "tp/tensor.h"

#include <cstddef>
#include <vector>

namespace tp {

// Pools of `size` tokens, counted from the sequence's first token. A pool closes when its last token is
// computed. The layer's state contains the raw rows of the open pool, [size - 1, row_size], which are the
// same on every rank: the row of position p is row p % size.
class OpenPools {
 public:
  // A pool that the batch closes.
  struct Closed {
    const kernels::AttentionSpan* span = nullptr;  // the pool's sequence
    std::size_t number = 0;                        // in the sequence; the first position is number * size
    std::vector<const float*> rows{};              // [size][row_size] raw rows
  };

  // `row_size`: elements of a token's raw row.
  OpenPools(std::size_t size, std::size_t row_size) : size_(size), row_size_(row_size) {}

  std::size_t size() const { return size_; }

  // The pools that the batch closes: at most one for each token, in the order of spans and positions. Their
  // rows are valid until keep(). raw: rows of the batch's tokens, [tokens, row_size].
  std::vector<Closed> closed(TensorView<const float> raw, const StepContext& step) const;
  // Writes the rows of open pools to the states. `raw`: as for closed(), which must come first.
  void keep(TensorView<const float> raw, const StepContext& step) const;

  // Size of one sequence's state, in floats, rounded up to whole cache lines.
  std::size_t state_floats() const { return kernels::padded((size_ - 1) * row_size_); }
  // The whole state, which every rank has.
  std::vector<StatePart> state_parts() const { return {{0, {{0, size_ - 1, row_size_, row_size_, size_}}}}; }

 private:
  // The raw row of a position of a run's sequence, in the batch or in the state before the batch.
  const float* row_of(const kernels::RecurrentRun& run, std::size_t position,
                      TensorView<const float> raw) const;

  std::size_t size_;
  std::size_t row_size_;
};

}  // namespace tp
