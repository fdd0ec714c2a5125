#include "model/layers/attention/mamba.h"

#include "model/kernels/delta_rule.h"
#include "model/kernels/elementwise.h"
#include "model/kernels/recurrent_inputs.h"
#include "model/layers/linear/recurrent_runs.h"

#include <array>
#include <cmath>
#include <utility>

namespace tp {
namespace {

constexpr const char* kMambaHeads = "the mixer's heads";
constexpr const char* kMambaInner = "the mixer's heads x their size";
constexpr const char* kMambaChannels = "the mixer's heads x their size + 2 x groups x state size";

HeadShard mamba_shard(const MambaSpec& spec, TpRank tp) {
  const HeadCounts counts = head_counts(spec);
  return shard_heads_of_some(counts.heads, counts.kv_heads, tp, counts.granule);
}

// The last heads of all ranks, plus 1.
std::vector<std::size_t> mamba_ends(const MambaSpec& spec, TpRank tp) {
  std::vector<std::size_t> ends;
  for (std::size_t rank = 0; rank < tp.size; ++rank)
    ends.push_back(mamba_shard(spec, {rank, tp.size, tp.split}).query_heads.end);
  return ends;
}

Range places_of(Range parts, std::size_t size, std::size_t first = 0) {
  return {first + parts.begin * size, first + parts.end * size};
}

std::size_t mamba_inner(const MambaSpec& spec) { return spec.num_heads * spec.head_dim; }
std::size_t mamba_state(const MambaSpec& spec) { return spec.num_groups * spec.state_size; }

// The owned channels of x, B and C, where those of x begin at `first`.
std::array<Range, 3> mamba_channels(const MambaSpec& spec, const HeadShard& heads, std::size_t first) {
  const std::size_t b = first + mamba_inner(spec);
  return {places_of(heads.query_heads, spec.head_dim, first), places_of(heads.kv_heads, spec.state_size, b),
          places_of(heads.kv_heads, spec.state_size, b + mamba_state(spec))};
}

std::vector<OwnedRows> mamba_rows(const MambaSpec& spec, std::size_t hidden_size, const std::string& name,
                                  const HeadShard& heads) {
  const std::size_t inner = mamba_inner(spec);
  const std::size_t dt = 2 * inner + 2 * mamba_state(spec);  // first row of dt
  const StoredLayer layer{name,
                          {dt + spec.num_heads, hidden_size},
                          "2 x the mixer's heads x their size + 2 x groups x state size + heads",
                          "hidden_size"};
  std::vector<OwnedRows> rows = {{layer, places_of(heads.query_heads, spec.head_dim)}};
  for (const Range& own : mamba_channels(spec, heads, inner)) rows.push_back({layer, own});
  rows.push_back({layer, places_of(heads.query_heads, 1, dt)});
  return rows;
}

CausalConvolution load_mamba_conv(WeightLoader& loader, const std::string& name, const MambaSpec& spec,
                                  const HeadShard& heads) {
  const std::array<Range, 3> own = mamba_channels(spec, heads, 0);
  return {loader,
          {name,
           {mamba_inner(spec) + 2 * mamba_state(spec), spec.conv_kernel},
           kMambaChannels,
           "the kernel's width"},
          {own.begin(), own.end()},
          true};
}

std::optional<GroupNorm> load_mamba_norm(WeightLoader& loader, const std::string& name, const MambaSpec& spec,
                                         const HeadShard& heads) {
  if (!spec.norm) return std::nullopt;
  return GroupNorm(loader, name, *spec.norm,
                   {.heads = spec.num_heads, .head_dim = spec.head_dim, .groups = spec.norm_groups},
                   heads.query_heads, mamba_ends(spec, loader.tp()));
}

}  // namespace

MambaSizes::MambaSizes(const MambaSpec& spec, TpRank tp)
    : heads(mamba_shard(spec, tp)),
      inner(heads.local_heads() * spec.head_dim),
      state(heads.local_kv_heads() * spec.state_size) {}

Mamba::Mamba(WeightLoader& loader, const MambaSpec& spec, std::size_t hidden_size, const BlockNames& names)
    : Mamba(loader, spec, hidden_size, names, MambaSizes(spec, loader.tp())) {}

Mamba::Mamba(WeightLoader& loader, const MambaSpec& spec, std::size_t hidden_size, const BlockNames& names,
             const MambaSizes& sizes)
    : spec_(spec),
      sizes_(sizes),
      in_proj_(loader, mamba_rows(spec, hidden_size, names.mamba.in_proj, sizes.heads), false),
      conv_(load_mamba_conv(loader, names.mamba.conv, spec, sizes.heads)),
      rate_(loader.part_of_vector(names.mamba.decay, spec.num_heads, sizes.heads.query_heads, kMambaHeads)),
      dt_bias_(
          loader.part_of_vector(names.mamba.dt_bias, spec.num_heads, sizes.heads.query_heads, kMambaHeads)),
      norm_(load_mamba_norm(loader, names.mamba.norm, spec, sizes.heads)),
      out_proj_(loader, {names.mamba.out_proj, {hidden_size, mamba_inner(spec)}, "hidden_size", kMambaInner},
                places_of(sizes.heads.query_heads, spec.head_dim), false,
                loader.leaf_of_heads(spec.head_dim)) {
  for (float& rate : rate_) rate = std::exp(rate);
  for (const float factor :
       loader.part_of_vector(names.mamba.direct, spec.num_heads, sizes.heads.query_heads, kMambaHeads))
    direct_.insert(direct_.end(), spec.head_dim, factor);
  for (std::size_t head = 0; head < sizes.heads.local_heads(); ++head)
    group_of_head_.push_back(sizes.heads.local_kv_of(head));
}

kernels::DeltaShape MambaSizes::shape(const MambaSpec& spec) const {
  return {.key_heads = heads.local_kv_heads(),
          .value_heads = heads.local_heads(),
          .key_dim = spec.state_size,
          .value_dim = spec.head_dim};
}

std::size_t Mamba::state_floats() const { return conv_.state_floats() + sizes_.shape(spec_).floats(); }

std::vector<StatePart> Mamba::state_parts() const {
  const auto inputs = [&](std::size_t channel, std::size_t count) {
    return StatePart::Rows{channel, spec_.conv_kernel - 1, sizes_.channels(), count};
  };
  const kernels::DeltaShape shape = sizes_.shape(spec_);
  std::vector<StatePart> parts;
  for (std::size_t group = 0; group < shape.key_heads; ++group) {
    StatePart part{sizes_.heads.kv_heads.begin + group, rows_of_key_head(shape, conv_.state_floats(), group)};
    const std::size_t b = sizes_.inner + group * spec_.state_size;
    part.rows.push_back(inputs(b, spec_.state_size));
    part.rows.push_back(inputs(b + sizes_.state, spec_.state_size));
    parts.push_back(std::move(part));
  }
  for (std::size_t head = 0; head < shape.value_heads; ++head) {
    StatePart part{spec_.num_groups + sizes_.heads.query_heads.begin + head,
                   rows_of_value_head(shape, conv_.state_floats(), head)};
    part.rows.push_back(inputs(head * spec_.head_dim, spec_.head_dim));
    parts.push_back(std::move(part));
  }
  return parts;
}

PartialSum Mamba::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> projected = in_proj_(x, step);
  scale(projected);
  const TensorView<float> z = projected.columns_from(0, sizes_.inner);
  const TensorView<float> channels = projected.columns_from(sizes_.inner, sizes_.channels());
  const TensorView<float> dt =
      projected.columns_from(sizes_.inner + sizes_.channels(), group_of_head_.size());
  const TensorView<float> result = recur(conv_(channels, Activation::silu, step), dt, step);
  kernels::multiply_activated(kernels::Activation::silu, z, result);
  if (norm_) (*norm_)(result, step);
  if (spec_.output_scale != 1.0F) kernels::scale(spec_.output_scale, result);
  return out_proj_(result, step);
}

void Mamba::scale(TensorView<float> projected) const {
  const std::array<std::size_t, 5> widths = {sizes_.inner, sizes_.inner, sizes_.state, sizes_.state,
                                             group_of_head_.size()};
  std::size_t first = 0;
  for (std::size_t i = 0; i < widths.size(); first += widths[i++]) {
    if (spec_.scales[i] != 1.0F) kernels::scale(spec_.scales[i], projected.columns_from(first, widths[i]));
  }
}

TensorView<float> Mamba::recur(TensorView<const float> mixed, TensorView<const float> dt,
                               const StepContext& step) const {
  const std::size_t heads = group_of_head_.size();
  const TensorView<float> y = step.workspace.take(mixed.rows(), sizes_.inner);
  const TensorView<float> gates = step.workspace.take(mixed.rows(), 2 * heads);
  const TensorView<float> decay = gates.columns_from(0, heads);
  const TensorView<float> strength = gates.columns_from(heads, heads);
  const kernels::DeltaShape shape = sizes_.shape(spec_);
  const TensorView<float> scratch = step.workspace.take_per_thread(kernels::delta_scratch(shape));
  const TensorView<float> dots = step.workspace.take(mixed.rows(), kernels::delta_dots(shape, false));
  if (y.empty()) return y;
  kernels::mamba_gates(rate_, dt_bias_, dt, decay, strength);
  const TensorView<const float> x = mixed.columns_from(0, sizes_.inner);
  kernels::delta_rule({.query = mixed.columns_from(sizes_.inner + sizes_.state, sizes_.state),
                       .key = mixed.columns_from(sizes_.inner, sizes_.state),
                       .value = x,
                       .decay = decay,
                       .strength = strength,
                       .key_of_head = group_of_head_,
                       .shape = shape,
                       .corrects = false,
                       .scratch = scratch,
                       .dots = dots,
                       .out = y},
                      RecurrentRuns(step, conv_.state_floats()).all());
  kernels::add_products(direct_, x, y);
  return y;
}

}  // namespace tp
