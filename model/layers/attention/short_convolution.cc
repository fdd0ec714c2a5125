#include "model/layers/attention/short_convolution.h"

#include "model/kernels/elementwise.h"

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

}  // namespace

ShortConvolution::ShortConvolution(WeightLoader& loader, const ShortConvolutionSpec& spec,
                                   std::size_t hidden_size, const BlockNames& names)
    : ShortConvolution(loader, spec, hidden_size, names, loader.own_columns(spec.channels)) {}

ShortConvolution::ShortConvolution(WeightLoader& loader, const ShortConvolutionSpec& spec,
                                   std::size_t hidden_size, const BlockNames& names, Range channels)
    : channels_(channels.size()),
      in_proj_(loader, in_rows(spec, hidden_size, names.short_convolution.in_proj, channels), false),
      conv_(loader,
            {names.short_convolution.conv, {spec.channels, spec.conv_kernel}, kChannels, "conv_L_cache"},
            {channels}),
      out_proj_(loader,
                {names.short_convolution.out_proj, {hidden_size, spec.channels}, "hidden_size", kChannels},
                channels, false, loader.leaf_of_columns(spec.channels)) {}

PartialSum ShortConvolution::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> projected = in_proj_(x, step);  // [tokens, 3 channels]
  const TensorView<float> value = projected.columns_from(2 * channels_, channels_);
  kernels::multiply(projected.columns_from(0, channels_), value);
  const TensorView<float> mixed = conv_(value, std::nullopt, step);
  kernels::multiply(projected.columns_from(channels_, channels_), mixed);
  return out_proj_(mixed, step);
}

}  // namespace tp
