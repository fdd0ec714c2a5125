#include "model/layers/per_layer_inputs.h"

#include "model/kernels/elementwise.h"
#include "parallel/exchange/collectives.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace tp {
namespace {

constexpr const char* kInputsReason = "num_hidden_layers x hidden_size_per_layer_input";

float root_of(std::size_t number) { return std::sqrt(static_cast<float>(number)); }

}  // namespace

PerLayerInputs::PerLayerInputs(WeightLoader& loader, const PerLayerInputsSpec& spec, std::size_t layers,
                               std::size_t hidden_size, const PerLayerInputNames& names)
    : table_scale_(root_of(spec.size)),
      projection_scale_(1.0F / root_of(hidden_size)),
      table_(loader, names.embed_tokens, spec.vocab_size, layers * spec.size, "vocab_size_per_layer_input"),
      vocab_size_(spec.vocab_size),
      projection_(whole_layer(
          loader, {names.projection, {layers * spec.size, hidden_size}, kInputsReason, "hidden_size"})),
      norm_(loader, names.norm, spec.size, spec.norm, "hidden_size_per_layer_input") {}

void PerLayerInputs::compute(Communicator* comm, TensorView<const float> embedding, const StepContext& step,
                             TensorView<float> out) const {
  const Workspace::Frame frame(step.workspace);
  const std::vector<TokenId>& tokens = step.batch.tokens;
  const TensorView<float> rows = step.workspace.take(out.rows(), out.columns());
  for (std::size_t row = 0; row < tokens.size() && !rows.empty(); ++row) {
    const auto token = static_cast<std::size_t>(tokens[row]);
    if (!table_.copy_row(token < vocab_size_ ? token : 0, rows.row(row)))
      std::fill_n(rows.row(row), rows.columns(), 0.0F);
  }
  const TensorView<float> projected = projection_(embedding, step);
  PartialSum sum(rows);
  if (comm == nullptr) return step.count_sum(sum);
  all_reduce(*comm, std::move(sum), out);
  kernels::scale(projection_scale_, projected);
  norm_.apply_in_place(projected);
  kernels::scale(table_scale_, out);
  kernels::add(projected, out);
  kernels::scale(1.0F / std::numbers::sqrt2_v<float>, out);
}

}  // namespace tp
