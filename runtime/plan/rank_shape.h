// What one rank holds of a model and does in a step, from the same description as the engine's memory check.
#pragma once

#include "model/layers/decoder.h"
#include "parallel/shard/shard.h"
#include "parallel/shard/stage.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/setup/footprint.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tp {

// The heads of one layer's attention that a rank owns. Of a latent that all heads share, every rank has one.
HeadShard owned_heads(const AttentionPartSpec& attention, TpRank tp);

// One kind of layers.
struct AttentionShape {
  double layers = 0;
  std::optional<std::size_t> window{};  // tokens that are attended to at most
  bool chunked = false;                 // and only those of the same chunk of a sequence, of so many tokens
  double bytes_per_position = 0;        // of the cache
  double bytes_per_sequence = 0;        // of a recurrent layer's state, read and written in a step
  double multiplications = 0;           // per token and position that it attends to
};

struct RankShape {
  MemoryNeed need{};
  StepWork work{};  // sums: of one token
  std::vector<AttentionShape> attention{};
  double speed = 1.0;       // of the rank, relative to the mean
  double wire_share = 1.0;  // of a sum's bytes, that hosts send
  // Of the experts that have weights in the blocks: how many there are, and take a token. 0: none.
  std::size_t experts = 0;
  std::size_t experts_per_token = 0;
};

// Throws like Decoder's constructor.
RankShape shape_of_rank(const DecoderSpec& spec, const EnginePlan& plan, const WeightSource& source,
                        TpRank tp, Stage stage = {});

}  // namespace tp
