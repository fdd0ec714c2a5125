#include "runtime/engine/logit_ops.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kGreatest = std::numeric_limits<float>::max();

// No bias or penalty makes a logit infinite: -infinity is reserved for tokens that are ruled out.
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
    for (const auto& [id, counts] : ops.history->all()) {
      if (float* const logit = logit_of(id)) *logit = penalised(*logit, counts, *ops.params);
    }
  }
  for (const TokenId id : ops.banned) {
    if (float* const logit = logit_of(id)) *logit = -kInfinity;
  }
  if (ops.allowed == nullptr) return;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!ops.allowed->contains(first_id + static_cast<TokenId>(i))) logits[i] = -kInfinity;
  }
}

}  // namespace tp
