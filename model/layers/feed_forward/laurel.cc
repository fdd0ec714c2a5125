#include "model/layers/feed_forward/laurel.h"

#include "model/kernels/elementwise.h"

namespace tp {

Laurel::Laurel(WeightLoader& loader, const LaurelSpec& spec, std::size_t hidden_size,
               const LaurelNames& names)
    : left_(whole_layer(loader, {names.left, {spec.rank, hidden_size}, "laurel_rank", "hidden_size"})),
      right_(whole_layer(loader, {names.right, {hidden_size, spec.rank}, "hidden_size", "laurel_rank"})),
      norm_(loader, names.norm, hidden_size, spec.norm) {}

TensorView<float> Laurel::operator()(TensorView<const float> x, const StepContext& step) const {
  const TensorView<float> y = right_(left_(x, step), step);
  norm_.apply_in_place(y);
  kernels::add(x, y);
  return y;
}

}  // namespace tp
