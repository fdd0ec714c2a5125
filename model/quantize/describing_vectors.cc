#include "model/quantize/describing_vectors.h"

#include "model/layers/linear/rope.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace tp {

const RopeSpec* rope_of(const ModelSpec& spec, bool with_window) {
  const RopeSpec* other = nullptr;
  if (const auto* const latent = first_part<LatentAttentionSpec>(spec); latent != nullptr && latent->rope)
    return &*latent->rope;
  for (const BlockSpec& block : spec.blocks) {
    const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
    if (attention == nullptr || !attention->rope) continue;
    if (attention->pattern.window.has_value() == with_window) return &*attention->rope;
    other = &*attention->rope;
  }
  return other;
}

namespace {

using Kind = RopeScaling::Kind;

// The divisor of the frequency of a pair that does not turn.
constexpr float kRests = 1e30F;

std::vector<DescribingVector> rope_factors(const ModelSpec& spec) {
  const RopeSpec* const rope = rope_of(spec);
  if (rope == nullptr) return {};
  const RopeScaling& scaling = rope->scaling;
  const auto as_floats = [](const std::vector<double>& factors) {
    return std::vector<float>(factors.begin(), factors.end());
  };
  if (scaling.kind == Kind::longrope)
    return {{"rope_factors_long.weight", as_floats(scaling.long_factor)},
            {"rope_factors_short.weight", as_floats(scaling.short_factor)}};
  if (scaling.kind != Kind::llama3 && scaling.kind != Kind::proportional) return {};
  RopeSpec plain = *rope;
  plain.scaling = {};
  const Rope unscaled(plain, spec.max_position_embeddings);
  const Rope scaled(*rope, spec.max_position_embeddings);
  std::vector<float> factors;
  for (std::size_t i = 0; i < plain.rotary_dim / 2; ++i) {
    const float frequency = scaled.frequencies()[i];
    factors.push_back(frequency == 0.0F ? kRests : unscaled.frequencies()[i] / frequency);
  }
  // Layers that rotate more elements have no factors.
  const std::size_t max = rope_of(spec, true)->rotary_dim / 2;
  factors.resize(std::max(factors.size(), max), 1.0F);
  return {{"rope_freqs.weight", factors}};
}

// Adds gains of norms of queries and keys, which GGUF files have and the checkpoint lacks. They contain the
// factor of attention scores.
void append_score_factors(const ModelSpec& spec, std::vector<DescribingVector>& vectors) {
  const BlockNames& names = spec.names.gguf.block;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const auto& attention = std::get<AttentionSpec>(spec.blocks[layer].attention);
    const float factor = attention.scale * std::sqrt(static_cast<float>(attention.head_dim));
    const auto append = [&](const std::string& norm, float gain) {
      vectors.push_back(
          {fmt::format("blk.{}.{}.weight", layer, norm), std::vector<float>(attention.head_dim, gain)});
    };
    append(names.q_norm, factor);
    append(names.k_norm, 1.0F);
  }
}

}  // namespace

std::vector<DescribingVector> describing_vectors(const ModelSpec& spec) {
  std::vector<DescribingVector> vectors = rope_factors(spec);
  if (spec.names.gguf.query_norm_is_scale) append_score_factors(spec, vectors);
  return vectors;
}

}  // namespace tp
