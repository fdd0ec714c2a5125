#include "runtime/step/canvas_states.h"

#include "parallel/exchange/collectives.h"

namespace tp {

void CanvasStates::begin(const Forward& forward, const RankSequences& sequences, Batch& batch) {
  for (const std::uint64_t key : forward.ended_canvases) memory_.drop(key);
  batch.states_before.assign(batch.tokens.size(), nullptr);
  std::size_t row = 0;
  for (const SequenceChunk& chunk : forward.chunks) {
    const PassCanvas& canvas = sequences.start(chunk.sequence).canvas;
    for (std::size_t i = 0; i < chunk.tokens; ++i, ++row) {
      const std::size_t position = chunk.start_position + i;
      if (position >= canvas.begin)
        batch.states_before[row] = memory_.find(canvas.key, position - canvas.begin);
    }
  }
}

// Weights that have been 0 on all ranks, in a row whose logits are not finite, leave zeros.
void CanvasStates::keep(Communicator& comm, std::span<const CanvasRow> rows, TensorView<const float> weights,
                        Workspace& workspace) {
  const std::size_t size = memory_.hidden_size();
  const TensorView<double> sums = workspace.take_doubles(rows.size(), size + 1);
  table_->sum_weighted(weights, sums);
  exchange_sum(comm, {sums.data(), sums.size()});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<float> out = memory_.room(rows[i].key, rows[i].index);
    const double total = sums(i, size);
    for (std::size_t j = 0; j < size; ++j)
      out[j] = total > 0.0 ? static_cast<float>(sums(i, j) / total) : 0.0F;
  }
}

}  // namespace tp
