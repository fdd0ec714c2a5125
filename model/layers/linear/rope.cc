#include "model/layers/linear/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tp {
namespace {

using std::numbers::pi;

// Meta's scaling for Llama 3.1: low frequencies are divided by `factor`, high frequencies stay unchanged, and
// frequencies in between are interpolated.
double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double turns = original * frequency / (2 * pi);  // rotations within the original context
  const double between = scaling.high_freq_factor - scaling.low_freq_factor;
  const double above = turns - scaling.low_freq_factor;
  const double blend = between > 0 ? std::clamp(above / between, 0.0, 1.0) : above > 0 ? 1.0 : 0.0;
  return (1 - blend) * frequency / scaling.factor + blend * frequency;
}

// Like llama3_frequency, but the blend is linear in the dimension's index, from the dimension that completes
// beta_fast rotations within the original context to the one that completes beta_slow. Source: Peng et al.,
// YaRN, 2023.
class YarnBlend {
 public:
  explicit YarnBlend(const RopeSpec& spec) : factor_(spec.scaling.factor) {
    const auto dims = static_cast<double>(spec.rotary_dim);
    const auto original = static_cast<double>(spec.scaling.original_max_position_embeddings);
    const auto dimension_of = [&](double turns) {
      return dims * std::log(original / (turns * 2 * pi)) / (2 * std::log(spec.theta));
    };
    const double low = dimension_of(spec.scaling.beta_fast);
    const double high = dimension_of(spec.scaling.beta_slow);
    low_ = std::max(spec.scaling.truncate ? std::floor(low) : low, 0.0);
    high_ = std::min(spec.scaling.truncate ? std::ceil(high) : high, dims - 1);
    if (high_ == low_) high_ += 0.001;  // avoids a division by zero
  }

  double operator()(double frequency, std::size_t index) const {
    const double stretched = std::clamp((static_cast<double>(index) - low_) / (high_ - low_), 0.0, 1.0);
    return stretched * frequency / factor_ + (1 - stretched) * frequency;
  }

 private:
  double factor_;
  double low_;
  double high_;
};

// The number of pairs that turn.
std::size_t turning_pairs(const RopeSpec& spec) {
  return static_cast<std::size_t>(spec.scaling.turning_part * static_cast<double>(spec.rotary_dim) / 2);
}

}  // namespace

Rope::Rope(const RopeSpec& spec, std::size_t max_positions) : spec_(spec), frequencies_(spec.rotary_dim / 2) {
  const RopeScaling& scaling = spec.scaling;
  const YarnBlend yarn(spec);
  const bool is_long = max_positions > scaling.original_max_position_embeddings;
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    double frequency =
        std::pow(spec.theta, -2.0 * static_cast<double>(i) / static_cast<double>(spec.rotary_dim));
    switch (scaling.kind) {
      case RopeScaling::Kind::none:
        break;
      case RopeScaling::Kind::linear:
        frequency /= scaling.factor;
        break;
      case RopeScaling::Kind::llama3:
        frequency = llama3_frequency(frequency, scaling);
        break;
      case RopeScaling::Kind::yarn:
        frequency = yarn(frequency, i);
        break;
      case RopeScaling::Kind::longrope:
        frequency /= (is_long ? scaling.long_factor : scaling.short_factor)[i];
        break;
      case RopeScaling::Kind::proportional:
        frequency = i < turning_pairs(spec) ? frequency / scaling.factor : 0.0;
        break;
    }
    frequencies_[i] = static_cast<float>(frequency);
  }
  magnitude_ = static_cast<float>(scaling.attention_factor);
}

RopeAngles Rope::operator()(std::span<const std::size_t> positions, Workspace& workspace) const {
  const RopeAngles angles{&spec_, workspace.take(positions.size(), frequencies_.size()),
                          workspace.take(positions.size(), frequencies_.size())};
  if (angles.cosine.empty()) return angles;
  for (std::size_t token = 0; token < positions.size(); ++token) {
    for (std::size_t i = 0; i < frequencies_.size(); ++i) {
      // In float32, as in the original code: at large positions, results depend on the rounding.
      const float angle = static_cast<float>(positions[token]) * frequencies_[i];
      angles.cosine(token, i) = magnitude_ * std::cos(angle);
      angles.sine(token, i) = magnitude_ * std::sin(angle);
    }
  }
  return angles;
}

std::vector<Rope> distinct_ropes(const ModelSpec& spec) {
  std::vector<Rope> ropes;
  for (const BlockSpec& block : spec.blocks) {
    const std::optional<RopeSpec> rope = std::visit(
        [](const auto& part) -> std::optional<RopeSpec> {
          if constexpr (requires { part.rope; }) return part.rope;
          return std::nullopt;  // this kind of part never uses RoPE
        },
        block.attention);
    if (rope && std::ranges::find(ropes, *rope, &Rope::spec) == ropes.end())
      ropes.emplace_back(*rope, spec.max_position_embeddings);
  }
  return ropes;
}

}  // namespace tp
