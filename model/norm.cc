#include "model/norm.h"

#include "model/tensor_names.h"

namespace tp {

RmsNorm::RmsNorm(WeightLoader& loader, const std::string& layer, std::size_t hidden_size,
                 const NormSpec& spec)
    : gain_(loader.whole_vector(tensor_names::weight_of(layer), hidden_size, "hidden_size")),
      eps_(spec.eps) {}

}  // namespace tp
