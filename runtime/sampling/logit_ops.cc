#include "runtime/sampling/logit_ops.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kGreatest = std::numeric_limits<float>::max();

// Keeps biases and penalties from making a logit infinite: -infinity is reserved for tokens that are ruled
// out.
float finite(double value) { return static_cast<float>(std::clamp(value, -kGreatest, kGreatest)); }

float penalised(float logit, TokenHistory::Counts counts, const SamplingParams& params) {
  double value = logit;
  if (counts.prompt + counts.generated > 0) {
    const double penalty = params.repetition_penalty;
    value = value > 0 ? value / penalty : value * penalty;
  }
  if (counts.generated > 0) {
    value -= params.presence_penalty;
    value -= static_cast<double>(params.frequency_penalty) * counts.generated;
  }
  return finite(value);
}

// Rules out the logits, at most 64, whose bits are not set. Most words of a mask have few or only such bits.
void rule_out(std::uint64_t allowed, std::span<float> logits) {
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - logits.size());
  if ((allowed & all) == 0) {
    std::ranges::fill(logits, -kInfinity);
    return;
  }
  for (std::uint64_t others = ~allowed & all; others != 0; others &= others - 1)
    logits[static_cast<std::size_t>(std::countr_zero(others))] = -kInfinity;
}

void rule_out_others(const TokenMask& allowed, TokenId first_id, std::span<float> logits) {
  const std::span<const std::uint64_t> words = allowed.words();
  for (std::size_t i = 0; i < logits.size();) {
    const std::size_t id = static_cast<std::size_t>(first_id) + i;
    const std::size_t count = std::min(64 - id % 64, logits.size() - i);
    const std::uint64_t word = id / 64 < words.size() ? words[id / 64] : 0;
    rule_out(word >> (id % 64), logits.subspan(i, count));
    i += count;
  }
}

}  // namespace

bool needs_history(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
         params.frequency_penalty != 0.0F;
}

bool LogitOps::any() const {
  return history != nullptr || !bias.empty() || !banned.empty() || allowed != nullptr;
}

void apply(const LogitOps& ops, TokenId first_id, std::span<float> logits) {
  const auto logit_of = [&](TokenId id) -> float* {
    const auto index = static_cast<std::size_t>(id - first_id);
    return id >= first_id && index < logits.size() && logits[index] > -kInfinity ? &logits[index] : nullptr;
  };
  for (const LogitBias& bias : ops.bias) {
    if (float* const logit = logit_of(bias.id)) *logit = finite(static_cast<double>(*logit) + bias.bias);
  }
  if (ops.history != nullptr) {
    for (auto [id, counts] : ops.history->all()) {
      float* const logit = logit_of(id);
      if (logit == nullptr) continue;
      counts.generated -= static_cast<std::uint32_t>(std::ranges::count(ops.later, id));
      *logit = penalised(*logit, counts, *ops.params);
    }
  }
  for (const TokenId id : ops.banned) {
    if (float* const logit = logit_of(id)) *logit = -kInfinity;
  }
  if (ops.allowed != nullptr) rule_out_others(*ops.allowed, first_id, logits);
}

}  // namespace tp
