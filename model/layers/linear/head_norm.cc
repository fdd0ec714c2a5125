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
    : HeadNorm(spec, shape.columns,
               std::span<const float>(load_gains(loader, layer, shape, tensor_per_head))
                   .subspan(own.begin * shape.columns, own.size() * shape.columns)) {}

HeadNorm::HeadNorm(const NormSpec& spec, std::size_t head_dim, std::span<const float> gains)
    : head_dim_(head_dim) {
  for (std::size_t first = 0; first < gains.size(); first += head_dim) {
    const std::span<const float> own = gains.subspan(first, head_dim);
    std::vector<float> gain(own.begin(), own.end());
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
