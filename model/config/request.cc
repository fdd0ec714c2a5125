#include "tp/request.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace tp {
namespace {

// NaN fails every comparison, so conditions say what is right, never what is wrong.
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

void Request::validate() const {
  sampling.validate();
  require<RequestError>(
      !prompt.empty(),
      "cannot continue a prompt: it has 0 tokens, expected at least 1; give a text, or the model's "
      "beginning-of-sequence token");
  const bool asks_about_prompt = score_from.has_value() || prompt_logits;
  require<RequestError>(max_tokens >= (asks_about_prompt ? 0 : 1),
                        "cannot generate: `max_tokens` is {}, expected >= 1; ask for at least one token",
                        max_tokens);
  require<RequestError>(score_top >= 0, "cannot score the prompt: `score_top` is {}, expected >= 0",
                        score_top);
  require<RequestError>(n >= 1 && n <= kMaxSamples,
                        "cannot generate: `n` is {}, expected 1 to {} continuations; ask for more in further "
                        "requests, with other seeds",
                        n, kMaxSamples);
  require<RequestError>(!score_from || (*score_from >= 1 && *score_from < prompt.size()),
                        "cannot score token {} of {}; expected one of the prompt that has a token before it",
                        score_from.value_or(0), prompt.size());
  require<RequestError>(
      attention == AttentionMask::causal || (max_tokens == 0 && prompt_logits && !score_from),
      "cannot continue or score a prompt with bidirectional attention, as its tokens attend to "
      "those that follow; set max_tokens to 0 and prompt_logits to true, or make it causal");
  require<RequestError>(
      max_tokens > 0 || n == 1,
      "cannot generate: `n` is {} but max_tokens is 0, which asks about the prompt alone; ask "
      "once",
      n);
  require<RequestError>(
      min_tokens >= 0 && min_tokens <= max_tokens,
      "cannot generate: `min_tokens` is {}, expected 0 to max_tokens, which is {}; lower it", min_tokens,
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
