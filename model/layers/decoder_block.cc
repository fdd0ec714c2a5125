#include "model/layers/decoder_block.h"

namespace tp {

DecoderBlock load_block(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                        const BlockNames& names) {
  if (spec.wiring == BlockSpec::Wiring::sequential) return SequentialBlock(loader, spec, hidden_size, names);
  return ParallelResidualBlock(loader, spec, hidden_size, names);
}

}  // namespace tp
