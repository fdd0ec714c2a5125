#include "model/layers/next_token_input.h"

#include "parallel/exchange/collectives.h"

#include <algorithm>

namespace tp {

NextTokenInput::NextTokenInput(WeightLoader& loader, const NextTokenNames& names, std::size_t hidden_size,
                               const NextTokenSpec& spec)
    : embedding_norm_(loader, names.embedding_norm, hidden_size, spec.norm),
      state_norm_(loader, names.state_norm, hidden_size, spec.norm),
      columns_(loader.own_columns(2 * hidden_size)),
      projection_(loader,
                  {names.projection, {hidden_size, 2 * hidden_size}, "hidden_size", "2 * hidden_size"},
                  columns_, false, loader.leaf_of_columns(2 * hidden_size)) {}

TensorView<float> NextTokenInput::operator()(Communicator* comm, PartialSum embedding,
                                             const StepContext& step) const {
  const std::size_t tokens = embedding.shape().rows();
  const std::size_t size = embedding.shape().columns();
  const TensorView<float> input = step.workspace.take(tokens, size);
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> states = step.workspace.take(tokens, size);
  const TensorView<float> own = step.workspace.take(tokens, columns_.size());
  if (comm == nullptr) {
    step.count_sum(embedding);
    step.count_sum(projection_(own, step));
    return input;
  }
  const TensorView<float> vectors = all_reduce(*comm, std::move(embedding));
  for (std::size_t row = 0; row < tokens; ++row) {
    const float* const state = step.batch.states_before[row];
    if (state != nullptr)
      std::copy_n(state, size, states.row(row));
    else
      std::fill_n(states.row(row), size, 0.0F);
  }
  embedding_norm_.apply_in_place(vectors);
  state_norm_.apply_in_place(states);
  const Range of_vectors = {std::min(columns_.begin, size), std::min(columns_.end, size)};
  const Range of_states = {std::max(columns_.begin, size) - size, std::max(columns_.end, size) - size};
  for (std::size_t row = 0; row < tokens; ++row) {
    float* const behind = std::copy_n(vectors.row(row) + of_vectors.begin, of_vectors.size(), own.row(row));
    std::copy_n(states.row(row) + of_states.begin, of_states.size(), behind);
  }
  all_reduce(*comm, projection_(own, step), input);
  return input;
}

}  // namespace tp
