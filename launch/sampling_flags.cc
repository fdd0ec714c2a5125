#include "launch/sampling_flags.h"

#include "launch/option_checks.h"
#include "tp/error.h"

namespace tp {

void SamplingFlags::add_to(CLI::App& command) {
  const auto add = [&](const char* name, auto& target, const char* type, const char* help) {
    return command.add_option(name, target, help)
        ->type_name(type)
        ->group("Sampling (defaults: the model's generation_config.json)");
  };
  const auto add_flag = [&](const char* name, bool& target, const char* help) {
    command.add_flag(name, target, help)->group("Sampling (defaults: the model's generation_config.json)");
  };
  add("--max-tokens", max_tokens, "N", "Tokens to generate at most")->capture_default_str();
  add_flag("--greedy", greedy, "Always the most likely token; the same as --temperature 0");
  add("--temperature", temperature, "T", "0 is greedy, 1 the model's own distribution");
  add("--top-k", top_k, "K", "Keep the k most likely tokens; 0 keeps all");
  add("--top-p", top_p, "P", "Keep the most likely tokens that reach probability p together");
  add("--min-p", min_p, "P", "Keep tokens at least p times as likely as the likeliest");
  add("--repetition-penalty", repetition_penalty, "X", "Above 1: tokens that occurred are less likely");
  add("--presence-penalty", presence_penalty, "X", "Subtracted from the logits of generated tokens");
  add("--frequency-penalty", frequency_penalty, "X", "Subtracted for every time a token was generated");
  add("--seed", seed, "N", "The same seed gives the same text (default: a random one)");
  add("--n", n, "N", "Continuations of every prompt")->capture_default_str();
  add("--stop", stop, "TEXT", "A text that ends a continuation; may be given several times")
      ->allow_extra_args(false);
  add_flag("--ignore-eos", ignore_eos, "Go on after the end-of-sequence token");
  add("--logprobs", logprobs, "K", "With --json: log-probabilities of the token and the k most likely ones")
      ->check(whole_number(0, 1 << 20));
}

void SamplingFlags::check() const {
  Request request = make_request(SamplingParams{});
  request.prompt = {0};  // any
  try {
    request.validate();
  } catch (const RequestError& error) {
    throw CLI::ValidationError(error.what());
  }
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
