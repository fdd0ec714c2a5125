// Beam search as a rule: which texts are followed, which are finished, and when it ends. Knows no model.
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
  double sum = 0.0;               // of these
};

struct FinishedBeam {
  Beam beam;
  double score = 0.0;  // see BeamSearch
  bool ended = false;  // with a token that ends it, and not because it is as long as may be
};

// As version 4.57 of Hugging Face's transformers has it (generation/utils.py, _beam_search): of the
// continuations of all beams by one token, the best max(2, 1 + ends) * beams are looked at. Those of them
// that end are finished if they are among the best `beams`; the best of the others are the next beams.
class BeamState {
 public:
  // `ends`: tokens that end a text; `max_tokens`: of a text, at least 1.
  BeamState(const BeamSearch& search, std::vector<TokenId> ends, std::size_t max_tokens);

  // The texts to be continued, best first; none when the search is over.
  const std::vector<Beam>& running() const { return running_; }
  // How many of the most likely next tokens of each it has to be given.
  std::size_t wanted_candidates() const { return looked_at_; }
  // candidates: for each running text its most likely next tokens that are allowed, with log-probabilities.
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
