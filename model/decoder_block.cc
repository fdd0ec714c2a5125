#include "model/decoder_block.h"

namespace tp {

DecoderBlock::DecoderBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                           std::size_t layer)
    : DecoderBlock(loader, spec, hidden_size, tensor_names::Block(layer)) {}

DecoderBlock::DecoderBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                           const tensor_names::Block& names)
    : input_norm_(loader, names.input_norm, hidden_size, spec.input_norm),
      attention_(Attention(loader, spec.attention, hidden_size, names)),
      post_attention_norm_(loader, names.post_attention_norm, hidden_size, spec.post_attention_norm),
      feed_forward_(GatedMlp(loader, spec.mlp, hidden_size, names)) {}

void DecoderBlock::operator()(Communicator& comm, TensorView<float> x, const StepContext& step,
                              const kernels::PagedCache& cache) const {
  {
    const Workspace::Frame frame(step.workspace);
    const TensorView<float> attention_in = input_norm_(x, step.workspace);
    PartialSum attention_sum =
        std::visit([&](const auto& part) { return part(attention_in, step, cache); }, attention_);
    const TensorView<float> attention_out = all_reduce(comm, std::move(attention_sum));  // 1 of 2
    kernels::add(attention_out, x);
  }
  {
    const Workspace::Frame frame(step.workspace);
    const TensorView<float> mlp_in = post_attention_norm_(x, step.workspace);
    PartialSum mlp_sum =
        std::visit([&](const auto& part) { return part(mlp_in, step.workspace); }, feed_forward_);
    const TensorView<float> mlp_out = all_reduce(comm, std::move(mlp_sum));  // 2 of 2
    kernels::add(mlp_out, x);
  }
}

std::size_t DecoderBlock::bytes() const {
  const auto bytes_of = [](const auto& part) { return part.bytes(); };
  return input_norm_.bytes() + std::visit(bytes_of, attention_) + post_attention_norm_.bytes() +
         std::visit(bytes_of, feed_forward_);
}

}  // namespace tp
