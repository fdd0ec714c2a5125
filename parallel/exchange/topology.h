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

// The groups of ranks, from one rank's point of view:
//
// - world: all ranks. Used for commands, reports and errors.
// - tensor: the ranks of one stage, which divide the stage's matrices among themselves and perform its
//   all-reduces.
// - chain: one rank from each stage, each at the same position in its stage. A rank's number in the chain is
//   the index of its stage. Activations pass along the chain.
// - host: the ranks of `tensor` on this rank's host. They share memory for all-reduces.
// - host roots: the first rank of `tensor` on each host. They exchange sums over the wire.
//
// With a single stage, `tensor` is `world` itself.
class Topology {
 public:
  // Collective over `world`, which must outlive this object. Throws CommError, and ConfigError in the same
  // cases as divide_into_stages.
  explicit Topology(Communicator& world, std::size_t stages = 1);

  const Place& place() const { return place_; }

  Communicator& world() { return world_; }
  Communicator& tensor() { return tensor_ != nullptr ? *tensor_ : world_; }
  Communicator& chain() { return *chain_; }

  // Rank numbers in tensor().
  const std::vector<std::size_t>& host() const;
  std::vector<std::size_t> host_roots() const;

  // Rank numbers in world().
  std::span<const std::size_t> stage(std::size_t stage) const { return stages_[stage]; }

 private:
  const Placement& tensor_placement() const;

  Communicator& world_;
  std::vector<std::vector<std::size_t>> stages_;
  Place place_;
  std::unique_ptr<Communicator> tensor_;
  std::unique_ptr<Communicator> chain_;
};

}  // namespace tp
