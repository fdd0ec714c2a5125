#include "model/layers/decoder_block.h"

#include <algorithm>

namespace tp {

DecoderBlock load_block(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                        const BlockNames& names) {
  if (spec.wiring == BlockSpec::Wiring::sequential) return SequentialBlock(loader, spec, hidden_size, names);
  return ParallelResidualBlock(loader, spec, hidden_size, names);
}

LocalShapes local_shapes(const BlockSpec& spec, std::size_t hidden_size, TpRank part) {
  LocalShapes shapes = local_shapes(spec.input_norm, hidden_size);
  const auto shapes_of = [&](const auto& part_spec) { return local_shapes(part_spec, hidden_size, part); };
  shapes += std::visit(shapes_of, spec.attention);
  shapes += std::visit(shapes_of, spec.feed_forward);
  for (const auto& norm :
       {spec.post_attention_norm, spec.pre_feed_forward_norm, spec.post_feed_forward_norm}) {
    if (norm) shapes += local_shapes(*norm, hidden_size);
  }
  return shapes;
}

std::size_t block_workspace(const BlockSpec& spec, std::size_t hidden_size, TpRank part,
                            const StepLimits& limits) {
  const std::size_t norm = Workspace::footprint(limits.tokens, hidden_size);
  const std::size_t attention = std::visit(
      [&](const auto& part_spec) {
        return attention_workspace(part_spec, hidden_size, part, limits.tokens, limits.threads,
                                   limits.kv_type, limits.block_size, limits.max_blocks);
      },
      spec.attention);
  const std::size_t mlp = std::visit(
      [&](const auto& part_spec) {
        return feed_forward_workspace(part_spec, hidden_size, part, limits.tokens);
      },
      spec.feed_forward);
  if (spec.wiring == BlockSpec::Wiring::parallel)
    return (spec.pre_feed_forward_norm ? 2 : 1) * norm + attention + mlp;
  return norm + std::max(attention, mlp);
}

kernels::KvLayout kv_layout(const AttentionPartSpec& spec, TpRank part, KvType type, std::size_t block_size) {
  return std::visit([&](const auto& attention) { return kv_layout(attention, part, type, block_size); },
                    spec);
}

}  // namespace tp
