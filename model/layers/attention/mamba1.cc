#include "model/layers/attention/mamba1.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/selective_scan.h"
#include "model/layers/linear/recurrent_runs.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tp {
namespace {

constexpr const char* kMamba1Channels = "the mixer's expand x hidden_size";
constexpr const char* kStepRank = "time_step_rank";
constexpr const char* kMamba1Parts = "time_step_rank + 2 x state_size";

Range channels_of(const Mamba1Spec& spec, Range units) {
  return {std::min(spec.channels, units.begin * spec.unit()),
          std::min(spec.channels, units.end * spec.unit())};
}

std::size_t mamba1_parts(const Mamba1Spec& spec) { return spec.dt_rank + 2 * spec.state_size; }

std::vector<OwnedRows> mamba1_in_rows(const Mamba1Spec& spec, std::size_t hidden_size,
                                      const std::string& name, Range own) {
  const StoredLayer layer{
      name, {2 * spec.channels, hidden_size}, "2 x the mixer's expand x hidden_size", "hidden_size"};
  return {{layer, own}, {layer, own, spec.channels}};
}

std::vector<OwnedRows> mamba1_dt_rows(const Mamba1Spec& spec, const std::string& name, Range own) {
  return {{{name, {spec.channels, spec.dt_rank}, kMamba1Channels, kStepRank}, own}};
}

// exp(A_log) of the owned channels, in blocks.
std::vector<float> load_channel_rates(WeightLoader& loader, const Mamba1Spec& spec, const std::string& name,
                                      Range own) {
  const StoredLayer layer{name, {spec.channels, spec.state_size}, kMamba1Channels, "state_size"};
  const std::vector<float> logs = loader.rows_of_tensor(layer, own);
  if (!loader.reads()) return {};
  std::vector<float> rates(kernels::selective_state_floats(own.size(), spec.state_size));
  for (std::size_t channel = 0; channel < own.size(); ++channel) {
    const std::size_t first = channel / kernels::kScanChannels * kernels::kScanChannels * spec.state_size +
                              channel % kernels::kScanChannels;
    for (std::size_t i = 0; i < spec.state_size; ++i)
      rates[first + i * kernels::kScanChannels] = std::exp(logs[channel * spec.state_size + i]);
  }
  return rates;
}

}  // namespace

std::optional<Mamba1::Norms> Mamba1::load_norms(WeightLoader& loader, const Mamba1Spec& spec,
                                                const Mamba1Names& names) {
  if (!spec.norm) return std::nullopt;
  return Norms{Norm(loader, names.dt_norm, spec.dt_rank, *spec.norm, kStepRank),
               Norm(loader, names.b_norm, spec.state_size, *spec.norm, "state_size"),
               Norm(loader, names.c_norm, spec.state_size, *spec.norm, "state_size")};
}

Mamba1::Mamba1(WeightLoader& loader, const Mamba1Spec& spec, std::size_t hidden_size, const BlockNames& names)
    : Mamba1(loader, spec, hidden_size, names, split_by_weights(spec.units(), loader.tp())) {}

Mamba1::Mamba1(WeightLoader& loader, const Mamba1Spec& spec, std::size_t hidden_size, const BlockNames& names,
               Range units)
    : spec_(spec),
      units_(units),
      own_(channels_of(spec, units)),
      in_proj_(loader, mamba1_in_rows(spec, hidden_size, names.mamba1.in_proj, own_), false),
      conv_(loader,
            {names.mamba1.conv, {spec.channels, spec.conv_kernel}, kMamba1Channels, "the kernel's width"},
            {own_}, true),
      x_proj_(loader,
              {names.mamba1.x_proj, {mamba1_parts(spec), spec.channels}, kMamba1Parts, kMamba1Channels}, own_,
              false, loader.leaf_of_heads(spec.unit())),
      norms_(load_norms(loader, spec, names.mamba1)),
      dt_proj_(loader, mamba1_dt_rows(spec, names.mamba1.dt_proj, own_), true),
      rate_(load_channel_rates(loader, spec, names.mamba1.decay, own_)),
      direct_(loader.part_of_vector(names.mamba1.direct, spec.channels, own_, kMamba1Channels)),
      out_proj_(loader, {names.mamba1.out_proj, {hidden_size, spec.channels}, "hidden_size", kMamba1Channels},
                own_, false, loader.leaf_of_heads(spec.unit())) {
  direct_.resize(kernels::padded(own_.size()));
}

std::size_t Mamba1::state_floats() const {
  return conv_.state_floats() + kernels::selective_state_floats(own_.size(), spec_.state_size);
}

std::vector<StatePart> Mamba1::state_parts() const {
  constexpr std::size_t kBlock = kernels::kScanChannels;
  std::vector<StatePart> parts;
  for (std::size_t unit = units_.begin; unit < units_.end; ++unit) {
    const std::size_t first = unit * spec_.unit() - own_.begin;
    const std::size_t end = std::min(first + spec_.unit(), own_.size());
    StatePart part{unit, {{first, spec_.conv_kernel - 1, own_.size(), end - first}}};
    for (std::size_t channel = first; channel < end; channel += kBlock)
      part.rows.push_back({conv_.state_floats() + channel * spec_.state_size, spec_.state_size, kBlock,
                           std::min(kBlock, end - channel)});
    parts.push_back(std::move(part));
  }
  return parts;
}

PartialSum Mamba1::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> projected = in_proj_(x, step);  // [tokens, 2 channels]
  const TensorView<float> mixed = conv_(projected.columns_from(0, own_.size()), Activation::silu, step);
  const TensorView<float> parts = project(mixed, step);
  const TensorView<float> steps = dt_proj_(parts.columns_from(0, spec_.dt_rank), step);
  if (!mixed.empty())
    kernels::selective_scan({.x = mixed,
                             .step = steps,
                             .b = parts.columns_from(spec_.dt_rank, spec_.state_size),
                             .c = parts.columns_from(spec_.dt_rank + spec_.state_size, spec_.state_size),
                             .rate = rate_,
                             .direct = direct_,
                             .out = mixed},
                            RecurrentRuns(step, conv_.state_floats()).all());
  kernels::multiply_activated(kernels::Activation::silu, projected.columns_from(own_.size(), own_.size()),
                              mixed);
  return out_proj_(mixed, step);
}

TensorView<float> Mamba1::project(TensorView<float> x, const StepContext& step) const {
  const TensorView<float> parts = step.workspace.take(x.rows(), mamba1_parts(spec_));
  {
    const Workspace::Frame frame(step.workspace);
    sum_or_count(step, x_proj_(x, step), parts);
  }
  if (norms_) {
    norms_->dt.apply_in_place(parts.columns_from(0, spec_.dt_rank));
    norms_->b.apply_in_place(parts.columns_from(spec_.dt_rank, spec_.state_size));
    norms_->c.apply_in_place(parts.columns_from(spec_.dt_rank + spec_.state_size, spec_.state_size));
  }
  return parts;
}

}  // namespace tp
