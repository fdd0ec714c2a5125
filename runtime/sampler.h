// Chooses the next token. Rank 0 does it for all: no communication, no cache, no model.
#pragma once

#include "runtime/candidates.h"
#include "runtime/random_draw.h"
#include "runtime/token_history.h"
#include "tp/request.h"

#include <cstddef>
#include <vector>

namespace tp {

struct Choice {
  TokenId id = 0;
  float logprob = 0.0F;                    // in the model's own distribution, as TokenLogprob
  std::vector<TokenLogprob> top_logprobs;  // params.logprobs of them, the most likely first
};

// Holds scratch memory, so that choosing does not allocate once it is warm. One thread at a time.
class Sampler {
 public:
  // The order is: penalties; the most likely token if temperature is 0; else temperature, top-k, top-p (of
  // what top-k left, at least one), min-p, and a draw from what is left, in proportion to the probabilities.
  // The result depends on the arguments only: not on earlier calls, nor on the order of the candidates, nor
  // on whether there are more of them than candidates_needed() asks for.
  //
  // Throws RequestError if logits are NaN or infinite, and std::logic_error if there are too few candidates
  // for these parameters. `params` must be valid (SamplingParams::validate).
  Choice choose(const Candidates& candidates, const SamplingParams& params, const TokenHistory& history,
                const DrawKey& key);

 private:
  void penalise(const Candidates& candidates, const SamplingParams& params, const TokenHistory& history);
  void filter(const SamplingParams& params);
  void keep_top_k(std::size_t count);
  void keep_top_p(float mass, float inverse_temperature);
  void keep_min_p(float fraction, float inverse_temperature);
  // The least likely token of the shortest row of most likely ones whose weights_ reach `share` of their sum.
  Candidate last_of_nucleus(float share, float max, float inverse_temperature);

  std::vector<Candidate> tokens_;      // what can still be chosen, with penalised logits
  std::vector<float> weights_;         // of tokens_: exp((logit - max) / temperature)
  std::vector<double> bucket_masses_;  // sums of weights of tokens about equally likely
  std::vector<Candidate> boundary_;    // the bucket in which the nucleus ends
};

}  // namespace tp
