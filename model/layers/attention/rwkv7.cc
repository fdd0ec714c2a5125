#include "model/layers/attention/rwkv7.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/wkv.h"
#include "model/layers/linear/recurrent_runs.h"

namespace tp {
namespace {

constexpr const char* kHiddenSize = "hidden_size";

Range own_heads(const Rwkv7Spec& spec, TpRank tp) {
  return shard_heads_of_some(spec.num_heads, spec.num_heads, tp).query_heads;
}

Range channels_of_heads(const Rwkv7Spec& spec, Range heads) {
  return {heads.begin * spec.head_dim, heads.end * spec.head_dim};
}

// Rows of a layer that has a row for each of `channels`.
ColumnParallelLinear load_channels(WeightLoader& loader, const std::string& name, std::size_t channels,
                                   Range own, std::size_t in_features, const char* in_reason, bool bias) {
  const std::vector<OwnedRows> rows = {{{name, {channels, in_features}, kHiddenSize, in_reason}, own}};
  return {loader, rows, bias};
}

ColumnParallelLinear load_down(WeightLoader& loader, const std::string& name, std::size_t rank,
                               const char* reason, std::size_t hidden_size) {
  return whole_layer(loader, {name, {rank, hidden_size}, reason, kHiddenSize});
}

// The norm of each head, whose gains and biases are parts of vectors.
std::vector<Norm> load_head_norms(WeightLoader& loader, const std::string& name, const Rwkv7Spec& spec,
                                  std::size_t channels, Range own) {
  const auto load = [&](const std::string& tensor) {
    return loader.part_of_vector(tensor, channels, own, kHiddenSize);
  };
  const std::vector<float> gains = load(tensor_names::weight_of(name));
  const std::vector<float> biases = load(tensor_names::bias_of(name));
  std::vector<Norm> norms;
  for (std::size_t first = 0; first < own.size(); first += spec.head_dim) {
    const auto of_head = [&](const std::vector<float>& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(spec.head_dim));
    };
    norms.emplace_back(spec.norm, of_head(gains), of_head(biases));
  }
  return norms;
}

}  // namespace

// A checkpoint has a vector for each input, or a matrix of them.
Rwkv7::Mixes Rwkv7::load_mixes(WeightLoader& loader, const Rwkv7Names& names, std::size_t hidden_size) {
  Mixes mixes;
  const std::array names_of_inputs = {&names.mix_r, &names.mix_w, &names.mix_k,
                                      &names.mix_v, &names.mix_a, &names.mix_g};
  static_assert(std::tuple_size_v<decltype(names_of_inputs)> == kInputs);
  const bool is_matrix = loader.source().contains(names.mix_all);
  std::vector<float> all;
  if (is_matrix)
    all = loader.rows_of_tensor({names.mix_all, {kInputs, hidden_size}, "one row per input", kHiddenSize},
                                {0, kInputs});
  for (std::size_t input = 0; input < kInputs; ++input) {
    if (!is_matrix) {
      mixes[input] = loader.whole_vector(*names_of_inputs[input], hidden_size, kHiddenSize);
      continue;
    }
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(input * hidden_size);
    mixes[input].assign(begin, begin + static_cast<std::ptrdiff_t>(hidden_size));
  }
  return mixes;
}

Rwkv7::Rwkv7(WeightLoader& loader, const Rwkv7Spec& spec, std::size_t hidden_size, const BlockNames& names)
    : Rwkv7(loader, spec, hidden_size, names.rwkv7, own_heads(spec, loader.tp()),
            channels_of_heads(spec, own_heads(spec, loader.tp()))) {}

Rwkv7::Rwkv7(WeightLoader& loader, const Rwkv7Spec& spec, std::size_t hidden_size, const Rwkv7Names& names,
             Range heads, Range own)
    : spec_(spec),
      heads_(heads),
      own_(own),
      shift_(hidden_size),
      mixes_(load_mixes(loader, names, hidden_size)),
      r_proj_(load_channels(loader, names.r_proj, hidden_size, own, hidden_size, kHiddenSize, false)),
      k_proj_(load_channels(loader, names.k_proj, hidden_size, own, hidden_size, kHiddenSize, false)),
      v_proj_(load_channels(loader, names.v_proj, hidden_size, own, hidden_size, kHiddenSize, false)),
      decay_{load_down(loader, names.decay_down, spec.decay_rank, "decay_low_rank_dim", hidden_size),
             load_channels(loader, names.decay_up, hidden_size, own, spec.decay_rank, "decay_low_rank_dim",
                           true)},
      strength_{load_down(loader, names.strength_down, spec.strength_rank, "a_low_rank_dim", hidden_size),
                load_channels(loader, names.strength_up, hidden_size, own, spec.strength_rank,
                              "a_low_rank_dim", true)},
      gate_{
          load_down(loader, names.gate_down, spec.gate_rank, "gate_low_rank_dim", hidden_size),
          load_channels(loader, names.gate_up, hidden_size, own, spec.gate_rank, "gate_low_rank_dim", false)},
      removal_gain_(loader.part_of_vector(names.removal_gain, hidden_size, own, kHiddenSize)),
      key_gain_(loader.part_of_vector(names.key_gain, hidden_size, own, kHiddenSize)),
      bonus_(loader.rows_of_tensor(
          {names.bonus, {spec.num_heads, spec.head_dim}, "hidden_size / head_dim", "head_dim"}, heads)),
      norms_(load_head_norms(loader, names.norm, spec, hidden_size, own)),
      o_proj_(loader, {names.o_proj, {hidden_size, hidden_size}, kHiddenSize, kHiddenSize}, own, false,
              loader.leaf_of_heads(spec.head_dim)) {
  if (!spec.is_first)
    value_share_.emplace(LowRank{
        load_down(loader, names.value_down, spec.value_rank, "v_low_rank_dim", hidden_size),
        load_channels(loader, names.value_up, hidden_size, own, spec.value_rank, "v_low_rank_dim", true)});
}

std::size_t Rwkv7::state_floats() const {
  return shift_.state_floats() + heads_.size() * kernels::wkv_head_floats(spec_.head_dim);
}

std::vector<StatePart> Rwkv7::state_parts() const {
  std::vector<StatePart> parts = {{0, {shift_.state_rows()}}};
  const std::size_t floats = kernels::wkv_head_floats(spec_.head_dim);
  for (std::size_t head = heads_.begin; head < heads_.end; ++head)
    parts.push_back(
        {1 + head, {{.begin = shift_.state_floats() + (head - heads_.begin) * floats, .floats = floats}}});
  return parts;
}

PartialSum Rwkv7::operator()(TensorView<const float> x, const StepContext& step) const {
  const Projected projected = project(x, step);
  const TensorView<float> out = recur(projected, step);
  kernels::multiply(projected.gate, out);
  return o_proj_(out, step);
}

Rwkv7::Projected Rwkv7::project(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> shift = shift_(x, step);
  const TensorView<float> mixed = step.workspace.take(x.rows(), x.columns());
  const auto mix = [&](Input input) {
    kernels::mix_shifted(x, shift, mixes_[input], mixed);
    return TensorView<const float>(mixed);
  };
  Projected projected;
  projected.receptance = r_proj_(mix(kReceptance), step);
  const TensorView<float> decay = decay_.down(mix(kDecay), step);
  kernels::softcap(1.0F, decay);  // tanh
  projected.decay = decay_.up(decay, step);
  projected.key = k_proj_(mix(kKey), step);
  projected.value = v_proj_(mix(kValue), step);
  mix_with_first(mixed, projected.value, step);
  projected.strength = strength_.up(strength_.down(mix(kStrength), step), step);
  const TensorView<float> gate = gate_.down(mix(kGate), step);
  kernels::activate(Activation::sigmoid, gate);
  projected.gate = gate_.up(gate, step);
  return projected;
}

void Rwkv7::mix_with_first(TensorView<const float> input, TensorView<float> value,
                           const StepContext& step) const {
  if (value_share_) {
    kernels::mix_values(step.first_values, value_share_->up(value_share_->down(input, step), step), value);
    return;
  }
  kernels::clear(step.first_values);
  kernels::add(value, step.first_values);
}

TensorView<float> Rwkv7::recur(const Projected& projected, const StepContext& step) const {
  const TensorView<float> removal = step.workspace.take(projected.key.rows(), own_.size());
  const TensorView<float> out = step.workspace.take(projected.key.rows(), own_.size());
  if (out.empty()) return out;
  kernels::wkv_inputs({.key = projected.key,
                       .decay = projected.decay,
                       .strength = projected.strength,
                       .removal = removal,
                       .removal_gain = removal_gain_,
                       .key_gain = key_gain_,
                       .head_dim = spec_.head_dim});
  kernels::wkv_scan({.receptance = projected.receptance,
                     .decay = projected.decay,
                     .key = projected.key,
                     .value = projected.value,
                     .removal = removal,
                     .correction = projected.strength,
                     .head_dim = spec_.head_dim,
                     .out = out},
                    RecurrentRuns(step, shift_.state_floats()).all());
  for (std::size_t head = 0; head < norms_.size(); ++head)
    norms_[head].apply_in_place(out.columns_from(head * spec_.head_dim, spec_.head_dim));
  kernels::add_wkv_bonus({.receptance = projected.receptance,
                          .key = projected.key,
                          .value = projected.value,
                          .weight = bonus_,
                          .head_dim = spec_.head_dim},
                         out);
  return out;
}

}  // namespace tp
