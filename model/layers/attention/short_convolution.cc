#include "model/layers/attention/short_convolution.h"

#include "model/kernels/elementwise.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <vector>

namespace tp {
namespace {

constexpr const char* kChannels = "hidden_size";

// The three projections' rows for `channels`.
std::vector<OwnedRows> in_rows(const ShortConvolutionSpec& spec, std::size_t hidden_size,
                               const std::string& name, Range channels) {
  const StoredLayer layer{name, {3 * spec.channels, hidden_size}, "3 x hidden_size", "hidden_size"};
  std::vector<OwnedRows> rows;
  for (std::size_t part = 0; part < 3; ++part) rows.push_back({layer, channels, part * spec.channels});
  return rows;
}

// Channels per part of a state. Boundaries between ranks are multiples of it, unless there are many ranks
// (see shard_columns).
std::size_t unit_of(std::size_t channels) {
  constexpr std::size_t kMaxParts = 64;
  std::size_t unit = 32;
  while (unit > 1 && channels / unit < kMaxParts) unit /= 2;
  return unit;
}

}  // namespace

std::vector<StatePart> ShortConvolution::state_parts() const {
  const std::size_t unit = unit_of(spec_.channels);
  const bool ends_with_unit = own_.end % unit == 0 || own_.end == spec_.channels;
  require<ConfigError>(
      own_.size() == 0 || (own_.begin % unit == 0 && ends_with_unit),
      "cannot divide the states of {} channels for a store of prompts: expected ranks that own "
      "multiples of {} channels, found channels {} to {}; use fewer ranks or no kv_store",
      spec_.channels, unit, own_.begin, own_.end);
  std::vector<StatePart> parts;
  for (std::size_t part = own_.begin / unit; part * unit < own_.end; ++part) {
    const std::size_t end = std::min((part + 1) * unit, spec_.channels);
    parts.push_back(
        {part, {{part * unit - own_.begin, spec_.conv_kernel - 1, own_.size(), end - part * unit}}});
  }
  return parts;
}

ShortConvolution::ShortConvolution(WeightLoader& loader, const ShortConvolutionSpec& spec,
                                   std::size_t hidden_size, const BlockNames& names)
    : ShortConvolution(loader, spec, hidden_size, names, loader.own_columns(spec.channels)) {}

ShortConvolution::ShortConvolution(WeightLoader& loader, const ShortConvolutionSpec& spec,
                                   std::size_t hidden_size, const BlockNames& names, Range channels)
    : spec_(spec),
      own_(channels),
      in_proj_(loader, in_rows(spec, hidden_size, names.short_convolution.in_proj, channels), false),
      conv_(loader,
            {names.short_convolution.conv, {spec.channels, spec.conv_kernel}, kChannels, "conv_L_cache"},
            {channels}),
      out_proj_(loader,
                {names.short_convolution.out_proj, {hidden_size, spec.channels}, "hidden_size", kChannels},
                channels, false, loader.leaf_of_columns(spec.channels)) {}

PartialSum ShortConvolution::operator()(TensorView<const float> x, const StepContext& step) const {
  const std::size_t channels = own_.size();
  const TensorView<float> projected = in_proj_(x, step);  // [tokens, 3 channels]
  const TensorView<float> value = projected.columns_from(2 * channels, channels);
  kernels::multiply(projected.columns_from(0, channels), value);
  const TensorView<float> mixed = conv_(value, std::nullopt, step);
  kernels::multiply(projected.columns_from(channels, channels), mixed);
  return out_proj_(mixed, step);
}

}  // namespace tp
