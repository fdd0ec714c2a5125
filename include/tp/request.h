// What a program asks of an engine, and what it gets back.
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

// How the next token is chosen from the logits. The order is: bias, penalties, temperature, top-k, top-p,
// min-p, draw.
struct SamplingParams {
  float temperature = 1.0F;  // >= 0; 0 is greedy
  int top_k = 0;             // keep the k most likely tokens; 0 keeps all
  float top_p = 1.0F;        // keep the most likely tokens whose probabilities sum to p, in (0, 1]
  float min_p = 0.0F;        // keep tokens with at least min_p of the best one's probability, in [0, 1]
  float repetition_penalty =
      1.0F;  // > 0; logits of tokens seen in prompt or text: / if positive, * if negative
  float presence_penalty = 0.0F;   // subtracted once from the logit of a token generated before
  float frequency_penalty = 0.0F;  // subtracted from the logit for every time the token was generated before
  std::optional<std::uint64_t> seed{};  // without one, every request draws a seed of its own
  int logprobs = -1;  // log-probabilities of the chosen and the n most likely tokens; -1: none
  std::vector<LogitBias> logit_bias{};  // finite

  bool greedy() const { return temperature == 0.0F; }

  // Throws RequestError naming the first value out of range.
  void validate() const;
};

// Continuations of one request at most.
inline constexpr int kMaxSamples = 4096;

// A random seed, for a request that has none and is to be repeated: below 2^53, so that every reader of JSON
// keeps it as it is.
std::uint64_t draw_seed();

// One prompt to be continued.
struct Request {
  std::vector<TokenId> prompt{};
  SamplingParams sampling{};
  int max_tokens = 256;  // tokens to generate at most, >= 1; 0 only asks about the prompt
  int n = 1;           // continuations of this prompt, 1 to kMaxSamples; they share the prompt's cache blocks
  int min_tokens = 0;  // no end-of-sequence token and no stop before so many tokens, <= max_tokens
  bool ignore_eos = false;                  // go on after an end-of-sequence token
  std::vector<TokenId> stop_token_ids{};    // tokens that end a continuation as end-of-sequence tokens do
  std::vector<std::string> stop{};          // texts that end a continuation; they are not part of it,
  bool include_stop_str_in_output = false;  // unless this is set
  // What a continuation must not hold: texts, which need a tokenizer, and rows of tokens.
  std::vector<std::string> bad_words{};
  std::vector<std::vector<TokenId>> bad_words_ids{};
  // The tokens that may come next, given those generated so far. Called once for every token, while the ranks
  // are busy with the forward pass, in a thread of its own, for several continuations at once; what it throws
  // ends the continuation with an error.
  std::function<TokenMask(std::span<const TokenId> generated)> allowed_tokens{};
  // Log-probabilities of the prompt's tokens from this one on (>= 1), given all tokens before each: as
  // PromptLogprobs. The vocabulary stays on its ranks.
  std::optional<std::size_t> score_from{};
  bool prompt_logits = false;  // the logits after every position of the prompt: as PromptLogits

  // Throws RequestError naming the first value out of range, in `sampling` too. What depends on the model
  // (token ids, the longest sequence) is checked by Engine::submit.
  void validate() const;
};

enum class FinishReason : std::uint8_t {
  none,    // not finished
  stop,    // an end-of-sequence token or a stop text
  length,  // max_tokens, or the model's longest sequence
  cancelled,
  error,  // TokenEvent::error says what
};

// "stop", "length", ... as in `--json`.
std::string_view name_of(FinishReason reason);

struct TokenLogprob {
  TokenId id = 0;
  float logprob =
      0.0F;  // natural logarithm, of the model's own distribution (before penalties and temperature)
};

// A token that was chosen, with what is known of it.
struct TokenEvent {
  std::uint64_t request = 0;  // what Engine::submit returned
  int sample = 0;             // which of the request's n continuations
  TokenId token = 0;
  std::string text;  // the text that has become certain with it: whole UTF-8 characters, may be empty
  std::size_t cached_tokens = 0;  // of the prompt: those that needed no work, as the cache still held them
  std::optional<TokenLogprob> logprob;
  std::vector<TokenLogprob> top_logprobs;  // the most likely first
  FinishReason finish_reason = FinishReason::none;
  // Which of the request's stop_token_ids or stop texts ended it; none if the model did, with an
  // end-of-sequence token.
  std::variant<std::monostate, TokenId, std::string> matched_stop;
  std::string error;  // why the request cannot go on; there is no token then
};

}  // namespace tp
