#include "model/layers/head_transform.h"

#include "model/kernels/elementwise.h"

#include <vector>

namespace tp {
namespace {

std::vector<OwnedRows> whole_dense(const TensorNames& names, const HeadTransformSpec& spec,
                                   std::size_t hidden_size) {
  const std::string layer = (spec.of_body ? names.body : std::string()) + names.head_dense;
  return {{{layer, {spec.size, hidden_size}, "the size of token vectors", "hidden_size"}, {0, spec.size}}};
}

std::optional<Norm> load_head_norm(WeightLoader& loader, const std::string& name,
                                   const HeadTransformSpec& spec) {
  if (!spec.norm) return std::nullopt;
  return Norm(loader, name, spec.size, *spec.norm, "the size of token vectors");
}

}  // namespace

HeadTransform::HeadTransform(WeightLoader& loader, const TensorNames& names, const HeadTransformSpec& spec,
                             std::size_t hidden_size)
    : dense_(loader, whole_dense(names, spec, hidden_size), spec.bias),
      activation_(spec.activation),
      norm_(load_head_norm(loader, names.head_norm, spec)) {}

TensorView<float> HeadTransform::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> y = dense_(x, step);
  if (activation_) kernels::activate(*activation_, y);
  if (norm_) norm_->apply_in_place(y);
  return y;
}

}  // namespace tp
