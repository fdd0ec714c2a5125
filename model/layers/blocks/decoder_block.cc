#include "model/layers/blocks/decoder_block.h"

namespace tp {

DecoderBlock load_block(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                        const BlockNames& names) {
  switch (spec.wiring) {
    case BlockSpec::Wiring::parallel:
      return ParallelResidualBlock(loader, spec, hidden_size, names);
    case BlockSpec::Wiring::post_norm:
      return PostNormBlock(loader, spec, hidden_size, names);
    case BlockSpec::Wiring::reversible:
      return ReversibleBlock(loader, spec, hidden_size, names);
    default:
      return SequentialBlock(loader, spec, hidden_size, names);
  }
}

const CrossAttention* cross_attention_of(const DecoderBlock& block) {
  return std::visit(
      [](const auto& any) -> const CrossAttention* {
        if constexpr (requires { any.cross_attention(); }) {
          return any.cross_attention();
        } else {
          return nullptr;
        }
      },
      block);
}

}  // namespace tp
