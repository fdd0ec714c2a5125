#include "model/layers/norm.h"

#include "model/kernels/elementwise.h"
#include "model/weights/tensor_names.h"

namespace tp {

Norm::Norm(WeightLoader& loader, const std::string& layer, std::size_t size, const NormSpec& spec,
           const std::string& reason)
    : kind_(spec.kind),
      eps_(spec.eps),
      gain_(loader.whole_vector(tensor_names::weight_of(layer), size, reason)) {
  for (float& gain : gain_) gain += spec.gain_offset;
  if (kind_ == NormSpec::Kind::layer) bias_ = loader.whole_vector(tensor_names::bias_of(layer), size, reason);
}

TensorView<float> Norm::operator()(TensorView<const float> x, Workspace& workspace) const {
  const TensorView<float> out = workspace.take(x.rows(), x.columns());
  apply(x, out);
  return out;
}

void Norm::apply_in_place(TensorView<float> x) const { apply(x, x); }

void Norm::apply(TensorView<const float> x, TensorView<float> out) const {
  if (kind_ == NormSpec::Kind::rms)
    kernels::rms_norm(x, gain_, eps_, out);
  else
    kernels::layer_norm(x, gain_, bias_, eps_, out);
}

}  // namespace tp
