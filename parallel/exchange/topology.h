// The groups into which the ranks of a job are divided.
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

// A rank's part of a model: its tensor-parallel share of the layers of its stage.
struct Place {
  Stage stage{};
  TpRank tensor{};
};

// The ranks of each pipeline stage, [stages] of equally many, in their tensor-parallel order. Ranks of one
// host stay together as far as they can, so that hosts are crossed between stages rather than within them;
// rank 0 is the first of stage 0. Throws ConfigError if the ranks cannot be divided evenly.
std::vector<std::vector<std::size_t>> divide_into_stages(const Placement& world, std::size_t stages);

// - world: all ranks; commands, reports and errors.
// - tensor: the ranks of one stage, which divide its matrices among them and take its all-reduces.
// - chain: the ranks with the same share in each stage, in the order of the stages, which is their rank
//   there; activations pass along it.
// - host: the ranks of `tensor` on this rank's host, which have a window of shared memory.
// - host roots: the first rank of `tensor` on each of its hosts; what they exchange is on the wire.
//
// With a single stage `tensor` is `world` itself.
class Topology {
 public:
  // Collective over `world`, which must live longer. Throws ConfigError, as divide_into_stages, and
  // CommError.
  explicit Topology(Communicator& world, std::size_t stages = 1);

  const Place& place() const { return place_; }

  Communicator& world() { return world_; }
  Communicator& tensor() { return tensor_ != nullptr ? *tensor_ : world_; }
  Communicator& chain() { return *chain_; }

  // Ranks of tensor().
  const std::vector<std::size_t>& host() const;
  std::vector<std::size_t> host_roots() const;

  // Ranks of world().
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
