#include "launch/sampling_flags.h"

namespace tp {

void SamplingFlags::add_to(CLI::App& command) {
  const std::string group = "Sampling (defaults: the model's generation_config.json)";
  command.add_option("--max-tokens", max_tokens, "Tokens to generate at most")
      ->capture_default_str()
      ->group(group);
  command.add_flag("--greedy", greedy, "Always the most likely token; the same as --temperature 0")
      ->group(group);
  command.add_option("--temperature", temperature, "0 is greedy, 1 the model's own distribution")
      ->group(group);
  command.add_option("--top-k", top_k, "Keep the k most likely tokens; 0 keeps all")->group(group);
  command.add_option("--top-p", top_p, "Keep the most likely tokens that reach probability p together")
      ->group(group);
  command.add_option("--min-p", min_p, "Keep tokens at least p times as likely as the likeliest")
      ->group(group);
  command
      .add_option("--repetition-penalty", repetition_penalty, "Above 1: tokens that occurred are less likely")
      ->group(group);
  command
      .add_option("--presence-penalty", presence_penalty, "Subtracted from the logits of generated tokens")
      ->group(group);
  command
      .add_option("--frequency-penalty", frequency_penalty, "Subtracted for every time a token was generated")
      ->group(group);
  command.add_option("--seed", seed, "The same seed gives the same text (default: a random one)")
      ->group(group);
  command.add_option("--n", n, "Continuations of every prompt")->capture_default_str()->group(group);
  command.add_option("--stop", stop, "A text that ends a continuation; may be given several times")
      ->group(group)
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", ignore_eos, "Go on after the end-of-sequence token")->group(group);
  command
      .add_option("--logprobs", logprobs, "With --json: log-probabilities of the k most likely tokens too")
      ->group(group);
}

Request SamplingFlags::make_request(const SamplingParams& defaults) const {
  Request request;
  SamplingParams& sampling = request.sampling;
  sampling = defaults;
  // A filter is of no use to a greedy default: whoever asks for one wants to sample.
  const bool wants_sampling = top_k || top_p || min_p;
  if (wants_sampling && sampling.greedy()) sampling.temperature = 1.0F;
  const auto set = [](auto& target, const auto& given) {
    if (given) target = *given;
  };
  set(sampling.temperature, temperature);
  set(sampling.top_k, top_k);
  set(sampling.top_p, top_p);
  set(sampling.min_p, min_p);
  set(sampling.repetition_penalty, repetition_penalty);
  set(sampling.presence_penalty, presence_penalty);
  set(sampling.frequency_penalty, frequency_penalty);
  set(sampling.logprobs, logprobs);
  if (seed) sampling.seed = seed;
  if (greedy) sampling.temperature = 0.0F;
  request.max_tokens = max_tokens;
  request.n = n;
  request.ignore_eos = ignore_eos;
  request.stop = stop;
  return request;
}

}  // namespace tp
