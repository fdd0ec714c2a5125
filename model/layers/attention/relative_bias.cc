#include "model/layers/attention/relative_bias.h"

#include "parallel/shard/shard.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tp {

// In each direction, half of the rows cover a single distance each. The other half cover ranges of distances,
// which widen as distance grows.
std::size_t relative_bucket(const RelativeBiasSpec& spec, std::ptrdiff_t distance) {
  const std::size_t rows = spec.bidirectional ? spec.num_buckets / 2 : spec.num_buckets;
  const std::size_t first = spec.bidirectional && distance > 0 ? rows : 0;
  if (!spec.bidirectional) distance = std::min<std::ptrdiff_t>(distance, 0);
  const auto away = static_cast<std::size_t>(std::abs(distance));
  const std::size_t exact = rows / 2;
  if (away < exact) return first + away;
  // In float32, as in the original code: the boundaries of the ranges depend on rounding.
  const float position =
      std::log(static_cast<float>(away) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(spec.max_distance) / static_cast<double>(exact))) *
      static_cast<float>(rows - exact);
  return first + std::min(exact + static_cast<std::size_t>(position), rows - 1);
}

namespace {

// A learned table: a bias for each bucket of distances and each head.
class BiasTable {
 public:
  BiasTable(WeightLoader& loader, const std::string& layer, const RelativeBiasSpec& spec)
      : spec_(spec),
        reads_(loader.reads()),
        values_(loader.whole_weight({layer,
                                     {spec.num_buckets, spec.num_attention_heads},
                                     "relative_attention_num_buckets",
                                     "num_attention_heads"})) {}

  float operator()(std::size_t head, std::ptrdiff_t distance) const {
    const std::size_t row = relative_bucket(spec_, distance);
    return reads_ ? values_.data()[row * spec_.num_attention_heads + head] : 0.0F;
  }

 private:
  const RelativeBiasSpec& spec_;
  bool reads_;
  Buffer<float> values_;
};

}  // namespace

RelativeBias::RelativeBias(WeightLoader& loader, const std::string& layer, const RelativeBiasSpec& spec)
    : reach_(spec.max_distance) {
  const Range heads =
      shard_heads(spec.num_attention_heads, spec.num_attention_heads, loader.tp()).query_heads;
  if (spec.alibi_slopes.empty()) {
    fill(heads, BiasTable(loader, layer, spec));
  } else {
    fill(heads, [&](std::size_t head, std::ptrdiff_t distance) {
      return -spec.alibi_slopes[head] * static_cast<float>(std::abs(distance));
    });
  }
}

template <class BiasOf>
void RelativeBias::fill(Range heads, const BiasOf& bias_of) {
  const auto reach = static_cast<std::ptrdiff_t>(reach_);
  by_distance_.reserve(heads.size() * (2 * reach_ + 1));
  for (std::size_t head = heads.begin; head < heads.end; ++head) {
    for (std::ptrdiff_t distance = -reach; distance <= reach; ++distance)
      by_distance_.push_back(bias_of(head, distance));
  }
}

}  // namespace tp
