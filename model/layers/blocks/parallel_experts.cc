#include "model/layers/blocks/parallel_experts.h"

#include "model/kernels/elementwise.h"

#include <utility>

namespace tp {

ParallelExperts::ParallelExperts(WeightLoader& loader, const ParallelExpertsSpec& spec,
                                 std::size_t hidden_size, const BlockNames& names)
    : experts_(loader, spec.experts, hidden_size, names),
      mlp_norm_(Norm(loader, names.mlp_norm, hidden_size, spec.norm)),
      input_norm_(loader, names.experts_input_norm, hidden_size, spec.norm),
      output_norm_(Norm(loader, names.experts_norm, hidden_size, spec.norm)) {}

TensorView<float> ParallelExperts::with(PartialSum mlp, const Residual& x, const StepContext& step) const {
  const TensorView<float> sum = x.reduced(std::move(mlp), mlp_norm_);
  const auto experts = [&] {
    const TraceSpan span(step.tracer, Activity::feed_forward, x.rows().rows());
    return experts_(x.normed(input_norm_), x.rows(), step);
  };
  const TensorView<float> more = x.reduced(experts(), output_norm_);
  if (!sum.empty()) kernels::add(more, sum);
  return sum;
}

}  // namespace tp
