#include "model/layers/draft_context.h"

#include "parallel/exchange/collectives.h"

#include <utility>

namespace tp {

TensorView<const float> DraftContext::operator()(Communicator* comm, const StepContext& step) const {
  PartialSum sum = projection_(step);
  const TensorView<float> states = step.workspace.take(sum.shape().rows(), sum.shape().columns());
  if (comm == nullptr) {
    step.count_sum(sum);
    return states;
  }
  all_reduce(*comm, std::move(sum), states);  // addends are doubles if sums must have the same bits
  norm_.apply_in_place(states);
  return states;
}

}  // namespace tp
