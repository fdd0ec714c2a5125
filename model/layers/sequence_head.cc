#include "model/layers/sequence_head.h"

#include "model/config/tensor_names.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tp {
namespace {

std::string layer_name(const PooledLayerSpec& spec, const std::string& prefix) {
  return spec.of_body ? prefix + spec.name : spec.name;
}

double activate_pooled(PooledLayerSpec::Activation activation, double x) {
  switch (activation) {
    case PooledLayerSpec::Activation::tanh:
      return std::tanh(x);
    case PooledLayerSpec::Activation::relu:
      return std::max(x, 0.0);
    case PooledLayerSpec::Activation::gelu:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case PooledLayerSpec::Activation::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case PooledLayerSpec::Activation::none:
      break;
  }
  return x;
}

// The difference of two rows of a table, [1, in_features]. Like other layers over pooled states, it is in
// float32.
Buffer<float> load_difference(WeightLoader& loader, const PooledLayerSpec& spec, std::size_t in_features,
                              const std::string& prefix) {
  const StoredLayer table{tensor_names::weight_of(layer_name(spec, prefix)),
                          {spec.vocab_size, in_features},
                          "vocab_size",
                          "hidden_size"};
  const auto row_of = [&](TokenId token) {
    const auto place = static_cast<std::size_t>(token);
    return loader.rows_of_tensor(table, {place, place + 1});
  };
  const std::vector<float> less = row_of(spec.tokens.front());
  const std::vector<float> more = row_of(spec.tokens.back());
  if (!loader.reads()) return {};
  Buffer<float> difference(in_features, "a layer over pooled states");
  for (std::size_t i = 0; i < in_features; ++i) difference.data()[i] = more[i] - less[i];
  return difference;
}

Buffer<float> load_pooled(WeightLoader& loader, const PooledLayerSpec& spec, std::size_t in_features,
                          const std::string& prefix) {
  if (!spec.tokens.empty()) return load_difference(loader, spec, in_features, prefix);
  return loader.whole_weight({layer_name(spec, prefix),
                              {spec.out_features, in_features},
                              "the layer's output",
                              "the layer's input"});
}

}  // namespace

PooledLayer::PooledLayer(WeightLoader& loader, const PooledLayerSpec& spec, std::size_t in_features,
                         const std::string& prefix)
    : in_features_(in_features),
      out_features_(spec.out_features),
      activation_(spec.activation),
      weight_(load_pooled(loader, spec, in_features, prefix)) {
  if (spec.bias)
    bias_ = loader.whole_vector(tensor_names::bias_of(layer_name(spec, prefix)), out_features_,
                                "the layer's output");
  if (spec.norm) norm_.emplace(loader, spec.norm_name, out_features_, *spec.norm, "the layer's output");
}

std::vector<float> PooledLayer::operator()(std::span<const float> x) const {
  std::vector<float> y(out_features_);
  for (std::size_t row = 0; row < out_features_; ++row) {
    double sum = bias_.empty() ? 0.0 : bias_[row];
    const float* weights = weight_.data() + row * in_features_;
    for (std::size_t i = 0; i < in_features_; ++i) sum += static_cast<double>(weights[i]) * x[i];
    y[row] = static_cast<float>(activate_pooled(activation_, sum));
  }
  if (norm_) norm_->apply_in_place(TensorView<float>(y.data(), 1, y.size()));
  return y;
}

SequenceHead::SequenceHead(WeightLoader& loader, const SequenceHeadSpec& spec, std::size_t hidden_size,
                           const std::string& prefix)
    : pooling_(spec.pooling) {
  for (const PooledLayerSpec& layer : spec.layers) {
    const std::size_t in_features = layers_.empty() ? hidden_size : layers_.back().out_features();
    layers_.emplace_back(loader, layer, in_features, prefix);
  }
}

bool SequenceHead::is_stored(const WeightSource& source, const SequenceHeadSpec& spec,
                             const std::string& prefix) {
  return std::ranges::all_of(spec.layers, [&](const PooledLayerSpec& layer) {
    return source.contains(tensor_names::weight_of(layer_name(layer, prefix)));
  });
}

std::vector<float> SequenceHead::operator()(std::vector<float> pooled) const {
  for (const PooledLayer& layer : layers_) pooled = layer(pooled);
  return pooled;
}

}  // namespace tp
