// A continuation of a prompt during generation.
#pragma once

#include "runtime/cache/block_manager.h"
#include "runtime/cache/block_scores.h"
#include "runtime/constraint/grammar/progress.h"
#include "runtime/protocol/command.h"
#include "runtime/protocol/encoded_input.h"
#include "runtime/scheduling/pooler.h"
#include "runtime/scheduling/token_bans.h"
#include "runtime/text/text_stream.h"
#include "tp/event.h"
#include "tp/request.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tp {

namespace constraint {
class RequestConstraint;
}

// Keys and values shared by passes over the same text. When a pass ends, its cache blocks are kept for the
// next pass, until they are released.
struct PassCache {
  RequestId key = 0;       // one key for all passes over a text; 0: nothing is shared
  bool is_filled = false;  // an earlier pass has filled the cache
  std::size_t begin = 0;   // first position to compute if the cache is filled
  // Length of the whole text, including tokens after the pass's prompt. The pass attends to the whole text.
  std::size_t tokens = 0;
};

// How a mode wants a pass to be computed. Statistics don't count passes.
struct Pass {
  enum class Place : std::uint8_t { none, first, later };  // none: a request of its own, not a pass

  Place place = Place::none;
  std::size_t attention_block = 0;  // tokens per block of the attention mask; 0: the model's own length
  PassCache cache{};                // cache shared with other passes
  PassCanvas canvas{};              // the canvas at the end of the pass's prompt, in a model of canvases
};

// The state shared by the samples of one request.
struct RequestState {
  RequestId id = 0;
  Request request;
  std::size_t adapter = 0;       // index + 1 of the request's adapter; 0: none
  std::uint64_t seed = 0;        // the request's seed, or a random seed
  std::size_t max_tokens = 0;    // maximum tokens to generate, capped by the maximum sequence length
  std::vector<TokenId> end_ids;  // tokens that end a continuation, including the model's end tokens
  TokenBans bans;
  // Set for encoder-decoders. `request.prompt` then contains the input, padded to whole blocks, followed by
  // the decoder's prompt. Positions in the request are relative to the start of the input.
  EncodedInput input;
  std::optional<TokenId> forced_last;
  std::shared_ptr<const constraint::RequestConstraint> constraint;  // null: none
  constraint::Progress constraint_start;
  EventSink sink;
  RequestTimes times;
  int not_begun = 0;     // samples that have not started, out of request.n
  int open_samples = 0;  // samples that have not ended, including samples that have not started
  bool cancelled = false;
  std::size_t cached_tokens = 0;  // Sequence::cached_tokens of the first sample, set when that sample ends
  Pass pass{};
  std::size_t attention_block = 1;  // number of consecutive tokens that must be computed in the same step
  bool indivisible =
      false;  // one step computes the whole sequence: keys are not kept, or attention is bidirectional
  bool has_left_queue = false;  // a sample has left the queue, or the request has ended

  bool is_pass() const { return pass.place != Pass::Place::none; }
  // Number of prompt tokens to compute. If the request asks only for scores, the last token is left out,
  // because nothing is predicted from it.
  std::size_t prompt_work() const {
    const bool only_scores = max_tokens == 0 && request.score_from && !request.prompt_logits;
    return only_scores ? request.prompt.size() - 1 : request.prompt.size();
  }

  // The prompt positions with outputs: [first_asked, asked_end).
  std::size_t first_asked() const {
    if (request.prompt_logits) return input.positions;
    if (request.score_from) return *request.score_from - 1;
    if (!request.candidates_at.empty()) return request.candidates_at.front();
    if (!request.states_at.empty()) return request.states_at.front();
    return request.pooling == Pooling::last ? end_of_states() - 1 : 0;
  }
  std::size_t asked_end() const {
    const std::size_t all = request.prompt.size();
    if (request.prompt_hidden || request.asks_for_state()) return end_of_states();
    if (request.prompt_logits) return all;
    if (request.score_from) return all - 1;
    return request.candidates_at.empty() ? 0 : request.candidates_at.back() + 1;
  }
  // The position after the last requested hidden state. For an encoder-decoder, this is a position in the
  // input.
  std::size_t end_of_states() const {
    if (request.pooling == Pooling::first) return 1;
    if (!request.states_at.empty()) return request.states_at.back() + 1;
    return input.tokens != 0 ? input.tokens : request.prompt.size();
  }
};

struct Sequence {
  SequenceId id = 0;
  std::shared_ptr<RequestState> state;
  int sample = 0;  // index of the continuation; sample 0 delivers the prompt's outputs

  std::vector<TokenId> tokens;      // prompt and generated tokens; empty until admission is first tried
  std::size_t cached_tokens = 0;    // prompt tokens found in the cache when the prompt last started
  std::size_t planned_tokens = 0;   // tokens that will be in the cache after the steps in flight
  std::size_t computed_tokens = 0;  // tokens in the cache now
  std::size_t granted = 0;          // tokens granted so far in the step being planned
  std::vector<TokenId> drafts{};    // draft tokens after the granted tokens
  std::size_t in_flight = 0;        // unfinished steps that compute tokens of this sequence
  bool awaits_token = false;        // a step in flight chooses the sequence's next token
  std::size_t accepted = 0;         // accepted drafts of the step whose results are applied
  // For models with recurrent layers: number of tokens to recompute before the sequence's last token, because
  // a draft after them was rejected.
  std::size_t redo = 0;
  std::size_t drafted_tokens = 0;   // draft tokens in all steps
  std::size_t accepted_tokens = 0;  // accepted draft tokens in all steps
  std::size_t asked_from = 0;       // first prompt position whose output has not been delivered
  std::optional<Pooler> pooler{};   // pools delivered states
  // Results about the prompt that are delivered with the next scores: scores that an earlier prompt left, and
  // top tokens of both.
  std::vector<double> recalled{};
  std::vector<std::vector<TokenLogprob>> prompt_top{};
  // Delivered scores of the prompt's tokens from `unkept_from` on, which BlockScores does not have yet.
  TokenScores unkept{};
  std::size_t unkept_from = 0;
  // For models with recurrent layers: positions after which the state must be saved, because waiting
  // sequences diverge from this sequence there.
  std::vector<std::size_t> left_at{};
  std::size_t sent_blocks = 0;                   // blocks in each table already sent to the ranks
  bool announced = false;                        // whether the ranks know of this sequence
  std::optional<TextStream> text;                // set at the first generated token, if there is a tokenizer
  std::optional<constraint::Progress> progress;  // set at the first generated token
  FinishReason finish_reason = FinishReason::none;

  // Used while the sequence waits.
  std::size_t overtaken = 0;            // later sequences that were admitted before this sequence
  std::uint64_t compared_to = 0;        // running sequences up to this `admission` have been compared
  std::weak_ptr<const Sequence> ahead;  // running sequence that is computing a prefix of this sequence
  std::size_t shared_tokens = 0;        // length of the prefix shared with `ahead`, in whole blocks

  // Admission number (1, 2, ...) while the sequence runs; 0 while it waits.
  std::uint64_t admission = 0;
  std::uint64_t last_turn = 0;  // the scheduler's turn count at the prompt's last turn

  // The constraint's progress after all tokens so far.
  constraint::Progress constraint_progress() const { return progress.value_or(state->constraint_start); }
  // Whether a mask restricts the next token.
  bool is_masked() const { return state->constraint || state->request.allowed_tokens; }
  int priority() const { return state->request.priority; }
  // Whether an earlier pass has left cache blocks for this sequence.
  bool has_blocks_waiting() const { return state->pass.cache.is_filled; }
  std::size_t prompt_tokens() const { return state->request.prompt.size(); }
  std::size_t generated_tokens() const { return tokens.size() - prompt_tokens(); }
  // The token that must come next: a forced first or last token, or the end of thinking when its limit is
  // reached.
  std::optional<TokenId> forced_next() const {
    if (generated_tokens() == 0 && state->request.forced_first) return state->request.forced_first;
    if (generated_tokens() + 1 == state->max_tokens && state->forced_last) return state->forced_last;
    if (text) return text->forced_next();
    const std::optional<ThinkingLimit>& limit = state->request.thinking;
    return limit ? ThinkingWatch(*limit).forced_next() : std::nullopt;
  }
  bool finished() const { return finish_reason != FinishReason::none; }
  // Number of tokens whose keys and values are needed for the next output.
  std::size_t work() const { return generated_tokens() == 0 ? state->prompt_work() : tokens.size(); }
  // Whether no token can be planned: the sequence has ended, or a step in flight must finish first.
  bool idle() const { return finished() || awaits_token || planned_tokens == work(); }
  // Whether the sequence is generating and, apart from the tokens counted by `redo`, has no tokens left to
  // plan except perhaps its last.
  bool decodes() const { return generated_tokens() > 0 && planned_tokens + redo + 1 >= tokens.size(); }
  // Whether this is the request's newest sample and there are more samples to create.
  bool is_last_begun() const {
    return state->not_begun > 0 && sample + 1 == state->request.n - state->not_begun;
  }
  // Whether one step must compute the whole sequence.
  bool indivisible() const { return state->indivisible; }
  // Number of consecutive tokens that must be computed in the same step.
  std::size_t attention_block() const { return state->attention_block; }
  bool has_canvas() const { return state->pass.canvas.exists(); }
  // The number of tokens of the text, which later sequences may share: all tokens but those of a canvas.
  std::size_t text_end() const { return std::min<std::size_t>(tokens.size(), state->pass.canvas.begin); }
  // Minimum number of tokens in the next chunk: a whole indivisible sequence, a whole input to encode, or 1.
  std::size_t min_chunk() const {
    if (indivisible()) return work() - state->pass.cache.begin;
    return planned_tokens < state->input.positions ? state->input.positions : 1;
  }
  // Whether the step being planned encodes the input. If so, the sequence's decoder tokens wait for a later
  // step.
  bool encodes() const { return planned_tokens - granted < state->input.positions; }
  bool uses_prefix_cache() const { return state->request.cache_prompt && !indivisible(); }
  // Whether scores of the prompt may come from earlier prompts, and serve later ones.
  bool can_recall() const { return uses_prefix_cache() && state->input.positions == 0; }
  // Whether the prompt has undelivered outputs.
  bool is_asked() const { return sample == 0 && asked_from < state->asked_end(); }
};

}  // namespace tp
