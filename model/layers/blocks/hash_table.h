// A hash table: vectors that a sequence's last tokens choose, for all streams.
#pragma once

#include "model/layers/attention/causal_convolution.h"
#include "model/layers/linear/head_norm.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/recurrent_runs.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/source/mapped_rows.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tp {

// A table's rows. If they stay in the checkpoint's files, every rank reads all of them, and a host has one
// copy (MappedRows). Otherwise, ranks divide the rows of each tensor, so that no two ranks have the same row.
class HashRows {
 public:
  // Throws CheckpointError.
  HashRows(WeightLoader& loader, const HashTableSpec& spec, const HashTableNames& names);

  // Whether every rank has all rows.
  bool are_mapped() const { return !mapped_.empty(); }
  // Writes a row below spec.rows to `out`, [row_size]. Returns false and writes nothing if another rank has
  // it. Thread-safe.
  bool copy_row(std::size_t row, float* out) const;
  // Hints that a mapped row is read soon. Thread-safe.
  void will_need(std::size_t row) const;
  // Its weights and their bytes.
  const LoadedWeights& loaded() const { return loaded_; }

 private:
  // Loads this rank's rows of the tensors.
  void load(WeightLoader& loader, std::span<const StoredLayer> layers);

  std::size_t rows_ = 0;              // rows of each tensor
  std::vector<MappedRows> mapped_;    // one for each tensor; empty: rows are loaded
  Range own_;                         // rows of each tensor that this rank has
  std::vector<LocalWeight> weights_;  // stacked vertically: [tensors * own_.size(), row_size]
  LoadedWeights loaded_;
};

// See HashTableSpec. A sequence's state is the last tokens, then the convolution's last inputs, if there is
// one. Every rank has all of it, and all weights except a table that is not mapped.
class HashTable {
 public:
  // Throws CheckpointError.
  HashTable(WeightLoader& loader, const HashTableSpec& spec, std::size_t hidden_size,
            const HashTableNames& names);

  // Hints which rows of a mapped table the step's tokens choose, to read them from the disk while earlier
  // layers are computed. The ranks of a host share the work, because they share the pages.
  void announce_rows(const StepContext& step) const;
  // streams: [tokens, streams * hidden_size] -> the addend, of the same size. Advances the states of the
  // batch's sequences. Collective unless step.comm is null or the table is mapped; throws CommError.
  TensorView<float> operator()(TensorView<const float> streams, const StepContext& step) const;

  // Size of one sequence's state, in floats, and its pieces.
  std::size_t state_floats() const { return tokens_floats() + (conv_ ? conv_->state_floats() : 0); }
  std::vector<StatePart::Rows> state_rows() const;

  const HashRows& rows() const { return rows_; }

 private:
  std::size_t tokens_floats() const { return kernels::padded(spec_.hash.context()); }
  // The rows of the table that a step's tokens choose: [tokens, heads]. tokens: from token_rows.
  std::vector<std::uint64_t> chosen_rows(std::span<const kernels::RecurrentRun> runs,
                                         TensorView<const float> tokens) const;
  // The rows of each token, side by side: [tokens, embed_dim]. Advances the tokens in states.
  TensorView<float> look_up(const StepContext& step) const;
  // y += silu(convolution(norm(y))), [tokens, streams * hidden_size]. scratch: of the same size.
  void add_convolution(TensorView<float> y, TensorView<float> scratch, const StepContext& step) const;

  HashTableSpec spec_;
  std::size_t hidden_size_;
  HashRows rows_;
  ColumnParallelLinear proj_;  // [(streams + 1) * hidden_size, embed_dim]: keys, then the value
  HeadNorm key_norm_;          // streams are the heads of all three norms
  HeadNorm query_norm_;
  std::optional<HeadNorm> conv_norm_;
  std::optional<CausalConvolution> conv_;
};

}  // namespace tp
