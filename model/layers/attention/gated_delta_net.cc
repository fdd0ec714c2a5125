#include "model/layers/attention/gated_delta_net.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/recurrent_inputs.h"
#include "model/layers/linear/recurrent_runs.h"
#include "model/weights/stored_projection.h"

#include <cmath>
#include <utility>

namespace tp {
namespace {

// Added to a query's or key's sum of squares before the square root is taken, as in the original code.
constexpr float kSquaresEps = 1e-6F;

constexpr const char* kGateRank = "linear_key_head_dim";
constexpr const char* kKeyRows = "linear_num_key_heads x linear_key_head_dim";
constexpr const char* kValueRows = "linear_num_value_heads x linear_value_head_dim";
constexpr const char* kDecays = "the number of decays";
constexpr const char* kChannelRows =
    "2 x linear_num_key_heads x linear_key_head_dim + linear_num_value_heads x linear_value_head_dim";

struct StoredDeltaNet {
  StoredProjection query{};  // [num_key_heads * key_head_dim, hidden_size]
  StoredProjection key{};    // [num_key_heads * key_head_dim, hidden_size]
  StoredProjection value{};  // [num_value_heads * value_head_dim, hidden_size]
  StoredProjection gate{};   // [num_value_heads * value_head_dim, hidden_size], or [gate_rank, hidden_size]
  StoredProjection strength{};  // [num_value_heads, hidden_size]
  StoredProjection decay{};     // [num_value_heads, hidden_size], or [gate_rank, hidden_size]
};

StoredLayer delta_layer(const std::string& name, std::size_t rows, std::size_t hidden_size,
                        const char* reason) {
  return {name, {rows, hidden_size}, reason, "hidden_size"};
}

StoredProjection whole_layer(const std::string& name, std::size_t rows, std::size_t hidden_size,
                             const char* reason) {
  return {delta_layer(name, rows, hidden_size, reason), 0, rows, rows};
}

void find_gates(const WeightSource& source, const GatedDeltaNetNames& names, const GatedDeltaNetSpec& spec,
                std::size_t hidden_size, StoredDeltaNet& stored) {
  const std::size_t all = spec.num_value_heads;
  if (source.contains(tensor_names::weight_of(names.in_proj_b))) {
    const char* const reason = "linear_num_value_heads";
    stored.strength = whole_layer(names.in_proj_b, all, hidden_size, reason);
    stored.decay = whole_layer(names.in_proj_a, all, hidden_size, reason);
    return;
  }
  const std::size_t heads = all / spec.num_key_heads;  // value heads per key head
  const StoredLayer ba = delta_layer(names.in_proj_ba, 2 * all, hidden_size, "2 x linear_num_value_heads");
  stored.strength = {ba, 0, heads, 2 * heads};
  stored.decay = {ba, heads, heads, 2 * heads};
}

// Kimi delta attention and OLMo-Hybrid store each projection as a layer.
StoredDeltaNet stored_separately(const GatedDeltaNetNames& names, const GatedDeltaNetSpec& spec,
                                 std::size_t hidden_size) {
  const std::size_t keys = spec.num_key_heads * spec.key_head_dim;
  const std::size_t values = spec.num_value_heads * spec.value_head_dim;
  const bool has_rank = spec.gate_rank != 0;
  return {
      .query = whole_layer(names.q_proj, keys, hidden_size, kKeyRows),
      .key = whole_layer(names.k_proj, keys, hidden_size, kKeyRows),
      .value = whole_layer(names.v_proj, values, hidden_size, kValueRows),
      .gate = spec.output_gate_rank() != 0
                  ? whole_layer(names.gate_down, spec.gate_rank, hidden_size, kGateRank)
                  : whole_layer(names.in_proj_z, values, hidden_size, kValueRows),
      .strength = whole_layer(names.in_proj_b, spec.num_value_heads, hidden_size, "linear_num_value_heads"),
      .decay = has_rank ? whole_layer(names.decay_down, spec.gate_rank, hidden_size, kGateRank)
                        : whole_layer(names.in_proj_a, spec.num_value_heads * spec.decays(), hidden_size,
                                      kDecays)};
}

// Rows of in_proj_qkvz and in_proj_ba are grouped by key head; a group includes the value heads that read its
// key head. in_proj_qkv contains all queries, then all keys, then all values.
StoredDeltaNet stored_delta_net(const WeightSource& source, const GatedDeltaNetNames& names,
                                const GatedDeltaNetSpec& spec, std::size_t hidden_size) {
  if (spec.separate) return stored_separately(names, spec, hidden_size);
  const std::size_t key = spec.key_head_dim;
  const std::size_t value = spec.num_value_heads / spec.num_key_heads * spec.value_head_dim;
  const std::size_t all_keys = spec.num_key_heads * key;
  const std::size_t all_values = spec.num_key_heads * value;
  StoredDeltaNet stored;
  find_gates(source, names, spec, hidden_size, stored);
  if (source.contains(tensor_names::weight_of(names.in_proj_qkvz))) {
    const StoredLayer all = delta_layer(
        names.in_proj_qkvz, 2 * all_keys + 2 * all_values, hidden_size,
        "2 x (linear_num_key_heads x linear_key_head_dim + linear_num_value_heads x linear_value_head_dim)");
    const std::size_t stride = 2 * key + 2 * value;
    stored.query = {all, 0, key, stride};
    stored.key = {all, key, key, stride};
    stored.value = {all, 2 * key, value, stride};
    stored.gate = {all, 2 * key + value, value, stride};
    return stored;
  }
  const StoredLayer qkv =
      delta_layer(names.in_proj_qkv, 2 * all_keys + all_values, hidden_size, kChannelRows);
  stored.query = {qkv, 0, all_keys, all_keys};
  stored.key = {qkv, all_keys, all_keys, all_keys};
  stored.value = {qkv, 2 * all_keys, all_values, all_values};
  stored.gate = whole_layer(names.in_proj_z, all_values, hidden_size, kValueRows);
  return stored;
}

Range elements_of(Range heads, std::size_t size) { return {heads.begin * size, heads.end * size}; }

std::vector<OwnedRows> delta_rows(const WeightLoader& loader, const GatedDeltaNetNames& names,
                                  const GatedDeltaNetSpec& spec, std::size_t hidden_size,
                                  const HeadShard& heads) {
  const StoredDeltaNet stored = stored_delta_net(loader.source(), names, spec, hidden_size);
  const Range keys = elements_of(heads.kv_heads, spec.key_head_dim);
  const Range values = elements_of(heads.query_heads, spec.value_head_dim);
  std::vector<OwnedRows> rows;
  stored.query.append_rows(keys, rows);
  stored.key.append_rows(keys, rows);
  stored.value.append_rows(values, rows);
  const Range rank{0, spec.gate_rank};
  stored.gate.append_rows(spec.output_gate_rank() == 0 ? values : rank, rows);
  stored.strength.append_rows(heads.query_heads, rows);
  stored.decay.append_rows(spec.gate_rank == 0 ? elements_of(heads.query_heads, spec.decays()) : rank, rows);
  return rows;
}

// The second layer of a pair; nothing if there is only one layer.
std::optional<ColumnParallelLinear> load_up(WeightLoader& loader, const GatedDeltaNetSpec& spec,
                                            std::size_t rank, const std::string& name, Range heads,
                                            std::size_t head_rows, const char* reason) {
  if (rank == 0) return std::nullopt;
  const StoredLayer layer{name, {spec.num_value_heads * head_rows, rank}, reason, kGateRank};
  const std::vector<OwnedRows> rows = {{layer, elements_of(heads, head_rows)}};
  return ColumnParallelLinear(loader, rows, false);
}

// A head's rate, for each of its decays. The checkpoint contains logarithms.
std::vector<float> load_rates(WeightLoader& loader, const std::string& name, const GatedDeltaNetSpec& spec,
                              Range heads) {
  std::vector<float> rates;
  for (const float log : loader.part_of_vector(name, spec.num_value_heads, heads, "linear_num_value_heads"))
    rates.insert(rates.end(), spec.decays(), std::exp(log));
  return rates;
}

std::vector<OwnedChannels> delta_channels(const GatedDeltaNetNames& names, const GatedDeltaNetSpec& spec,
                                          const HeadShard& heads) {
  const std::size_t all_keys = spec.num_key_heads * spec.key_head_dim;
  const std::size_t all_values = spec.num_value_heads * spec.value_head_dim;
  const Range keys = elements_of(heads.kv_heads, spec.key_head_dim);
  const Range values = elements_of(heads.query_heads, spec.value_head_dim);
  const auto layer = [&](const std::string& name, std::size_t channels, const char* reason) {
    return StoredLayer{name, {channels, spec.conv_kernel}, reason, "linear_conv_kernel_dim"};
  };
  if (!names.q_conv.empty())
    return {{layer(names.q_conv, all_keys, kKeyRows), {keys}},
            {layer(names.k_conv, all_keys, kKeyRows), {keys}},
            {layer(names.v_conv, all_values, kValueRows), {values}}};
  const auto from = [](std::size_t first, Range channels) {
    return Range{first + channels.begin, first + channels.end};
  };
  return {{layer(names.conv, 2 * all_keys + all_values, kChannelRows),
           {keys, from(all_keys, keys), from(2 * all_keys, values)}}};
}

}  // namespace

DeltaNetSizes::DeltaNetSizes(const GatedDeltaNetSpec& spec, TpRank tp)
    : heads(shard_heads_of_some(spec.num_value_heads, spec.num_key_heads, tp)),
      key(heads.local_kv_heads() * spec.key_head_dim),
      value(heads.local_heads() * spec.value_head_dim),
      gate(spec.output_gate_rank() != 0 ? spec.output_gate_rank() : value),
      decay(spec.gate_rank != 0 ? spec.gate_rank : heads.local_heads() * spec.decays()) {}

kernels::DeltaShape DeltaNetSizes::shape(const GatedDeltaNetSpec& spec) const {
  return {.key_heads = heads.local_kv_heads(),
          .value_heads = heads.local_heads(),
          .key_dim = spec.key_head_dim,
          .value_dim = spec.value_head_dim,
          .decays_rows = spec.element_decays};
}

GatedDeltaNet::GatedDeltaNet(WeightLoader& loader, const GatedDeltaNetSpec& spec, std::size_t hidden_size,
                             const BlockNames& names)
    : GatedDeltaNet(loader, spec, hidden_size, names, DeltaNetSizes(spec, loader.tp())) {}

GatedDeltaNet::GatedDeltaNet(WeightLoader& loader, const GatedDeltaNetSpec& spec, std::size_t hidden_size,
                             const BlockNames& names, const DeltaNetSizes& sizes)
    : spec_(spec),
      sizes_(sizes),
      in_proj_(loader, delta_rows(loader, names.delta_net, spec, hidden_size, sizes.heads), false),
      gate_up_(load_up(loader, spec, spec.output_gate_rank(), names.delta_net.gate_up,
                       sizes.heads.query_heads, spec.value_head_dim, kValueRows)),
      decay_up_(load_up(loader, spec, spec.gate_rank, names.delta_net.decay_up, sizes.heads.query_heads,
                        spec.decays(), "linear_num_value_heads x linear_key_head_dim")),
      conv_(loader, delta_channels(names.delta_net, spec, sizes.heads), false),
      decay_rate_(load_rates(loader, names.delta_net.decay, spec, sizes.heads.query_heads)),
      decay_bias_(loader.part_of_vector(names.delta_net.decay_bias, spec.num_value_heads * spec.decays(),
                                        elements_of(sizes.heads.query_heads, spec.decays()), kDecays)),
      norm_(loader, names.delta_net.norm, spec.value_head_dim, spec.norm),
      out_proj_(loader,
                {names.delta_net.out_proj,
                 {hidden_size, spec.num_value_heads * spec.value_head_dim},
                 "hidden_size",
                 kValueRows},
                elements_of(sizes.heads.query_heads, spec.value_head_dim), false,
                loader.leaf_of_heads(spec.value_head_dim)) {
  for (std::size_t head = 0; head < sizes.heads.local_heads(); ++head)
    key_of_head_.push_back(sizes.heads.local_kv_of(head));
  // With key_gain_, an RMS norm scales keys to length 1. query_gain_ also includes attention's scale, 1 /
  // sqrt(size).
  const auto size = static_cast<float>(spec.key_head_dim);
  key_gain_.assign(spec.key_head_dim, 1.0F / std::sqrt(size));
  query_gain_.assign(spec.key_head_dim, 1.0F / size);
}

std::size_t GatedDeltaNet::state_floats() const {
  return conv_.state_floats() + sizes_.shape(spec_).floats();
}

std::vector<StatePart> GatedDeltaNet::state_parts() const {
  const std::size_t key_dim = spec_.key_head_dim;
  const std::size_t value_dim = spec_.value_head_dim;
  const auto inputs = [&](std::size_t channel, std::size_t count) {
    return StatePart::Rows{channel, spec_.conv_kernel - 1, sizes_.channels(), count};
  };
  const kernels::DeltaShape shape = sizes_.shape(spec_);
  std::vector<StatePart> parts;
  for (std::size_t head = 0; head < shape.key_heads; ++head) {
    StatePart part{sizes_.heads.kv_heads.begin + head, rows_of_key_head(shape, conv_.state_floats(), head)};
    part.rows.push_back(inputs(head * key_dim, key_dim));
    part.rows.push_back(inputs(sizes_.key + head * key_dim, key_dim));
    parts.push_back(std::move(part));
  }
  for (std::size_t head = 0; head < shape.value_heads; ++head) {
    StatePart part{spec_.num_key_heads + sizes_.heads.query_heads.begin + head,
                   rows_of_value_head(shape, conv_.state_floats(), head)};
    part.rows.push_back(inputs(2 * sizes_.key + head * value_dim, value_dim));
    parts.push_back(std::move(part));
  }
  return parts;
}

PartialSum GatedDeltaNet::operator()(TensorView<const float> x, const StepContext& step) const {
  const std::size_t heads = key_of_head_.size();
  const TensorView<float> projected = in_proj_(x, step);  // [tokens, channels + gate + heads + decay]
  const std::size_t strengths = sizes_.channels() + sizes_.gate;
  const auto expand = [&](const std::optional<ColumnParallelLinear>& up, TensorView<float> part) {
    return up ? (*up)(part, step) : part;
  };
  const TensorView<float> gate = expand(gate_up_, projected.columns_from(sizes_.channels(), sizes_.gate));
  const TensorView<float> decay = expand(decay_up_, projected.columns_from(strengths + heads, sizes_.decay));
  const TensorView<float> mixed = conv_(projected.columns_from(0, sizes_.channels()), Activation::silu, step);
  const TensorView<float> result = recur(mixed, decay, projected.columns_from(strengths, heads), step);
  norm_.apply_in_place(result);
  kernels::multiply_activated(spec_.gate, gate, result);
  return out_proj_(result, step);
}

TensorView<float> GatedDeltaNet::recur(TensorView<float> mixed, TensorView<float> decay,
                                       TensorView<float> strength, const StepContext& step) const {
  const kernels::DeltaShape shape = sizes_.shape(spec_);
  const TensorView<float> out = step.workspace.take(mixed.rows(), sizes_.value);
  const TensorView<float> scratch = step.workspace.take_per_thread(kernels::delta_scratch(shape));
  const TensorView<float> dots = step.workspace.take(mixed.rows(), kernels::delta_dots(shape, true));
  if (mixed.empty()) return out;
  const TensorView<float> query = mixed.columns_from(0, sizes_.key);
  const TensorView<float> key = mixed.columns_from(sizes_.key, sizes_.key);
  const float eps = kSquaresEps / static_cast<float>(spec_.key_head_dim);
  kernels::rms_norm(query, query_gain_, eps, query);
  kernels::rms_norm(key, key_gain_, eps, key);
  kernels::delta_gates({spec_.decay_floor, spec_.strength_scale}, decay_rate_, decay_bias_, decay, strength);
  kernels::delta_rule({.query = query,
                       .key = key,
                       .value = mixed.columns_from(2 * sizes_.key, sizes_.value),
                       .decay = decay,
                       .strength = strength,
                       .key_of_head = key_of_head_,
                       .shape = shape,
                       .scratch = scratch,
                       .dots = dots,
                       .out = out},
                      RecurrentRuns(step, conv_.state_floats()).all());
  return out;
}

}  // namespace tp
