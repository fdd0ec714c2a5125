#pragma once

#include "parallel/shard/shard.h"
#include "parallel/shard/stage.h"
#include "tp/communicator.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tp {

struct Placement;

// A rank's part of a model: its stage, and its share of the stage's layers.
struct Place {
  Stage stage{};
  TpRank tensor{};
};

// The ranks of each pipeline stage, [stages], in tensor-parallel order. All stages have the same number of
// ranks. Ranks on the same host are in the same stage if possible, so that most traffic between hosts is
// between stages, not within a stage. Rank 0 is the first rank of stage 0. Throws ConfigError if the ranks
// cannot be divided evenly.
std::vector<std::vector<std::size_t>> divide_into_stages(const Placement& world, std::size_t stages);

// The stages of a job, from one rank's point of view. `world` is all ranks. `tensor` is the ranks of this
// rank's stage, which divide the stage's matrices among themselves and perform its all-reduces. With a single
// stage, `tensor` is `world` itself.
class Topology {
 public:
  // Collective over `world`, which must outlive this object. Throws CommError, and ConfigError in the same
  // cases as divide_into_stages.
  explicit Topology(Communicator& world, std::size_t stages = 1);

  const Place& place() const { return place_; }

  Communicator& tensor() { return tensor_ != nullptr ? *tensor_ : world_; }

  // Rank numbers in `world`.
  std::span<const std::size_t> stage(std::size_t stage) const { return stages_[stage]; }

 private:
  Communicator& world_;
  std::vector<std::vector<std::size_t>> stages_;
  Place place_;
  std::unique_ptr<Communicator> tensor_;
};

}  // namespace tp
