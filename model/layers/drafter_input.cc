#include "model/layers/drafter_input.h"

#include "parallel/exchange/collectives.h"

#include <algorithm>

namespace tp {
namespace {

std::optional<Norm> load_state_norm(WeightLoader& loader, const std::string& name, std::size_t hidden_size,
                                    const DrafterSpec& spec) {
  if (!spec.norms_state) return std::nullopt;
  return Norm(loader, name, hidden_size, spec.norm);
}

void copy_states(const std::vector<const float*>& states, TensorView<float> out) {
  for (std::size_t row = 0; row < out.rows(); ++row) {
    if (states[row] != nullptr)
      std::copy_n(states[row], out.columns(), out.row(row));
    else
      std::fill_n(out.row(row), out.columns(), 0.0F);
  }
}

}  // namespace

DrafterInput::DrafterInput(WeightLoader& loader, const BlockNames& names, std::size_t hidden_size,
                           const DrafterSpec& spec)
    : embedding_norm_(loader, names.drafter.embedding_norm, hidden_size, spec.norm),
      projection_(loader, names.drafter, hidden_size, spec),
      state_norm_(load_state_norm(loader, names.drafter.state_norm, hidden_size, spec)) {}

TensorView<float> DrafterInput::operator()(Communicator* comm, PartialSum embedding, const StepContext& step,
                                           TensorView<float> vectors) const {
  const TensorView<float> states = step.workspace.take(vectors.rows(), vectors.columns());
  const Workspace::Frame frame(step.workspace);
  if (comm == nullptr) {
    step.count_sum(embedding);
    step.count_sum(projection_(step));
    return states;
  }
  all_reduce(*comm, std::move(embedding), vectors);
  embedding_norm_.apply_in_place(vectors);
  if (step.batch.own_states)
    copy_states(step.batch.states_before, states);
  else
    all_reduce(*comm, projection_(step), states);
  if (state_norm_) state_norm_->apply_in_place(states);
  return states;
}

}  // namespace tp
