// Rows of recent tokens in a layer's state, and pools of consecutive tokens, for layers that make one key of
// each pool.
#pragma once

#include "model/kernels/recurrent_run.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "tp/tensor.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace tp {

// A part of a layer's state that has rows of recent tokens: the row of position p is row p % `modulus`. The
// rows are the same on every rank.
class RecentRows {
 public:
  // `rows`: at most `modulus`; the others are never kept. `offset`: floats of the state before the first row.
  RecentRows(std::size_t rows, std::size_t modulus, std::size_t row_size, std::size_t offset)
      : rows_(rows), modulus_(modulus), row_size_(row_size), offset_(offset) {}

  std::size_t offset() const { return offset_; }

  // The row of a position of a run's sequence, in the batch or in the state before the batch. raw: rows of
  // the batch's tokens, [tokens, row_size].
  const float* row_of(const kernels::RecurrentRun& run, std::size_t position,
                      TensorView<const float> raw) const {
    return position < run.position ? run.state + position % modulus_ * row_size_
                                   : raw.row(run.first_token + position - run.position);
  }

  // Writes rows to the states: those of positions [first_after(n), n) to the state after n tokens.
  void keep(TensorView<const float> raw, const StepContext& step,
            const std::function<std::size_t(std::size_t tokens)>& first_after) const;

  // Size in floats, rounded up to whole cache lines.
  std::size_t floats() const { return kernels::padded(rows_ * row_size_); }
  // `period`: see StatePart::Rows.
  StatePart::Rows state_rows(std::size_t period) const {
    return {offset_, rows_, row_size_, row_size_, period};
  }

 private:
  std::size_t rows_;
  std::size_t modulus_;
  std::size_t row_size_;
  std::size_t offset_;
};

// Pools of `size` tokens, counted from the sequence's first token. A pool closes when its last token is
// computed. The layer's state contains the raw rows of the open pool. If pools overlap, a pool also reads the
// rows of the pool before it, so the state contains these as well.
class OpenPools {
 public:
  // A pool that the batch closes.
  struct Closed {
    const kernels::AttentionSpan* span = nullptr;  // the pool's sequence
    std::size_t number = 0;                        // in the sequence; the first position is number * size
    std::vector<const float*> rows{};              // [size][row_size] raw rows
    std::vector<const float*> rows_before{};       // the pool before it; empty unless pools overlap
  };

  // `row_size`: elements of a token's raw row. `offset`: floats of the layer's state before this one.
  OpenPools(std::size_t size, std::size_t row_size, bool overlap = false, std::size_t offset = 0)
      : size_(size),
        overlap_(overlap),
        rows_(overlap ? 2 * size : size - 1, overlap ? 2 * size : size, row_size, offset) {}

  std::size_t size() const { return size_; }

  // The pools that the batch closes: at most one for each token, in the order of spans and positions. Their
  // rows are valid until keep(). raw: rows of the batch's tokens, [tokens, row_size].
  std::vector<Closed> closed(TensorView<const float> raw, const StepContext& step) const;
  // Writes the rows of open pools to the states. `raw`: as for closed(), which must come first.
  void keep(TensorView<const float> raw, const StepContext& step) const;

  // Size of one sequence's state, in floats, rounded up to whole cache lines.
  std::size_t state_floats() const { return rows_.floats(); }
  StatePart::Rows state_rows() const { return rows_.state_rows(overlap_ ? 0 : size_); }
  // The whole state, which every rank has.
  std::vector<StatePart> state_parts() const { return {{0, {state_rows()}}}; }

 private:
  std::size_t size_;
  bool overlap_;
  RecentRows rows_;
};

}  // namespace tp
