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

// A number added to the logit of one token.
struct LogitBias {
  TokenId id = 0;
  float bias = 0.0F;
};

// How the next token is chosen from the logits. Order of operations: bias, penalties, temperature, top-k,
// top-p, min-p, random draw.
struct SamplingParams {
  float temperature = 1.0F;  // >= 0; 0: greedy
  int top_k = 0;             // keep the k most likely tokens; 0 keeps all
  float top_p = 1.0F;        // keep the most likely tokens whose probabilities sum to p, in (0, 1]
  float min_p = 0.0F;        // keep tokens at least min_p times as likely as the best token, in [0, 1]
  // > 0; for tokens seen so far, divides positive logits and multiplies negative logits.
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;        // subtracted once from the logits of all tokens generated so far
  float frequency_penalty = 0.0F;       // subtracted from a token's logit each time the token is generated
  std::optional<std::uint64_t> seed{};  // unset: each request gets a random seed
  int logprobs = -1;  // n: log-probabilities of the chosen token and the n most likely tokens; -1: none
  std::vector<LogitBias> logit_bias{};  // each bias must be finite; at most 16384

  bool greedy() const { return temperature == 0.0F; }

  // Throws RequestError with the name of the first value out of range.
  void validate() const;
};

// The largest value allowed for Request::n.
inline constexpr int kMaxSamples = 4096;

// A random seed, for a request without a seed. Below 2^53, so that every JSON reader preserves it.
std::uint64_t draw_seed();

// Limits the length of a model's thinking, the part of its text between two markers.
struct ThinkingLimit {
  int max_tokens = 0;              // >= 0; the end is forced after this many tokens
  std::string begin{};             // text that opens the thinking: "<think>"
  std::string end{};               // text that closes the thinking: "</think>"
  std::vector<TokenId> end_ids{};  // the forced tokens, not empty; their text contains `end`
  bool has_begun = false;          // whether thinking has already begun in the prompt
};

// One prompt to continue.
struct Request {
  std::vector<TokenId> prompt{};  // for encoder-decoders, the encoder's input
  // For encoder-decoders, the decoder's first tokens; empty: decoder_start_token_id.
  std::vector<TokenId> decoder_prompt{};
  // The name of one of EngineOptions::adapters; empty: the model alone; unset:
  // EngineOptions::default_adapter.
  std::optional<std::string> adapter{};
  SamplingParams sampling{};
  int max_tokens = 256;  // maximum number of tokens to generate; 0: only evaluate the prompt
  // Set if the user did not specify max_tokens. Programs then replace max_tokens with a default from the
  // model's files (max_new_tokens, max_length); see default_max_tokens(). The engine ignores this field.
  bool max_tokens_is_default = false;
  int n = 1;                // number of continuations, 1 to kMaxSamples; they share the prompt's cache blocks
  int min_tokens = 0;       // minimum number of generated tokens, <= max_tokens
  bool ignore_eos = false;  // whether to continue after an end-of-sequence token
  std::vector<TokenId> stop_token_ids{};  // additional tokens that end a continuation; at most 1024
  std::vector<std::string> stop{};  // texts that end a continuation; at most 256 of 1024 bytes, 64 KiB in all
  bool include_stop_str_in_output = false;  // whether the stop text stays in the continuation
  // First token of every continuation; unset: from the model's files (forced_bos_token_id).
  std::optional<TokenId> forced_first{};
  // Searches for the `n` best continuations instead of drawing tokens; `n` is at most the number of beams.
  // All events arrive when the search ends. Cannot be combined with stop texts, constraints or random
  // sampling.
  std::optional<BeamSearch> beam_search{};
  // Texts and token sequences that a continuation must not contain. Texts need a tokenizer. At most 1024
  // texts of 64 KiB in all, and 1024 sequences of 65536 tokens in all.
  std::vector<std::string> bad_words{};
  std::vector<std::vector<TokenId>> bad_words_ids{};
  // A constraint on the whole continuation; needs a tokenizer. A token is allowed only if the continuation
  // can still be completed to satisfy the constraint, given bad words, min_tokens and biases of -100 or less.
  // If the constraint leaves only one way to continue, the engine appends the forced tokens without a forward
  // pass for each, unless the request asks for log-probabilities. Cannot be combined with allowed_tokens.
  std::optional<Constraint> constraint{};
  // A GBNF grammar for the whole continuation, in which `%constraint` stands for the constrained text. It
  // describes the text around the constrained text, such as thinking. Empty: the whole continuation is
  // constrained. A thinking limit forces the end of thinking only where the grammar allows thinking to end.
  std::string constraint_frame{};
  // Returns the tokens allowed next, given the tokens generated so far. The engine calls the function once
  // per token on a separate thread, during the forward pass, and concurrently for several continuations. An
  // exception ends the continuation with an error.
  std::function<TokenMask(std::span<const TokenId> generated)> allowed_tokens{};
  std::optional<ThinkingLimit> thinking{};  // needs a tokenizer
  // Control tokens whose texts appear in the output, such as the markers of tool calls. Texts of all other
  // control tokens are omitted.
  std::vector<TokenId> visible_token_ids{};
  // Asks for PromptLogprobs events: the log-probability of each prompt token from this index (>= 1) onwards,
  // given all tokens before it. The logits themselves are not sent to rank 0.
  std::optional<std::size_t> score_from{};
  int score_top = 0;           // how many of the most likely tokens to list for each position
  bool prompt_logits = false;  // asks for PromptLogits events: the logits at every position of the prompt
  // Asks for PromptHidden events: hidden states after the final norm.
  bool prompt_hidden = false;
  // Asks for a PooledHidden event: one state for the whole prompt. A request may ask for only one of
  // score_from, prompt_logits, prompt_hidden, pooling and states_at.
  std::optional<Pooling> pooling{};
  // Prompt positions in ascending order. Asks for a PooledHidden event with the states at these positions,
  // one after the other.
  std::vector<std::size_t> states_at{};
  // Prompt positions in ascending order. Asks for a PromptCandidates event for each position, with the
  // `candidates` most likely tokens. For encoder-decoders, logits and candidates refer to `decoder_prompt`.
  std::vector<std::size_t> candidates_at{};
  int candidates = 5;
  // Asks for PromptProposals events instead of PromptCandidates: for each position in candidates_at, one
  // token chosen according to `sampling`, and the model's confidence in it.
  std::optional<ProposalSettings> proposal{};
  // Type of each prompt token (token_type_ids), for models that distinguish types; empty: all 0.
  std::vector<std::uint8_t> token_types{};
  // [prompt tokens] or empty; 1: a global token, which attends to all tokens, and to which all tokens attend;
  // 0: any other token. For models that have windows and global tokens.
  std::vector<std::uint8_t> global_tokens{};
  // Each token of a bidirectional prompt attends to all tokens, including later tokens. Such a prompt cannot
  // be continued or scored: it needs max_tokens 0 and prompt_logits, prompt_hidden, pooling or candidates_at.
  // One step computes the whole prompt, which limits its length, and the prefix cache is not used. Prompts of
  // encoders are always bidirectional.
  bool bidirectional = false;
  // Settings for a diffusion language model, which generates at most max_tokens tokens; unset: the defaults.
  // The result ends at the first end-of-sequence token. Each token arrives in a TokensUnmasked event when it
  // is unmasked, and as a TokenEvent when all tokens before it are unmasked. Only temperature, top_k, top_p
  // and the seed of `sampling` apply.
  std::optional<Unmasking> unmasking{};
  // Whether this request uses the prefix cache, and leaves its own prefixes there for later requests.
  bool cache_prompt = true;
  // Requests share cached prefixes only with requests that have the same salt. Different salts prevent users
  // from learning about each other's prompts through response times or cached_tokens.
  std::string cache_salt{};
  // Lower numbers are more urgent. Waiting requests with lower numbers begin first; running requests with
  // higher numbers are preempted first. Less urgent prompts get only the part of a step that more urgent
  // prompts don't use, and may wait forever.
  int priority = 0;
  bool report_progress = false;  // asks for PrefillProgress events
  // Allows draft tokens, if EngineOptions::speculation provides them. Draft tokens do not change the text. A
  // request with allowed_tokens never has draft tokens.
  bool speculate = true;
  // Tokens that an earlier run of this request generated, for some or all of its continuations. The engine
  // sends their events again, without log-probabilities, and continues after them, as if it had generated
  // them itself. With the earlier run's seed, the text equals the text of a single run. Beam search and
  // diffusion models ignore this field. It cannot be combined with results about the prompt.
  std::vector<std::vector<TokenId>> generated{};

  // Whether the request asks for a PooledHidden event.
  bool asks_for_state() const { return pooling || !states_at.empty(); }
  // Whether the request asks for results about the prompt.
  bool asks_about_prompt() const {
    return score_from || prompt_logits || prompt_hidden || asks_for_state() || !candidates_at.empty();
  }

  // Throws RequestError with the name of the first value out of range, including values of `sampling`.
  // Engine::submit checks the model's own limits (token ids, maximum length).
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
  int sample = 0;             // index among the request's n continuations
  TokenId token = 0;
  std::string text;               // the text completed by this token, in whole UTF-8 characters; may be empty
  std::size_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  // Prompt tokens that the request read from the store, also counted as cached tokens, and the time this
  // took.
  std::size_t restored_tokens = 0;
  double restore_seconds = 0.0;
  // Number of draft tokens in the continuation so far, and the number that the model accepted.
  std::size_t drafted_tokens = 0;
  std::size_t accepted_tokens = 0;
  std::optional<TokenLogprob> logprob;
  std::vector<TokenLogprob> top_logprobs;  // most likely first
  FinishReason finish_reason = FinishReason::none;
  // The request's stop token or stop text that ended the continuation; unset if something else did, such as
  // the model's own end-of-sequence token.
  std::variant<std::monostate, TokenId, std::string> matched_stop;
  std::string error;  // why the request failed; if not empty, the event has no token
};

}  // namespace tp
