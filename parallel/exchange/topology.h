// The groups of ranks in a job.
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

// A rank's part of a model: its share of the layers of its stage.
struct Place {
  Stage stage{};
  TpRank tensor{};
};

// The ranks of each pipeline stage, [stages], in their tensor-parallel order. All stages have equally many.
// Ranks of one host stay together if possible, so that traffic between hosts passes between stages rather
// than within a stage. Rank 0 is the first rank of stage 0. Throws ConfigError if the ranks cannot be divided
// evenly.
std::vector<std::vector<std::size_t>> divide_into_stages(const Placement& world, std::size_t stages);

// The groups of a rank:
//
// - world: all ranks. For commands, reports and errors.
// - tensor: the ranks of one stage, which divide its matrices among them and run its all-reduces.
// - chain: the ranks with the same share in each stage, in the order of the stages: a rank's number here is
//   its stage. Activations pass along the chain.
// - host: the ranks of `tensor` on this rank's host, which have a window of shared memory.
// - host roots: the first rank of `tensor` on each host. They exchange sums over the wire.
//
// With a single stage, `tensor` is `world` itself.
class Topology {
 public:
  // Collective over `world`, which must outlive this object. Throws CommError, and ConfigError like
  // divide_into_stages.
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
