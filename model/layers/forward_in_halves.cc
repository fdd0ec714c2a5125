#include "model/layers/forward_in_halves.h"

#include "model/layers/half_batches.h"
#include "parallel/exchange/overlap.h"

#include <optional>

namespace tp {

void forward_in_halves(const Model& model, Communicator& comm, const Batch& batch, const KvCache& cache,
                       Workspace& workspace, const Model::OnLogits& on_logits,
                       const Model::OnHidden& on_hidden) {
  const std::optional<HalfBatches> halves = halves_of(batch);
  if (!halves) return model.forward(comm, batch, cache, workspace, on_logits, on_hidden);
  const Batch& first = halves->first;
  const Batch& second = halves->second;
  auto workspaces = workspace.halves();
  // The second half's outputs follow the first half's outputs.
  const auto second_logits = [&](std::size_t output, TensorView<const float> logits) {
    on_logits(first.output_rows.size() + output, logits);
  };
  const auto second_hidden = [&](std::size_t output, TensorView<const float> hidden) {
    on_hidden(first.hidden_rows.size() + output, hidden);
  };
  overlap(
      comm, [&] { model.forward(comm, first, cache, workspaces[0], on_logits, on_hidden); },
      [&] { model.forward(comm, second, cache, workspaces[1], second_logits, second_hidden); });
}

}  // namespace tp
