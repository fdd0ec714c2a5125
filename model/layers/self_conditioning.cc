#include "model/layers/self_conditioning.h"

#include "model/kernels/elementwise.h"
#include "parallel/exchange/collectives.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tp {
namespace {

BlockNames mlp_names(const SelfConditioningNames& names) {
  BlockNames mlp;
  mlp.gate_proj = names.gate_proj;
  mlp.up_proj = names.up_proj;
  mlp.down_proj = names.down_proj;
  return mlp;
}

// The rows with a soft embedding. A shape-only step counts all rows.
std::vector<std::size_t> conditioned_rows(const Batch& batch, bool only_shapes) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
    const bool has_state = row < batch.states_before.size() && batch.states_before[row] != nullptr;
    if (only_shapes || has_state) rows.push_back(row);
  }
  return rows;
}

}  // namespace

SelfConditioning::SelfConditioning(WeightLoader& loader, const SelfConditioningSpec& spec,
                                   std::size_t hidden_size, float embedding_scale,
                                   const SelfConditioningNames& names)
    : embedding_scale_(embedding_scale),
      norm_(loader, names.norm, hidden_size, spec.norm),
      mlp_(loader, spec.mlp, hidden_size, mlp_names(names)),
      embedding_norm_(loader, {}, hidden_size, spec.embedding_norm) {}

TensorView<float> SelfConditioning::operator()(Communicator* comm, PartialSum embedding,
                                               const StepContext& step) const {
  if (comm == nullptr) step.count_sum(embedding);
  const TensorView<float> x = comm != nullptr ? all_reduce(*comm, std::move(embedding)) : embedding.shape();
  const Workspace::Frame frame(step.workspace);
  const std::vector<std::size_t> rows = conditioned_rows(step.batch, comm == nullptr);
  if (!rows.empty()) {
    const TensorView<float> soft = step.workspace.take(rows.size(), x.columns());
    const TensorView<float> addend = step.workspace.take(rows.size(), x.columns());
    for (std::size_t i = 0; i < rows.size() && !soft.empty(); ++i)
      std::copy_n(step.batch.states_before[rows[i]], soft.columns(), soft.row(i));
    if (comm != nullptr) {
      kernels::scale(embedding_scale_, soft);
      norm_.apply_in_place(soft);
    }
    StepContext own = step;
    const AdapterRows adapters = step.adapters != nullptr ? step.adapters->of(rows) : AdapterRows();
    if (step.adapters != nullptr) own.adapters = &adapters;
    PartialSum sum = mlp_(soft, own);
    if (comm == nullptr) {
      step.count_sum(sum);
      return x;
    }
    all_reduce(*comm, std::move(sum), addend);
    for (std::size_t i = 0; i < rows.size(); ++i)
      kernels::add(addend.rows_from(i, 1), x.rows_from(rows[i], 1));
  }
  for (std::size_t row = 0; row < step.batch.is_canvas.size() && comm != nullptr; ++row) {
    if (step.batch.is_canvas[row] != 0) embedding_norm_.apply_in_place(x.rows_from(row, 1));
  }
  return x;
}

}  // namespace tp
