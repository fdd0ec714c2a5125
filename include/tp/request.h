// Requests to an engine, and the tokens it returns.
#pragma once

#include "tp/constraint.h"
#include "tp/generation_defaults.h"
#include "tp/model_kind.h"
#include "tp/token_id.h"
#include "tp/token_mask.h"
#include "tp/unmasking.h"

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

// Limits how long a model thinks: the stretch of its text between two markers.
struct ThinkingLimit {
  int max_tokens = 0;              // >= 0; after them the end is forced
  std::string begin{};             // the text that begins it; "<think>"
  std::string end{};               // the text that ends it; "</think>"
  std::vector<TokenId> end_ids{};  // the tokens that are forced, in which `end` is; not empty
  bool has_begun = false;          // in the prompt
};

// The tokens that each token of a prompt attends to.
enum class AttentionMask : std::uint8_t {
  causal,         // themselves and the tokens before them
  bidirectional,  // earlier and later tokens
  by_blocks,      // their block of Request::attention_block tokens, and the blocks before it
};

// One prompt to continue.
struct Request {
  std::vector<TokenId> prompt{};  // for encoder-decoders, the encoder's input
  // For encoder-decoders, the first tokens of the decoder; empty: decoder_start_token_id.
  std::vector<TokenId> decoder_prompt{};
  SamplingParams sampling{};
  int max_tokens = 256;  // maximum tokens to generate; 0 only evaluates the prompt
  // Nobody asked for max_tokens: programs replace it by what the model's files say (max_new_tokens,
  // max_length), see default_max_tokens(). The engine itself ignores this.
  bool max_tokens_is_default = false;
  int n = 1;                // continuations of this prompt, 1 to kMaxSamples, which share its cache blocks
  int min_tokens = 0;       // no stop of any kind before this many tokens, <= max_tokens
  bool ignore_eos = false;  // continue after an end-of-sequence token
  std::vector<TokenId> stop_token_ids{};    // further tokens that end a continuation
  std::vector<std::string> stop{};          // texts that end a continuation and are cut off,
  bool include_stop_str_in_output = false;  // unless this is set
  // The first token of every continuation; none: as the model's files say (forced_bos_token_id).
  std::optional<TokenId> forced_first{};
  // Searches for continuations instead of drawing tokens: the events of the `n` best, at most as many as
  // beams, come all at once when the search ends. Not with stop texts, constraints or a seed's sampling.
  std::optional<BeamSearch> beam_search{};
  // Texts (which need a tokenizer) and token sequences that a continuation must not contain.
  std::vector<std::string> bad_words{};
  std::vector<std::vector<TokenId>> bad_words_ids{};
  // A constraint on the whole continuation, which needs a tokenizer. A token is allowed only if a text that
  // satisfies the constraint can follow it, given bad words, min_tokens and biases of -100 and less. If the
  // constraint leaves no choice, the text gets the tokenizer's tokens without a forward pass for each, unless
  // log-probabilities are wanted. Excludes allowed_tokens.
  std::optional<Constraint> constraint{};
  // A GBNF grammar for the text before the constrained text, such as the model's thinking; empty: nothing. A
  // limit of thinking forces the end of thinking if the grammar allows it.
  std::string constraint_preface{};
  // The tokens allowed next, given those generated so far. Called once per token on a separate thread, while
  // the ranks run the forward pass, and concurrently for several continuations. An exception ends the
  // continuation with an error.
  std::function<TokenMask(std::span<const TokenId> generated)> allowed_tokens{};
  std::optional<ThinkingLimit> thinking{};  // needs a tokenizer
  // Control tokens whose texts are part of the output, such as those around calls of tools; those of others
  // are left out.
  std::vector<TokenId> visible_token_ids{};
  // Asks for the log-probabilities of the prompt's tokens from this index (>= 1) on, given all tokens before
  // each, as PromptLogprobs events. The logits themselves stay on their ranks.
  std::optional<std::size_t> score_from{};
  int score_top =
      0;  // how many most likely tokens these events list for each position, besides the prompt's own
  bool prompt_logits = false;  // asks for the logits at every position of the prompt, as PromptLogits events
  // Hidden states after the final norm, as PromptHidden events,
  bool prompt_hidden = false;
  // or as one for the whole prompt, a PooledHidden event. Of all four only one can be asked for.
  std::optional<Pooling> pooling{};
  // Positions of the prompt, ascending, for which the `candidates` most likely tokens are wanted, as
  // PromptCandidates events. Logits and candidates of encoder-decoders are those of `decoder_prompt`.
  std::vector<std::size_t> candidates_at{};
  int candidates = 5;
  // In their place a token for each of these positions, chosen according to `sampling`, and how sure the
  // model is of it, as PromptGuesses events.
  std::optional<GuessSettings> guess{};
  // Kind of each token of the prompt (token_type_ids), in models that distinguish kinds; empty: all 0.
  std::vector<std::uint8_t> token_types{};
  // 1 for tokens that see all others and that all see, in models with windows that have such; empty: none.
  std::vector<std::uint8_t> global_tokens{};
  // Bidirectional prompts cannot be continued or scored, only max_tokens 0 with prompt_logits, prompt_hidden,
  // pooling or candidates_at. They are computed in a single step, which limits their length, and never use
  // the prefix cache. All prompts of encoders are bidirectional, whatever this says.
  AttentionMask attention = AttentionMask::causal;
  std::size_t attention_block = 0;  // tokens; 0: as many as the model has by itself
  // How a diffusion language model generates, max_tokens tokens at most, of which an end of the text leaves
  // out those behind it. Those that follow each other without a gap come as TokenEvents, and all of them as
  // TokensSettled when they have their token. Of `sampling`, these models have temperature, top_k, top_p and
  // the seed.
  std::optional<Unmasking> unmasking{};
  // Whether the prompt's prefix is looked up in the prefix cache, and what this request computes can be found
  // there by later ones.
  bool cache_prompt = true;
  // Requests find only what requests with an equal salt have left in the prefix cache, so that users who must
  // not learn of each other's prompts, from times or from cached_tokens, can be kept apart.
  std::string cache_salt{};
  // Waiting requests with lower numbers begin first. Running requests with higher numbers are preempted
  // first. Prompts with higher numbers get the room in a step that lower ones leave; nothing limits how long
  // they wait.
  int priority = 0;
  bool report_progress = false;  // asks for PrefillProgress events
  // Whether there may be draft tokens, if EngineOptions::speculation asks for them. They do not change the
  // text. With allowed_tokens there are none.
  bool speculate = true;

  // Whether something is asked about the prompt itself.
  bool asks_about_prompt() const {
    return score_from || prompt_logits || prompt_hidden || pooling || !candidates_at.empty();
  }

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
  // Draft tokens of the continuation so far, and how many of them the model chose, too.
  std::size_t drafted_tokens = 0;
  std::size_t accepted_tokens = 0;
  std::optional<TokenLogprob> logprob;
  std::vector<TokenLogprob> top_logprobs;  // most likely first
  FinishReason finish_reason = FinishReason::none;
  // Which of the request's stop_token_ids or stop texts ended it; none for the model's own end-of-sequence
  // token.
  std::variant<std::monostate, TokenId, std::string> matched_stop;
  std::string error;  // why the request failed; there is no token then
};

}  // namespace tp
