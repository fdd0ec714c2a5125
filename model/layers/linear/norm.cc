#include "model/layers/linear/norm.h"

#include "model/config/tensor_names.h"
#include "model/kernels/elementwise.h"

namespace tp {

namespace {

// Early BERT checkpoints call the parameters gamma and beta.
std::string stored_name(const WeightLoader& loader, const std::string& name, const std::string& early) {
  return loader.source().contains(name) || !loader.source().contains(early) ? name : early;
}

std::vector<float> load_gain(WeightLoader& loader, const std::string& layer, std::size_t size,
                             const NormSpec& spec, const std::string& reason) {
  if (!spec.gain) return std::vector<float>(size, 1.0F);
  const std::string name = stored_name(loader, tensor_names::weight_of(layer), layer + ".gamma");
  std::vector<float> gain = loader.whole_vector(name, size, reason);
  for (float& element : gain) element += spec.gain_offset;
  return gain;
}

std::vector<float> load_bias(WeightLoader& loader, const std::string& layer, std::size_t size,
                             const NormSpec& spec, const std::string& reason) {
  if (spec.kind == NormSpec::Kind::rms) return {};
  if (!spec.bias) return std::vector<float>(size);
  const std::string name = stored_name(loader, tensor_names::bias_of(layer), layer + ".beta");
  return loader.whole_vector(name, size, reason);
}

}  // namespace

Norm::Norm(WeightLoader& loader, const std::string& layer, std::size_t size, const NormSpec& spec,
           const std::string& reason)
    : kind_(spec.kind),
      eps_(spec.eps),
      gain_(load_gain(loader, layer, size, spec, reason)),
      bias_(load_bias(loader, layer, size, spec, reason)) {}

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
