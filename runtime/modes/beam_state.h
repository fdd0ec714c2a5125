// The rules of beam search: which texts continue, which are finished, and when the search ends. Independent
// of models.
#pragma once

#include "tp/generation_defaults.h"
#include "tp/request.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// A text of generated tokens.
struct Beam {
  std::vector<TokenId> tokens{};
  std::vector<float> logprobs{};  // [tokens]
  double sum = 0.0;               // sum of logprobs
};

struct FinishedBeam {
  Beam beam;
  double score = 0.0;  // see BeamSearch
  bool ended = false;  // by one of `ends`, and not by reaching max_tokens
};

// Follows version 4.57 of Hugging Face's transformers (generation/utils.py, _beam_search). Considers the best
// max(2, 1 + ends) * beams continuations of all beams by one token. A continuation that ends its text is
// finished if it is among the best `beams`. The best of the other continuations are the next beams.
class BeamState {
 public:
  // `ends`: tokens that end a text. `max_tokens`: most tokens of a text, at least 1.
  BeamState(const BeamSearch& search, std::vector<TokenId> ends, std::size_t max_tokens);

  // The texts to continue, best first; empty when the search is over.
  const std::vector<Beam>& running() const { return running_; }
  // Number of candidates that advance() needs for each text.
  std::size_t wanted_candidates() const { return looked_at_; }
  // candidates: [running], each text's most likely allowed next tokens, with log-probabilities.
  void advance(std::span<const std::vector<TokenLogprob>> candidates);

  // The finished texts, best first, when the search is over.
  const std::vector<FinishedBeam>& finished() const { return finished_; }

 private:
  struct Continuation {
    std::size_t beam;
    TokenLogprob token;
    double sum;
  };

  std::vector<Continuation> best_continuations(std::span<const std::vector<TokenLogprob>> candidates) const;
  Beam continued(const Continuation& continuation) const;
  double score(double sum, std::size_t tokens) const;
  bool can_improve() const;

  BeamSearch search_;
  std::vector<TokenId> ends_;
  std::size_t max_tokens_;
  std::size_t beams_;
  std::size_t looked_at_;
  std::vector<Beam> running_;
  std::vector<FinishedBeam> finished_;  // at most `beams`, best first
};

}  // namespace tp
