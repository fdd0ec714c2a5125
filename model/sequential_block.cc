#include "model/sequential_block.h"

#include "model/kernels/elementwise.h"
#include "parallel/tracer.h"

namespace tp {
namespace {

// x += norm(the sum over ranks)
void add_to_residual(Communicator& comm, PartialSum sum, const std::optional<Norm>& norm,
                     TensorView<float> x) {
  if (!norm) return add_all_reduced(comm, std::move(sum), x);
  const TensorView<float> out = all_reduce(comm, std::move(sum));
  norm->apply_in_place(out);
  kernels::add(out, x);
}

}  // namespace

SequentialBlock::SequentialBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                 const BlockNames& names)
    : input_norm_(loader, names.input_norm, hidden_size, spec.input_norm),
      attention_(load_attention(loader, spec.attention, hidden_size, names)),
      post_attention_norm_(
          load_if_present(loader, names.post_attention_norm, hidden_size, spec.post_attention_norm)),
      pre_feed_forward_norm_(loader, names.pre_feed_forward_norm, hidden_size,
                             spec.pre_feed_forward_norm.value()),
      feed_forward_(load_feed_forward(loader, spec.feed_forward, hidden_size, names)),
      post_feed_forward_norm_(
          load_if_present(loader, names.post_feed_forward_norm, hidden_size, spec.post_feed_forward_norm)) {}

void SequentialBlock::operator()(Communicator& comm, TensorView<float> x, const StepContext& step,
                                 const kernels::PagedCache& cache) const {
  {
    const Workspace::Frame frame(step.workspace);
    const TensorView<float> attention_in = input_norm_(x, step.workspace);
    PartialSum attention_sum = std::visit(
        [&](const auto& part) {
          const TraceSpan span(comm, Activity::attention, x.rows());
          return part(attention_in, step, cache);
        },
        attention_);
    add_to_residual(comm, std::move(attention_sum), post_attention_norm_, x);  // all-reduce 1 of 2
  }
  {
    const Workspace::Frame frame(step.workspace);
    const TensorView<float> mlp_in = pre_feed_forward_norm_(x, step.workspace);
    PartialSum mlp_sum = std::visit(
        [&](const auto& part) {
          const TraceSpan span(comm, Activity::feed_forward, x.rows());
          return part(mlp_in, step.workspace);
        },
        feed_forward_);
    add_to_residual(comm, std::move(mlp_sum), post_feed_forward_norm_, x);  // all-reduce 2 of 2
  }
}

std::size_t SequentialBlock::bytes() const {
  return input_norm_.bytes() + bytes_of(attention_) + bytes_of(post_attention_norm_) +
         pre_feed_forward_norm_.bytes() + bytes_of(feed_forward_) + bytes_of(post_feed_forward_norm_);
}

}  // namespace tp
