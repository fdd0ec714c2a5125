// A rank's share of a model and of a step, from the same description as the engine's memory check.
#pragma once

#include "model/layers/model.h"
#include "parallel/shard/shard.h"
#include "parallel/shard/stage.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/setup/footprint.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// The heads of one layer's attention that a rank owns. If all heads share a latent, every rank has a copy.
HeadShard owned_heads(const AttentionPartSpec& attention, TpRank tp);

// One kind of layer.
struct AttentionShape {
  double layers = 0;
  std::optional<std::size_t> window{};  // largest number of tokens that a token attends to
  bool chunked = false;                 // a token attends only to its own chunk of `window` tokens
  double bytes_per_position = 0;        // bytes of the cache
  double bytes_per_sequence = 0;        // bytes of a recurrent layer's state, read and written in a step
  double multiplications = 0;           // per token and position that it attends to
};

struct RankShape {
  MemoryNeed need{};
  StepWork work{};  // with the sums of one token
  std::vector<AttentionShape> attention{};
  double speed = 1.0;       // speed of the rank, relative to the mean
  double wire_share = 1.0;  // share of a sum's bytes that hosts send
  // Experts with weights in the blocks: their number, and the number that a token uses. 0: none.
  std::size_t experts = 0;
  std::size_t experts_per_token = 0;
};

// Throws like Model's constructor.
RankShape shape_of_rank(const ModelSpec& spec, const EnginePlan& plan, const WeightSource& source, TpRank tp,
                        Stage stage = {});

}  // namespace tp
