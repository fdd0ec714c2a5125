// One continuation of a prompt while it is being generated.
#pragma once

#include "runtime/cache/block_manager.h"
#include "runtime/constraint/grammar/progress.h"
#include "runtime/protocol/encoded_input.h"
#include "runtime/scheduling/pooler.h"
#include "runtime/scheduling/token_bans.h"
#include "runtime/text/text_stream.h"
#include "tp/event.h"
#include "tp/request.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tp {

namespace constraint {
class RequestConstraint;
}

// Keys and values that passes over the same text share: when one ends, its cache blocks stay for the next
// one, until they are released.
struct PassCache {
  RequestId key = 0;       // which all of them name; 0: nothing is shared
  bool is_filled = false;  // by a pass before this one
  std::size_t begin = 0;   // the first position that this one computes, of a cache that is filled
  std::size_t tokens =
      0;  // tokens of the whole text, including those after the pass's prompt; all of them are seen
};

// The state shared by the samples of one request.
struct RequestState {
  RequestId id = 0;
  Request request;
  std::uint64_t seed = 0;        // the request's, or one drawn for it
  std::size_t max_tokens = 0;    // to generate, limited by the maximum length of a sequence
  std::vector<TokenId> end_ids;  // tokens that end it, including the model's own
  TokenBans bans;
  // Set for encoder-decoders: `request.prompt` then contains the input, filled up to whole blocks, followed
  // by the decoder's prompt, and requested positions are those of the sequence.
  EncodedInput input;
  std::optional<TokenId> forced_last;
  std::shared_ptr<const constraint::RequestConstraint> constraint;  // null: none
  constraint::Progress constraint_start;
  EventSink sink;
  RequestTimes times;
  int not_begun = 0;     // samples, of request.n
  int open_samples = 0;  // samples that have not ended, including those that have not begun
  bool cancelled = false;
  std::size_t cached_tokens = 0;  // cached tokens of its first sample, after that has ended
  bool is_pass = false;           // whether it is a pass of a larger request, which counts in its place
  PassCache pass_cache{};         // cache of a pass
  bool recomputes = false;        // all of a sequence for every token that it generates
  bool has_left_queue = false;    // something of it was scheduled, or it has ended

  // How many of the prompt's tokens are computed. The last one is left out if nothing is predicted from it,
  // that is if only scores are wanted.
  std::size_t prompt_work() const {
    const bool only_scores = max_tokens == 0 && request.score_from && !request.prompt_logits;
    return only_scores ? request.prompt.size() - 1 : request.prompt.size();
  }

  // The positions of the prompt that have an output of their own: [first_asked, asked_end).
  std::size_t first_asked() const {
    if (request.prompt_logits) return input.positions;
    if (request.score_from) return *request.score_from - 1;
    if (!request.candidates_at.empty()) return request.candidates_at.front();
    return request.pooling == Pooling::last ? end_of_states() - 1 : 0;
  }
  std::size_t asked_end() const {
    const std::size_t all = request.prompt.size();
    if (request.prompt_hidden || request.pooling) return end_of_states();
    if (request.prompt_logits) return all;
    if (request.score_from) return all - 1;
    return request.candidates_at.empty() ? 0 : request.candidates_at.back() + 1;
  }
  // The end of the positions whose hidden states are asked for: of an encoder-decoder those of its input.
  std::size_t end_of_states() const {
    if (request.pooling == Pooling::first) return 1;
    return input.tokens != 0 ? input.tokens : request.prompt.size();
  }
};

struct Sequence {
  SequenceId id = 0;
  std::shared_ptr<RequestState> state;
  int sample = 0;  // 0 is the primary, which has the prompt's outputs

  std::vector<TokenId> tokens;      // the prompt and generated tokens; empty until it is first considered
  std::size_t cached_tokens = 0;    // prompt tokens found in the prefix cache when it first began
  std::size_t planned_tokens = 0;   // in the cache, or will be after the steps in flight
  std::size_t computed_tokens = 0;  // in the cache
  std::size_t granted = 0;          // tokens granted in the step that is being planned,
  std::vector<TokenId> drafts{};    // and draft tokens behind its last one
  std::size_t in_flight = 0;        // steps that compute some of its tokens and have not been settled
  bool awaits_token = false;        // one of these steps chooses its next token
  std::size_t accepted = 0;         // drafts of the step that is being settled
  // Number of tokens to compute again before the last one, with recurrent layers: their drafts were accepted
  // together with others that were not.
  std::size_t redo = 0;
  std::size_t drafted_tokens = 0;   // in all steps,
  std::size_t accepted_tokens = 0;  // and how many of them were accepted
  std::size_t asked_from = 0;  // the first position of the prompt with an output that has not been delivered
  std::optional<Pooler> pooler{};                       // pools delivered states
  std::vector<std::vector<TokenLogprob>> prompt_top{};  // for positions whose scores have not arrived
  std::vector<std::size_t>
      left_at{};                // positions where waiting sequences leave its text, if layers are recurrent
  std::size_t sent_blocks = 0;  // blocks of each of its tables that ranks have
  bool announced = false;       // the ranks have a table for it
  std::optional<TextStream> text;                // from its first token on, if there is a tokenizer
  std::optional<constraint::Progress> progress;  // from its first token on, if there is a constraint
  FinishReason finish_reason = FinishReason::none;

  // While it waits.
  std::size_t overtaken = 0;            // times that others were admitted instead, for which there was room
  std::uint64_t compared_to = 0;        // admission of the last sequence whose prefix it was compared with
  std::weak_ptr<const Sequence> ahead;  // a running sequence that computes a prefix of this one
  std::size_t shared_tokens = 0;        // length of the prefix

  // While it runs: 1, 2, ... in the order of admission; else 0.
  std::uint64_t admission = 0;
  std::uint64_t last_turn = 0;  // the scheduler's count when its prompt last had a turn in a step

  // How far the constraint has been satisfied.
  constraint::Progress constraint_progress() const { return progress.value_or(state->constraint_start); }
  // Whether a mask says which tokens may come next.
  bool is_masked() const { return state->constraint || state->request.allowed_tokens; }
  int priority() const { return state->request.priority; }
  // Whether cache blocks wait for it, with everything that it does not compute.
  bool has_blocks_waiting() const { return state->pass_cache.is_filled; }
  std::size_t prompt_tokens() const { return state->request.prompt.size(); }
  std::size_t generated_tokens() const { return tokens.size() - prompt_tokens(); }
  // The token that has to come next: at the beginning, at the end, or if thinking has become too long.
  std::optional<TokenId> forced_next() const {
    if (generated_tokens() == 0 && state->request.forced_first) return state->request.forced_first;
    if (generated_tokens() + 1 == state->max_tokens && state->forced_last) return state->forced_last;
    if (text) return text->forced_next();
    const std::optional<ThinkingLimit>& limit = state->request.thinking;
    return limit ? ThinkingWatch(*limit).forced_next() : std::nullopt;
  }
  bool finished() const { return finish_reason != FinishReason::none; }
  // Tokens whose keys and values are needed for the next output.
  std::size_t work() const { return generated_tokens() == 0 ? state->prompt_work() : tokens.size(); }
  // Whether nothing of it can be planned until a step in flight is settled.
  bool idle() const { return finished() || awaits_token || planned_tokens == work(); }
  // Whether the next token is all that has to be computed, besides what is computed again, or is in flight.
  bool decodes() const { return generated_tokens() > 0 && planned_tokens + redo + 1 >= tokens.size(); }
  // Whether the request's next sample can begin when this one has.
  bool is_last_begun() const {
    return state->not_begun > 0 && sample + 1 == state->request.n - state->not_begun;
  }
  // Whether all of it has to be computed in the same step.
  bool indivisible() const {
    return state->recomputes || state->request.attention == AttentionMask::bidirectional;
  }
  // How many tokens have to be computed in the same step as the first one of them.
  std::size_t attention_block() const {
    const Request& request = state->request;
    return request.attention == AttentionMask::by_blocks ? request.attention_block : 1;
  }
  // How many of its next tokens have to be: all, an input that is to be encoded, or any number (1).
  std::size_t least_chunk() const {
    if (indivisible()) return work() - state->pass_cache.begin;
    return planned_tokens < state->input.positions ? state->input.positions : 1;
  }
  // Whether the step that is being planned encodes its input, and so none of the decoder's tokens.
  bool encodes() const { return planned_tokens - granted < state->input.positions; }
  bool uses_prefix_cache() const { return state->request.cache_prompt && !indivisible(); }
  // Whether the prompt has outputs from `asked_from` on that have not been delivered.
  bool is_asked() const { return sample == 0 && asked_from < state->asked_end(); }
};

}  // namespace tp
