// An attention bias that depends on the distance between key and query. All layers share it.
#pragma once

#include "model/config/spec.h"
#include "model/weights/weight_loader.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tp {

class RelativeBias {
 public:
  // Loads this rank's columns of the table `layer`, [num_buckets, num_attention_heads], unless the bias has
  // no table. Throws CheckpointError.
  RelativeBias(WeightLoader& loader, const std::string& layer, const RelativeBiasSpec& spec);

  // Largest distance in by_distance(). Keys farther away have the same bias as keys at this distance.
  std::size_t reach() const { return reach_; }
  // [local heads, 2 * reach + 1]: biases for keys at distances -reach to reach (negative: before the query).
  std::span<const float> by_distance() const { return by_distance_; }

 private:
  // Sets by_distance_ to bias_of(head, distance).
  template <class BiasOf>
  void fill(Range heads, const BiasOf& bias_of);

  std::size_t reach_;
  std::vector<float> by_distance_;
};

// The table row for a key `distance` positions after the query.
std::size_t relative_bucket(const RelativeBiasSpec& spec, std::ptrdiff_t distance);

}  // namespace tp
