// How far a model's predictions are from a base model's, as llama.cpp's `llama-perplexity --kl-divergence`
// measures it.
#pragma once

#include "launch/perplexity/base_file.h"
#include "tp/token_id.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// A mean with its standard error.
struct Estimate {
  double value = 0.0;
  double error = 0.0;
};

// Accumulates numbers for their mean and its standard error.
class Mean {
 public:
  void add(double value) { sum_ += value, squares_ += value * value, ++count_; }
  std::size_t count() const { return count_; }
  // 0 without numbers. The error is sqrt((mean of squares - square of mean) / (count - 1)).
  Estimate estimate() const;

 private:
  double sum_ = 0.0;
  double squares_ = 0.0;
  std::size_t count_ = 0;
};

// exp() of an estimate. The error is a first-order approximation.
Estimate exp_of(const Estimate& estimate);

class Divergence {
 public:
  // Compares the probabilities of the tokens after one position. `next` is the text's next token. logits:
  // [vocabulary], the model's.
  void add(const BaseRow& base, std::span<const float> logits, TokenId next);

  std::size_t count() const { return nll_.count(); }
  Estimate perplexity() const { return exp_of(nll_.estimate()); }
  Estimate base_perplexity() const { return exp_of(base_nll_.estimate()); }
  // ln(perplexity / base_perplexity). The error allows for the correlation of both.
  Estimate log_ratio() const;
  // Kullback-Leibler divergence of the model's probabilities from the base's, in nats. Ignores tokens to
  // which the base gives less than exp(-16).
  Estimate divergence() const { return kld_.estimate(); }
  // The value that a part of the positions does not exceed: 0.5 is the median, 1 the maximum. Interpolated.
  double divergence_quantile(double part) const;
  // Root mean square of the change of the probability of the text's next token.
  Estimate change() const;
  // The part of the positions whose most likely token is the base's.
  Estimate same_top() const;

 private:
  Mean nll_;
  Mean base_nll_;
  double products_ = 0.0;  // sum of the products of both negative logarithms
  Mean kld_;
  Mean squared_change_;
  std::size_t same_top_ = 0;
  std::vector<double> klds_;
};

}  // namespace tp
