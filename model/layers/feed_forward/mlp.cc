#include "model/layers/feed_forward/mlp.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/gate_cutoff.h"
#include "model/kernels/projection_norm.h"
#include "model/kernels/wkv.h"
#include "model/weights/stored_projection.h"

#include <algorithm>
#include <cmath>

namespace tp {
namespace {

std::vector<OwnedRows> gate_up_rows(const WeightSource& source, const GatedMlpSpec& spec,
                                    std::size_t hidden_size, const BlockNames& names, Range columns) {
  const StoredGateUp stored = stored_gate_up(source, names, spec.intermediate_size, hidden_size);
  std::vector<OwnedRows> rows;
  stored.gate.append_rows(columns, rows);
  stored.up.append_rows(columns, rows);
  return rows;
}

StoredLayer stored_up(const PlainMlpSpec& spec, std::size_t hidden_size, const BlockNames& names) {
  return {names.up_proj,
          {spec.intermediate_size, hidden_size},
          "intermediate_size",
          "hidden_size",
          names.transposed};
}

StoredLayer stored_down(std::size_t intermediate_size, std::size_t hidden_size, const BlockNames& names) {
  return {names.down_proj,
          {hidden_size, intermediate_size},
          "hidden_size",
          "intermediate_size",
          names.transposed};
}

// The checkpoint stores alpha_p and alpha_n before softplus, which makes them positive.
std::optional<kernels::Xielu> load_xielu(WeightLoader& loader, const PlainMlpSpec& spec,
                                         const std::string& names) {
  if (!spec.learned_xielu) return std::nullopt;
  const auto number = [&](const char* name) {
    return loader.whole_vector(names + name, 1, "xIELU has one for a layer").front();
  };
  const auto softplus = [](float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x))); };
  const float linear = number("beta");
  return kernels::Xielu{.positive = softplus(number("alpha_p")),
                        .negative = linear + softplus(number("alpha_n")),
                        .linear = linear,
                        .eps = number("eps")};
}

}  // namespace

GatedMlp::GatedMlp(WeightLoader& loader, const GatedMlpSpec& spec, std::size_t hidden_size,
                   const BlockNames& names)
    : GatedMlp(loader, spec, hidden_size, names, loader.own_columns(spec.intermediate_size)) {}

GatedMlp::GatedMlp(WeightLoader& loader, const GatedMlpSpec& spec, std::size_t hidden_size,
                   const BlockNames& names, Range columns)
    : activation_(spec.activation),
      gate_scale_(spec.gate_scale),
      output_scale_(spec.output_scale),
      limit_(spec.limit),
      limits_gate_(spec.limits_gate),
      situ_(spec.situ),
      gate_cutoff_(spec.gate_cutoff),
      intermediate_size_(spec.intermediate_size),
      leaf_(loader.leaf_of_columns(spec.intermediate_size)),
      gate_up_proj_(loader, gate_up_rows(loader.source(), spec, hidden_size, names, columns), spec.bias),
      down_proj_(loader, stored_down(spec.intermediate_size, hidden_size, names), columns,
                 spec.bias || spec.down_bias, leaf_) {}

void GatedMlp::cut_off(TensorView<float> gate, const StepContext& step) const {
  const Workspace::Frame frame(step.workspace);
  const TensorView<double> own = step.workspace.take_doubles(gate.rows(), 2);
  const TensorView<float> sums = step.workspace.take(gate.rows(), 2);
  kernels::sum_moments(gate, leaf_, own);
  sum_or_count(step, PartialSum(own, kernels::kExactSquaresBelow), sums);
  kernels::cut_off(sums, intermediate_size_, *gate_cutoff_, gate);
}

PartialSum GatedMlp::scaled(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> gate_up = gate_up_proj_(x, step);
  const std::size_t size = gate_up.columns() / 2;
  const TensorView<float> gated = step.workspace.take(x.rows(), size);
  if (gate_scale_ != 1.0F) kernels::scale(gate_scale_, gate_up.columns_from(0, size));
  if (gate_cutoff_) cut_off(gate_up.columns_from(0, size), step);
  if (situ_)
    kernels::situ_and_multiply(*situ_, gate_up, gated);
  else if (limit_ != 0.0F)
    kernels::activate_limit_and_multiply(activation_, limit_, limits_gate_, gate_up, gated);
  else
    kernels::activate_and_multiply(activation_, gate_up, gated);
  if (output_scale_ != 1.0F) kernels::scale(output_scale_, gated);
  return down_proj_(gated, step);
}

PartialSum GatedMlp::operator()(TensorView<const float> x, const StepContext& step) const {
  const bool has_factors = gate_scale_ != 1.0F || output_scale_ != 1.0F;
  if (has_factors || limit_ != 0.0F || gate_cutoff_ || situ_) return scaled(x, step);
  // [tokens, local_size]
  const LocalActivations gated = gate_up_proj_.gated_for(down_proj_, x, activation_, step);
  return down_proj_(gated, step);
}

PlainMlp::PlainMlp(WeightLoader& loader, const PlainMlpSpec& spec, std::size_t hidden_size,
                   const BlockNames& names)
    : PlainMlp(loader, spec, hidden_size, names, loader.own_columns(spec.intermediate_size)) {}

PlainMlp::PlainMlp(WeightLoader& loader, const PlainMlpSpec& spec, std::size_t hidden_size,
                   const BlockNames& names, Range columns)
    : activation_(spec.activation),
      xielu_(load_xielu(loader, spec, names.activation)),
      shift_(spec.token_shift ? std::optional(TokenShift(hidden_size)) : std::nullopt),
      share_(spec.token_shift ? loader.whole_vector(names.rwkv7.channel_mix, hidden_size, "hidden_size")
                              : std::vector<float>()),
      up_proj_(loader, std::vector<OwnedRows>{{stored_up(spec, hidden_size, names), columns}}, spec.bias),
      down_proj_(loader, stored_down(spec.intermediate_size, hidden_size, names), columns, spec.bias,
                 loader.leaf_of_columns(spec.intermediate_size)) {}

PartialSum PlainMlp::operator()(TensorView<const float> x, const StepContext& step) const {
  TensorView<const float> input = x;
  if (shift_) {
    const TensorView<float> mixed = (*shift_)(x, step);
    kernels::mix_shifted(x, mixed, share_, mixed);
    input = mixed;
  }
  const TensorView<float> up = up_proj_(input, step);  // [tokens, local_size]
  if (xielu_)
    kernels::xielu(*xielu_, up);
  else
    kernels::activate(activation_, up);
  return down_proj_(up, step);
}

}  // namespace tp
