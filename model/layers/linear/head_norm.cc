#include "model/layers/linear/head_norm.h"

#include "model/config/tensor_names.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {
namespace {

// The gains of all heads, [heads, head_dim], which every rank reads because they are small.
std::vector<float> load_gains(WeightLoader& loader, const std::string& layer, MatrixShape shape,
                              bool tensor_per_head) {
  std::vector<float> gains(shape.size());
  if (!tensor_per_head) {
    const Buffer<float> stored = loader.whole_weight({layer, shape, "heads", "head_dim"});
    if (loader.reads()) std::copy_n(stored.data(), gains.size(), gains.begin());
    return gains;
  }
  for (std::size_t head = 0; head < shape.rows; ++head) {
    const std::string name = tensor_names::weight_of(fmt::format("{}.{}", layer, head));
    std::ranges::copy(loader.whole_vector(name, shape.columns, "head_dim"),
                      gains.begin() + static_cast<std::ptrdiff_t>(head * shape.columns));
  }
  return gains;
}

}  // namespace

HeadNorm::HeadNorm(WeightLoader& loader, const std::string& layer, std::size_t head_dim, const NormSpec& spec)
    : head_dim_(head_dim), norms_{Norm(loader, layer, head_dim, spec, "head_dim")} {}

HeadNorm::HeadNorm(WeightLoader& loader, const std::string& layer, MatrixShape shape, const NormSpec& spec,
                   Range own, bool tensor_per_head)
    : head_dim_(shape.columns) {
  const std::vector<float> gains = load_gains(loader, layer, shape, tensor_per_head);
  for (std::size_t head = own.begin; head < own.end; ++head) {
    const auto begin = gains.begin() + static_cast<std::ptrdiff_t>(head * head_dim_);
    std::vector<float> gain(begin, begin + static_cast<std::ptrdiff_t>(head_dim_));
    for (float& element : gain) element += spec.gain_offset;
    std::vector<float> bias(spec.kind == NormSpec::Kind::layer ? head_dim_ : 0);
    norms_.emplace_back(spec, std::move(gain), std::move(bias));
  }
}

void HeadNorm::apply_in_place(TensorView<float> x) const {
  if (norms_.size() == 1) return norms_.front().apply_in_place(x);
  for (std::size_t head = 0; head < norms_.size(); ++head)
    norms_[head].apply_in_place(x.columns_from(head * head_dim_, head_dim_));
}

}  // namespace tp
