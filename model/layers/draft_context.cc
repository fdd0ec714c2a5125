#include "model/layers/draft_context.h"

#include "parallel/exchange/collectives.h"

#include <utility>

namespace tp {

TensorView<const float> DraftContext::operator()(Communicator* comm, const StepContext& step) const {
  PartialSum sum = projection_(step);
  if (comm == nullptr) {
    step.count_sum(sum);
    return sum.shape();
  }
  const TensorView<float> states = all_reduce(*comm, std::move(sum));
  norm_.apply_in_place(states);
  return states;
}

}  // namespace tp
