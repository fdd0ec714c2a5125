#include "tp/request.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {
namespace {

// Callers compute `in_range` by comparisons that must hold, so that NaN fails.
void check(bool in_range, std::string_view name, float found, std::string_view expected,
           std::string_view advice) {
  require<RequestError>(in_range, "cannot sample: `{}` is {}, expected {}; {}", name, found, expected,
                        advice);
}

}  // namespace

void SamplingParams::validate() const {
  check(temperature >= 0.0F && std::isfinite(temperature), "temperature", temperature, "a finite number >= 0",
        "use 0 for the most likely token, 1 for the model's own distribution");
  require<RequestError>(top_k >= 0, "cannot sample: `top_k` is {}, expected >= 0; use 0 to keep all tokens",
                        top_k);
  check(top_p > 0.0F && top_p <= 1.0F, "top_p", top_p, "a number in (0, 1]", "use 1 to keep all tokens");
  check(min_p >= 0.0F && min_p <= 1.0F, "min_p", min_p, "a number in [0, 1]", "use 0 to keep all tokens");
  check(repetition_penalty > 0.0F && std::isfinite(repetition_penalty), "repetition_penalty",
        repetition_penalty, "a finite number > 0", "use 1 for no penalty");
  check(std::isfinite(presence_penalty), "presence_penalty", presence_penalty, "a finite number",
        "use 0 for no penalty");
  check(std::isfinite(frequency_penalty), "frequency_penalty", frequency_penalty, "a finite number",
        "use 0 for no penalty");
  for (const LogitBias& entry : logit_bias) {
    require<RequestError>(
        std::isfinite(entry.bias),
        "cannot sample: `logit_bias` of token {} is {}, expected a finite number; use -100 to rule "
        "a token out in effect",
        entry.id, entry.bias);
  }
  require<RequestError>(logprobs >= -1,
                        "cannot report log-probabilities: `logprobs` is {}, expected >= -1; use -1 for none",
                        logprobs);
}

std::uint64_t draw_seed() {
  std::random_device device;
  return std::uniform_int_distribution<std::uint64_t>(0, (std::uint64_t{1} << 53) - 1)(device);
}

namespace {

void require_one_for_each_token(std::span<const std::uint8_t> list, std::size_t tokens,
                                std::string_view name) {
  require<RequestError>(
      list.empty() || list.size() == tokens,
      "cannot compute the prompt: `{}` has {} entries, expected one for each of its {} tokens; "
      "give one per token, or none",
      name, list.size(), tokens);
}

void require_positions(const std::vector<std::size_t>& places, std::size_t tokens, std::string_view what,
                       std::string_view name) {
  const bool ascend = std::ranges::adjacent_find(places, std::greater_equal<>()) == places.end();
  require<RequestError>(
      places.empty() || (ascend && places.back() < tokens),
      "cannot {}: expected ascending positions of a prompt of {} tokens, found different ones; check `{}`",
      what, tokens, name);
}

// Checks the outputs that a request asks for about its prompt.
void validate_asked(const Request& request) {
  const int kinds = (request.score_from || request.prompt_logits ? 1 : 0) + (request.prompt_hidden ? 1 : 0) +
                    (request.pooling ? 1 : 0) + (request.states_at.empty() ? 0 : 1) +
                    (request.candidates_at.empty() ? 0 : 1);
  require<RequestError>(kinds <= 1,
                        "cannot answer everything about a prompt at once: expected one of scores or logits, "
                        "prompt_hidden, pooling, states_at and candidates_at, found {}; ask for one",
                        kinds);
  require_positions(request.candidates_at,
                    request.decoder_prompt.empty() ? request.prompt.size() : request.decoder_prompt.size(),
                    "list candidates", "candidates_at");
  require_positions(request.states_at, request.prompt.size(), "return hidden states", "states_at");
  require<RequestError>(request.candidates >= 1, "cannot list {} candidates; ask for at least one",
                        request.candidates);
  require_one_for_each_token(request.token_types, request.prompt.size(), "token_types");
  require_one_for_each_token(request.global_tokens, request.prompt.size(), "global_tokens");
}

void validate_unmasking(const Unmasking& unmasking) {
  constexpr int kMaxSteps = 1 << 20;
  require<RequestError>(unmasking.steps >= 0 && unmasking.steps <= kMaxSteps,
                        "cannot unmask tokens: `steps` is {}, expected 1 to {}, or 0 for one pass per token; "
                        "use at most one step per token",
                        unmasking.steps, kMaxSteps);
  require<RequestError>(unmasking.block_length >= 0,
                        "cannot unmask tokens: `block_length` is {}, expected >= 1, or 0 for the model's own",
                        unmasking.block_length);
  const float threshold = unmasking.threshold.value_or(0.0F);
  require<RequestError>(threshold >= 0.0F && threshold <= 1.0F,
                        "cannot unmask tokens: `threshold` is {}, expected a probability in [0, 1]; use 1 to "
                        "unmask no more than the schedule says",
                        threshold);
}

// The engine's only thread looks at these lists for each token, while all other requests wait.
constexpr std::size_t kMaxBiases = std::size_t{1} << 14;
constexpr std::size_t kMaxStops = 256;
constexpr std::size_t kMaxStopBytes = 1024;  // bytes of one text, whose beginnings are all compared
constexpr std::size_t kMaxStopIds = 1024;
constexpr std::size_t kMaxBadWords = 1024;
constexpr std::size_t kMaxListBytes = std::size_t{64} << 10;  // bytes of all texts of a list

void require_at_most(std::size_t found, std::size_t max, std::string_view name, std::string_view what) {
  require<RequestError>(found <= max, "`{}`: expected at most {} {}, found {}; give fewer", name, max, what,
                        found);
}

template <class List>
std::size_t size_of_all(const List& list) {
  return std::accumulate(list.begin(), list.end(), std::size_t{0},
                         [](std::size_t sum, const auto& element) { return sum + element.size(); });
}

void validate_lists(const Request& request) {
  require_at_most(request.sampling.logit_bias.size(), kMaxBiases, "logit_bias", "tokens");
  require_at_most(request.stop_token_ids.size(), kMaxStopIds, "stop_token_ids", "ids");
  require_at_most(request.stop.size(), kMaxStops, "stop", "texts");
  require_at_most(size_of_all(request.stop), kMaxListBytes, "stop", "bytes in all texts");
  for (const std::string& text : request.stop)
    require_at_most(text.size(), kMaxStopBytes, "stop", "bytes in a text");
  require_at_most(request.bad_words.size(), kMaxBadWords, "bad_words", "texts");
  require_at_most(size_of_all(request.bad_words), kMaxListBytes, "bad_words", "bytes in all texts");
  require_at_most(request.bad_words_ids.size(), kMaxBadWords, "bad_words_ids", "sequences");
  require_at_most(size_of_all(request.bad_words_ids), kMaxListBytes, "bad_words_ids", "ids in all sequences");
}

// Rejects options that beam search cannot use: it chooses by sums of log-probabilities only.
void validate_beam_search(const Request& request) {
  const int beams = request.beam_search->beams;
  require<RequestError>(beams >= 1 && beams <= BeamSearch::kMaxBeams,
                        "cannot search: `beams` is {}, expected 1 to {}; choose another number", beams,
                        BeamSearch::kMaxBeams);
  require<RequestError>(request.n <= beams,
                        "cannot search: `n` is {}, expected at most the {} of `beams`; raise `beams`",
                        request.n, beams);
  require<RequestError>(std::isfinite(request.beam_search->length_penalty),
                        "cannot search: `length_penalty` is {}, expected a finite number; use 1",
                        request.beam_search->length_penalty);
  const SamplingParams& sampling = request.sampling;
  const auto refuse = [](bool asked, std::string_view what, std::string_view advice) {
    require<RequestError>(!asked, "cannot search: beam search does not go with {}; {}", what, advice);
  };
  refuse(!sampling.greedy(), "a `temperature` above 0, because it draws nothing", "set it to 0");
  refuse(sampling.repetition_penalty != 1.0F, "a `repetition_penalty`", "set it to 1");
  refuse(sampling.presence_penalty != 0.0F || sampling.frequency_penalty != 0.0F,
         "presence and frequency penalties", "set them to 0");
  refuse(!sampling.logit_bias.empty(), "`logit_bias`", "leave it out");
  refuse(sampling.logprobs > 0, "log-probabilities of other tokens", "set `logprobs` to 0");
  refuse(!request.stop.empty(), "stop texts", "leave `stop` out, or use `stop_token_ids`");
  refuse(request.constraint || request.allowed_tokens, "constraints", "leave them out");
  refuse(request.thinking.has_value(), "a limit of thinking", "leave it out");
  refuse(request.asks_about_prompt(), "questions about the prompt", "ask them in another request");
}

}  // namespace

void Request::validate() const {
  sampling.validate();
  validate_lists(*this);
  if (beam_search) validate_beam_search(*this);
  require<RequestError>(
      !prompt.empty(),
      "cannot continue a prompt: it has 0 tokens, expected at least 1; give a text, or the model's "
      "beginning-of-sequence token");
  require<RequestError>(max_tokens >= (asks_about_prompt() ? 0 : 1),
                        "cannot generate: `max_tokens` is {}, expected >= 1; ask for at least one token",
                        max_tokens);
  require<RequestError>(score_top >= 0, "cannot score the prompt: `score_top` is {}, expected >= 0",
                        score_top);
  require<RequestError>(n >= 1 && n <= kMaxSamples,
                        "cannot generate: `n` is {}, expected 1 to {} continuations; ask for more in further "
                        "requests, with other seeds",
                        n, kMaxSamples);
  require<RequestError>(!thinking || thinking->max_tokens >= 0,
                        "cannot limit thinking: `max_thinking_tokens` is {}, expected >= 0; leave it out for "
                        "no limit",
                        thinking ? thinking->max_tokens : 0);
  require<RequestError>(
      !thinking || (!thinking->begin.empty() && !thinking->end.empty() && !thinking->end_ids.empty()),
      "cannot limit thinking: its markers are empty, expected the texts between which this model thinks; "
      "leave the limit out");
  require<RequestError>(!score_from || (*score_from >= 1 && *score_from < prompt.size()),
                        "cannot score token {} of {}; expected one of the prompt that has a token before it",
                        score_from.value_or(0), prompt.size());
  validate_asked(*this);
  require<RequestError>(
      !proposal || !candidates_at.empty(),
      "cannot propose tokens: `proposal` is set, but no positions are in `candidates_at`; give "
      "them, or leave it out");
  if (unmasking) validate_unmasking(*unmasking);
  require<RequestError>(
      !bidirectional || (max_tokens == 0 && asks_about_prompt() && !score_from),
      "cannot continue or score a prompt with bidirectional attention, because its tokens attend to later "
      "tokens; set max_tokens to 0 and prompt_logits to true, or make it causal");
  require<RequestError>(
      max_tokens > 0 || n == 1,
      "cannot generate: `n` is {} but `max_tokens` is 0, which asks about the prompt alone; ask "
      "once",
      n);
  require<RequestError>(
      min_tokens >= 0 && min_tokens <= max_tokens,
      "cannot generate: `min_tokens` is {}, expected 0 to `max_tokens`, which is {}; lower it", min_tokens,
      max_tokens);
  require<RequestError>(
      std::ranges::find(stop, std::string()) == stop.end(),
      "cannot stop at an empty text: `stop` has one, expected texts of at least 1 character; "
      "remove it");
  const bool empty_word = std::ranges::find(bad_words, std::string()) != bad_words.end() ||
                          std::ranges::find(bad_words_ids, std::vector<TokenId>()) != bad_words_ids.end();
  require<RequestError>(!empty_word,
                        "cannot avoid an empty text: `bad_words` has one, expected texts of at least 1 "
                        "character; remove it");
}

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::error:
      return "error";
  }
  return "none";
}

}  // namespace tp
