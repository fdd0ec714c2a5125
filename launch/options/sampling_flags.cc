#include "launch/options/sampling_flags.h"

#include "launch/common/option_group.h"
#include "tp/internal/require.h"

#include <limits>

namespace tp {
namespace {

constexpr const char* kGroup = "Sampling (defaults: the model's generation_config.json)";
constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<int>::max());

// llama.cpp and vLLM write -1 for a random seed.
CLI::Validator seed_number() {
  const auto check = [known = whole_number(0, std::numeric_limits<std::uint64_t>::max())](std::string& text) {
    const std::string error = known(text);
    return error.empty() || text != "-1" ? error : error + "; leave it out for a random seed";
  };
  return CLI::Validator(check, "");
}

}  // namespace

void SamplingFlags::add_to(CLI::App& command) {
  const OptionGroup group(command, kGroup);
  group.add("--max-tokens", max_tokens, "N", whole_number(1, kLargest),
            "Maximum tokens to generate (default: the model's, or 256)");
  group.add_flag("--greedy", greedy, "Always choose the most likely token, like --temperature 0");
  group.add("--temperature", temperature, "T", number(), "0 is greedy, 1 is the model's own distribution");
  group.add("--top-k", top_k, "K", whole_number(0, kLargest), "Keep the K most likely tokens; 0 keeps all");
  group.add("--top-p", top_p, "P", number(),
            "Nucleus sampling: keep the smallest set of tokens with cumulative probability P");
  group.add("--min-p", min_p, "P", number(),
            "Keep tokens that are at least P times as likely as the most likely token");
  group.add("--repetition-penalty", repetition_penalty, "X", number(),
            "Values above 1 make tokens that have already occurred less likely");
  group.add("--presence-penalty", presence_penalty, "X", number(),
            "Subtract X from the logits of tokens that were generated");
  group.add("--frequency-penalty", frequency_penalty, "X", number(),
            "Subtract X from a token's logit each time it is generated");
  group.add("--seed", seed, "N", seed_number(), "The same seed gives the same text (default: a random seed)");
  group.add_text("--stop", stop, "A text that ends a continuation; may be given several times")
      ->allow_extra_args(false);
  group.add_flag("--include-stop", include_stop, "Include the stop text in the output");
  group
      .add_text("--bad-word", bad_words,
                "A text that a continuation must not contain; may be given several times")
      ->allow_extra_args(false);
  group.add("--min-tokens", min_tokens, "N", whole_number(0, kLargest),
            "Minimum tokens before an end-of-sequence token or a stop text can end the continuation");
  group.add_flag("--ignore-eos", ignore_eos, "Continue past the end-of-sequence token");
}

void SamplingFlags::add_result_options_to(CLI::App& command) {
  const OptionGroup group(command, kGroup);
  group.add("--n", n, "N", whole_number(1, kMaxSamples), "Continuations per prompt, at most 4096");
  group.add("--beams", beams, "N", whole_number(1, BeamSearch::kMaxBeams),
            "Beam search with N beams, which finds the likeliest texts instead of sampling");
  group.add("--length-penalty", length_penalty, "F", number(),
            "With --beams: divide log-probabilities by length ^ F (default: the model's, or 1)");
  group.add(
      "--early-stopping", early_stopping, "WHEN", one_of({"yes", "no", "never"}),
      "With --beams, when to end the search: yes, if as many texts as beams are finished; no, if better "
      "texts are unlikely; never, if better texts are impossible (default: the model's, or no)");
  group.add("--logprobs", logprobs, "K", whole_number(0, 1 << 20),
            "With --json: log-probabilities of each token and of the K most likely tokens");
}

void SamplingFlags::add_thinking_option_to(CLI::App& command) {
  add_thinking_option(command, max_thinking_tokens, kGroup);
}

void add_thinking_option(CLI::App& command, std::optional<int>& target, const std::string& group) {
  OptionGroup(command, group)
      .add("--max-thinking-tokens", target, "N", whole_number(0, kLargest),
           "Maximum tokens of thinking before an answer; 0 turns thinking off (default: no limit)");
}

void SamplingFlags::check() const {
  require<CLI::ValidationError>(
      beams != 1 || !(length_penalty || early_stopping),
      "--length-penalty and --early-stopping are settings of beam search; give --beams too, more than 1");
  require<CLI::ValidationError>(
      !greedy || temperature.value_or(0.0F) == 0.0F,
      "expected --greedy or a --temperature above 0, found both; leave one of the two out");
  Request request = make_request(SamplingParams{.temperature = 0.0F});
  request.prompt = {0};  // any prompt
  request.thinking.reset();
  require_valid(request);
}

std::optional<BeamSearch> SamplingFlags::beam_search(const BeamSearch& defaults) const {
  using Stop = BeamSearch::Stop;
  if (beams == 1) return std::nullopt;
  BeamSearch search = defaults;
  search.beams = beams;
  if (length_penalty) search.length_penalty = *length_penalty;
  if (early_stopping)
    search.stop = *early_stopping == "yes"  ? Stop::early
                  : *early_stopping == "no" ? Stop::likely
                                            : Stop::never;
  return search;
}

Request SamplingFlags::make_request(const SamplingParams& defaults, const BeamSearch& beam_defaults) const {
  Request request;
  SamplingParams& sampling = request.sampling;
  sampling = defaults;
  // Filters have no effect on greedy decoding, so a user who sets one wants to sample.
  const bool wants_sampling = top_k || top_p || min_p;
  if (wants_sampling && sampling.greedy()) sampling.temperature = 1.0F;
  const auto set = [](auto& target, const auto& given) {
    if (given) target = *given;
  };
  request.beam_search = beam_search(beam_defaults);
  if (request.beam_search) sampling.temperature = 0.0F;
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
  request.max_tokens = max_tokens.value_or(kDefaultMaxTokens);
  request.max_tokens_is_default = !max_tokens;
  request.n = n;
  request.ignore_eos = ignore_eos;
  request.stop = stop;
  request.min_tokens = min_tokens;
  request.include_stop_str_in_output = include_stop;
  request.bad_words = bad_words;
  // Thinking is marked as in the chat template.
  if (max_thinking_tokens) request.thinking = ThinkingLimit{.max_tokens = *max_thinking_tokens};
  return request;
}

}  // namespace tp
