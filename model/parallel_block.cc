#include "model/parallel_block.h"

#include "parallel/tracer.h"

namespace tp {

ParallelBlock::ParallelBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                             const BlockNames& names)
    : input_norm_(loader, names.input_norm, hidden_size, spec.input_norm),
      attention_(load_attention(loader, spec.attention, hidden_size, names)),
      pre_feed_forward_norm_(
          load_if_present(loader, names.pre_feed_forward_norm, hidden_size, spec.pre_feed_forward_norm)),
      feed_forward_(load_feed_forward(loader, spec.feed_forward, hidden_size, names)) {}

void ParallelBlock::operator()(Communicator& comm, TensorView<float> x, const StepContext& step,
                               const kernels::PagedCache& cache) const {
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> attention_in = input_norm_(x, step.workspace);
  const TensorView<float> mlp_in =
      pre_feed_forward_norm_ ? (*pre_feed_forward_norm_)(x, step.workspace) : attention_in;
  PartialSum sum = std::visit(
      [&](const auto& part) {
        const TraceSpan span(comm, Activity::attention, x.rows());
        return part(attention_in, step, cache);
      },
      attention_);
  sum += std::visit(
      [&](const auto& part) {
        const TraceSpan span(comm, Activity::feed_forward, x.rows());
        return part(mlp_in, step.workspace);
      },
      feed_forward_);
  add_all_reduced(comm, std::move(sum), x);  // 1 of 1
}

std::size_t ParallelBlock::bytes() const {
  return input_norm_.bytes() + bytes_of(attention_) + bytes_of(pre_feed_forward_norm_) +
         bytes_of(feed_forward_);
}

}  // namespace tp
