#include "model/mlp.h"

#include "model/kernels/elementwise.h"

namespace tp {
namespace {

std::vector<OwnedRows> gate_up_rows(const GatedMlpSpec& spec, std::size_t hidden_size,
                                    const tensor_names::Block& names, Range columns) {
  const MatrixShape shape{spec.intermediate_size, hidden_size};
  const char* reason = "intermediate_size, hidden_size";
  return {{{names.gate_proj, shape, reason}, columns}, {{names.up_proj, shape, reason}, columns}};
}

}  // namespace

GatedMlp::GatedMlp(WeightLoader& loader, const GatedMlpSpec& spec, std::size_t hidden_size,
                   const tensor_names::Block& names)
    : GatedMlp(loader, spec, hidden_size, names, shard_columns(spec.intermediate_size, loader.part())) {}

GatedMlp::GatedMlp(WeightLoader& loader, const GatedMlpSpec& spec, std::size_t hidden_size,
                   const tensor_names::Block& names, Range columns)
    : local_size_(columns.size()),
      gate_up_proj_(loader, gate_up_rows(spec, hidden_size, names, columns), spec.bias),
      down_proj_(loader,
                 {names.down_proj, {hidden_size, spec.intermediate_size}, "hidden_size, intermediate_size"},
                 columns, spec.bias) {}

PartialSum GatedMlp::operator()(TensorView<const float> x, Workspace& workspace) const {
  const TensorView<float> gate_up = gate_up_proj_(x, workspace);          // [tokens, 2 * local_size]
  const TensorView<float> gated = workspace.take(x.rows(), local_size_);  // [tokens, local_size]
  kernels::silu_multiply(gate_up, gated);
  return down_proj_(gated, workspace);
}

std::size_t mlp_bytes(const GatedMlpSpec& spec, std::size_t hidden_size, RankOf part, WeightType type) {
  const std::size_t local_size = shard_columns(spec.intermediate_size, part).size();
  const std::size_t biases = spec.bias ? 2 * local_size + (part.is_first() ? hidden_size : 0) : 0;
  return kernels::PackedLayout{type, 2 * local_size, hidden_size}.bytes() +
         kernels::PackedLayout{type, hidden_size, local_size}.bytes() + biases * sizeof(float);
}

std::size_t count_mlp_parameters(const GatedMlpSpec& spec, std::size_t hidden_size, RankOf part) {
  const std::size_t local_size = shard_columns(spec.intermediate_size, part).size();
  return 2 * local_size * (hidden_size + (spec.bias ? 1 : 0)) + hidden_size * local_size +
         (spec.bias && part.is_first() ? hidden_size : 0);
}

std::size_t mlp_workspace(const GatedMlpSpec& spec, std::size_t hidden_size, RankOf part,
                          std::size_t tokens) {
  const std::size_t local_size = shard_columns(spec.intermediate_size, part).size();
  return multiply_workspace(tokens, 2 * local_size, hidden_size) + Workspace::footprint(tokens, local_size) +
         multiply_workspace(tokens, hidden_size, local_size);
}

}  // namespace tp
