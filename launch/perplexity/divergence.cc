#include "launch/perplexity/divergence.h"

#include <algorithm>
#include <cmath>

namespace tp {

Estimate Mean::estimate() const {
  if (count_ == 0) return {};
  const auto count = static_cast<double>(count_);
  const double mean = sum_ / count;
  const double variance = squares_ / count - mean * mean;
  return {mean, variance > 0.0 && count_ > 1 ? std::sqrt(variance / (count - 1.0)) : 0.0};
}

Estimate exp_of(const Estimate& estimate) {
  const double value = std::exp(estimate.value);
  return {value, value * estimate.error};
}

void Divergence::add(const BaseRow& base, std::span<const float> logits, TokenId next) {
  constexpr float kMin = -16.0F;
  const auto token = static_cast<std::size_t>(next);
  const auto top = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
  const double log_sum = log_sum_exp(logits);
  std::size_t base_top = 0;
  double kld = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float logprob = base.logprob(i);
    if (base.steps[i] > base.steps[base_top]) base_top = i;
    if (logprob > kMin)
      kld += std::exp(static_cast<double>(logprob)) * (logprob - (static_cast<double>(logits[i]) - log_sum));
  }
  const double nll = log_sum - static_cast<double>(logits[token]);
  const double base_nll = -static_cast<double>(base.logprob(token));
  nll_.add(nll);
  base_nll_.add(base_nll);
  products_ += nll * base_nll;
  kld_.add(kld);
  klds_.push_back(kld);
  const double change = std::exp(-nll) - std::exp(-base_nll);
  squared_change_.add(change * change);
  same_top_ += top == base_top ? 1 : 0;
}

Estimate Divergence::log_ratio() const {
  const auto count = static_cast<double>(this->count());
  const Estimate own = nll_.estimate();
  const Estimate base = base_nll_.estimate();
  const double covariance = count > 1 ? (products_ / count - own.value * base.value) / (count - 1.0) : 0.0;
  const double variance = own.error * own.error + base.error * base.error - 2.0 * covariance;
  return {own.value - base.value, std::sqrt(std::max(variance, 0.0))};
}

double Divergence::divergence_quantile(double part) const {
  if (klds_.empty()) return 0.0;
  std::vector<double> sorted = klds_;
  std::ranges::sort(sorted);
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const double rest = place - static_cast<double>(below);
  return (1.0 - rest) * sorted[below] + rest * sorted[std::min(below + 1, sorted.size() - 1)];
}

Estimate Divergence::change() const {
  const Estimate square = squared_change_.estimate();
  const double root = std::sqrt(square.value);
  return {root, root > 0.0 ? 0.5 / root * square.error : 0.0};
}

Estimate Divergence::same_top() const {
  const auto count = static_cast<double>(this->count());
  if (count == 0.0) return {};
  const double part = static_cast<double>(same_top_) / count;
  return {part, count > 1.0 ? std::sqrt(part * (1.0 - part) / (count - 1.0)) : 0.0};
}

}  // namespace tp
