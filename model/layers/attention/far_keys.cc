#include "model/layers/attention/far_keys.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tp {
namespace {

// Adding log(n) to a key's score makes the key count n times. The first block counts block_repeats + 1 times.
std::vector<float> bias_of_outer_blocks(const kernels::AttentionPattern& pattern, std::size_t keys) {
  std::vector<float> bias(keys, -INFINITY);
  const std::size_t last = (keys - 1) / pattern.block_size * pattern.block_size;
  std::fill_n(bias.begin(), pattern.block_size, std::log1p(static_cast<float>(pattern.block_repeats)));
  std::fill(bias.begin() + static_cast<std::ptrdiff_t>(last), bias.end(), 0.0F);
  return bias;
}

std::vector<float> bias_of_global_tokens(std::span<const std::uint8_t> is_global, std::size_t dilation) {
  const kernels::Residues residues{is_global.size(), dilation};
  std::vector<float> bias;
  bias.reserve(is_global.size());
  for (std::size_t place = 0; place < is_global.size(); ++place)
    bias.push_back(is_global[residues.position_at(place)] != 0 ? 0.0F : -INFINITY);
  return bias;
}

}  // namespace

FarKeys::FarKeys(const kernels::AttentionPattern& pattern, const StepContext& step)
    : spans_(step.spans().begin(), step.spans().end()) {
  biases_.reserve(spans_.size());
  for (kernels::AttentionSpan& span : spans_) {
    if (pattern.is_by_blocks(span.keys())) {
      biases_.push_back(bias_of_outer_blocks(pattern, span.keys()));
    } else if (pattern.window && !step.batch.is_global.empty()) {
      const auto is_global = std::span(step.batch.is_global).subspan(span.first_token, span.tokens);
      biases_.push_back(bias_of_global_tokens(is_global, pattern.dilation));
    } else {
      continue;
    }
    span.key_bias = biases_.back().data();
  }
}

}  // namespace tp
