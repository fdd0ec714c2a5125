#include "tests/reference/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tp::reference {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// _compute_llama3_parameters: three bands of wavelengths.
double llama3(double frequency, const RopeScaling& s) {
  const auto old_length = static_cast<double>(s.original_max_position_embeddings);
  const double wavelength = kTwoPi / frequency;
  if (wavelength < old_length / s.high_freq_factor) return frequency;
  if (wavelength > old_length / s.low_freq_factor) return frequency / s.factor;
  const double smooth =
      (old_length / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

// find_correction_dim of _compute_yarn_parameters.
double correction_dimension(double rotations, double dims, double theta, double old_length) {
  return (dims * std::log(old_length / (rotations * kTwoPi))) / (2 * std::log(theta));
}

// inv_freq_interpolation and inv_freq_extrapolation mixed by a linear ramp over the dimensions.
double yarn(double frequency, double index, double dims, double theta, const RopeScaling& s) {
  const auto old_length = static_cast<double>(s.original_max_position_embeddings);
  double low = correction_dimension(s.beta_fast, dims, theta, old_length);
  double high = correction_dimension(s.beta_slow, dims, theta, old_length);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  const double ramp = std::clamp((index - low) / (high - low), 0.0, 1.0);
  const double extrapolation_factor = 1 - ramp;
  return frequency / s.factor * (1 - extrapolation_factor) + frequency * extrapolation_factor;
}

}  // namespace

Frequencies rope_frequencies(double theta, const RopeScaling& scaling, std::size_t head_dim) {
  Frequencies result;
  const auto dims = static_cast<double>(head_dim);
  for (std::size_t i = 0; i < head_dim / 2; ++i) {
    const double frequency = 1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / dims);
    double scaled = frequency;
    if (scaling.kind == RopeScaling::Kind::linear) scaled = frequency / scaling.factor;
    if (scaling.kind == RopeScaling::Kind::llama3) scaled = llama3(frequency, scaling);
    if (scaling.kind == RopeScaling::Kind::yarn)
      scaled = yarn(frequency, static_cast<double>(i), dims, theta, scaling);
    // _compute_proportional_rope_parameters
    if (scaling.kind == RopeScaling::Kind::proportional) {
      const auto angles = static_cast<std::size_t>(scaling.turning_part * dims / 2);
      scaled = i < angles ? frequency / scaling.factor : 0.0;
    }
    result.per_position.push_back(scaled);
  }
  if (scaling.kind == RopeScaling::Kind::yarn) result.magnitude = scaling.attention_factor;
  return result;
}

}  // namespace tp::reference
