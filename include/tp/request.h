// Requests to an engine, and the tokens it returns.
#pragma once

#include "tp/token_id.h"
#include "tp/token_mask.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tp {

// Added to the logit of a token.
struct LogitBias {
  TokenId id = 0;
  float bias = 0.0F;
};

// How the next token is chosen from the logits. Steps, in order: bias, penalties, temperature, top-k, top-p,
// min-p, random draw.
struct SamplingParams {
  float temperature = 1.0F;  // >= 0; 0 is greedy
  int top_k = 0;             // keep the k most likely tokens; 0 keeps all
  float top_p = 1.0F;        // keep the most likely tokens whose probabilities sum to p, in (0, 1]
  float min_p = 0.0F;        // keep tokens with at least min_p of the best one's probability, in [0, 1]
  float repetition_penalty =
      1.0F;  // > 0; divides positive logits of tokens seen so far, multiplies negative ones
  float presence_penalty = 0.0F;        // subtracted once from the logit of every generated token
  float frequency_penalty = 0.0F;       // subtracted from a token's logit once per time it was generated
  std::optional<std::uint64_t> seed{};  // without one, each request gets a random seed
  int logprobs = -1;  // log-probabilities of the chosen token and the n most likely ones; -1: none
  std::vector<LogitBias> logit_bias{};  // finite

  bool greedy() const { return temperature == 0.0F; }

  // Throws RequestError naming the first value out of range.
  void validate() const;
};

// The maximum of Request::n.
inline constexpr int kMaxSamples = 4096;

// A random seed for a request without one, below 2^53 so that every JSON reader preserves it.
std::uint64_t draw_seed();

// What the tokens of a prompt attend to.
enum class AttentionMask : std::uint8_t {
  causal,         // themselves and the tokens before them
  bidirectional,  // those after them, too
};

// One prompt to continue.
struct Request {
  std::vector<TokenId> prompt{};
  SamplingParams sampling{};
  int max_tokens = 256;     // maximum tokens to generate; 0 only evaluates the prompt
  int n = 1;                // continuations of this prompt, 1 to kMaxSamples, which share its cache blocks
  int min_tokens = 0;       // no stop of any kind before this many tokens, <= max_tokens
  bool ignore_eos = false;  // continue after an end-of-sequence token
  std::vector<TokenId> stop_token_ids{};    // further tokens that end a continuation
  std::vector<std::string> stop{};          // texts that end a continuation and are cut off,
  bool include_stop_str_in_output = false;  // unless this is set
  // What a continuation must not contain: texts (which need a tokenizer) and token sequences.
  std::vector<std::string> bad_words{};
  std::vector<std::vector<TokenId>> bad_words_ids{};
  // The tokens allowed next, given those generated so far. Called once per token on a separate thread, while
  // the ranks run the forward pass, and concurrently for several continuations. An exception ends the
  // continuation with an error.
  std::function<TokenMask(std::span<const TokenId> generated)> allowed_tokens{};
  // Asks for the log-probabilities of the prompt's tokens from this index (>= 1) on, given all tokens before
  // each, as PromptLogprobs events. The logits themselves stay on their ranks.
  std::optional<std::size_t> score_from{};
  int score_top =
      0;  // how many most likely tokens these events list for each position, besides the prompt's own
  bool prompt_logits = false;  // asks for the logits at every position of the prompt, as PromptLogits events
  // Bidirectional prompts cannot be continued or scored, only max_tokens 0 with prompt_logits. They are
  // computed in a single step, which limits their length, and never use the prefix cache.
  AttentionMask attention = AttentionMask::causal;
  // Whether the prompt's prefix is looked up in the prefix cache, and what this request computes can be found
  // there by later ones.
  bool cache_prompt = true;
  // Requests find only what requests with an equal salt have left in the prefix cache, so that users who must
  // not learn of each other's prompts, from times or from cached_tokens, can be kept apart.
  std::string cache_salt{};
  // Of waiting requests, those with the lowest number begin first, and of running ones, those with the
  // highest number are preempted first. Prompts with higher numbers are computed with what lower ones leave
  // of a step; nothing limits how long they wait.
  int priority = 0;
  bool report_progress = false;  // asks for PrefillProgress events

  // Throws RequestError naming the first value out of range, including those of `sampling`. Limits of the
  // model (token ids, maximum length) are checked by Engine::submit.
  void validate() const;
};

enum class FinishReason : std::uint8_t {
  none,    // not finished
  stop,    // an end-of-sequence token or a stop text
  length,  // max_tokens or the maximum sequence length was reached
  cancelled,
  error,  // see TokenEvent::error
};

// "stop", "length", ... as in `--json`.
std::string_view name_of(FinishReason reason);

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0F;  // natural logarithm, before penalties and temperature
};

// One generated token.
struct TokenEvent {
  std::uint64_t request = 0;  // the number returned by Engine::submit
  int sample = 0;             // which of the request's n continuations
  TokenId token = 0;
  std::string text;               // the text completed by this token, in whole UTF-8 characters; may be empty
  std::size_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  std::optional<TokenLogprob> logprob;
  std::vector<TokenLogprob> top_logprobs;  // most likely first
  FinishReason finish_reason = FinishReason::none;
  // Which of the request's stop_token_ids or stop texts ended it; none for the model's own end-of-sequence
  // token.
  std::variant<std::monostate, TokenId, std::string> matched_stop;
  std::string error;  // why the request failed; there is no token then
};

}  // namespace tp
