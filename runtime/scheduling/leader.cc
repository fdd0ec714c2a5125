#include "runtime/scheduling/leader.h"

#include "runtime/constraint/request_constraint.h"
#include "runtime/scheduling/accept.h"
#include "runtime/scheduling/answer_counts.h"
#include "runtime/scheduling/request_adapter.h"
#include "runtime/scheduling/request_check.h"
#include "runtime/scheduling/seq2seq_request.h"
#include "runtime/scheduling/step_masks.h"
#include "runtime/text/bad_words.h"
#include "runtime/text/finite_results.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <exception>
#include <new>

namespace tp {

using Clock = RequestTimes::Clock;

Leader::Leader(LeaderOptions options, const Tokenizer* tokenizer, std::unique_ptr<Speculator> speculator)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      blocks_(options_.cache_blocks, options_.cache.block_size, options_.cache.windows, hash_of_block,
              options_.cache.states, options_.cache.owners),
      scheduler_(blocks_, options_, std::move(speculator)),
      inbox_(options_.engine) {
  if (tokenizer != nullptr) constraints_.emplace(*tokenizer, options_.vocab_size, options_.eos_token_ids);
  publish_status();
}

RequestId Leader::submit(Request request, EventSink sink) {
  if (options_.kind == ModelKind::seq2seq) begin_decoder(options_.generation, options_.model(), request);
  return submit_pass(std::move(request), std::move(sink), {});
}

RequestId Leader::submit_pass(Request request, EventSink sink, const Pass& pass) {
  const std::size_t block = complete_attention(request, pass.attention_block);
  check_request(request, options_, tokenizer_ != nullptr);
  const std::size_t adapter = choose_adapter(options_, request);
  try {
    const std::shared_ptr<RequestState> state = make_state(std::move(request), std::move(sink), block);
    state->pass = pass;
    state->adapter = adapter;
    return pass.place == Pass::Place::later ? inbox_.submit_again(state) : inbox_.submit(state);
  } catch (const std::bad_alloc&) {
    throw OverloadedError(kOutOfMemory);
  }
}

// Sets the attention that the model needs, and returns the number of tokens that attend to each other in both
// directions: `block`, or the model's own number if it is 0. With several, requests share prefixes only if
// they have the same number, and it divides the cache's block size.
std::size_t Leader::complete_attention(Request& request, std::size_t block) const {
  if (options_.bidirectional) request.bidirectional = true;
  if (!options_.diffusion || options_.diffusion->block_length == 0 || request.bidirectional) return 1;
  if (options_.diffusion->canvas) return 1;  // tokens of the text attend to earlier tokens
  if (block == 0) block = options_.diffusion->block_length;
  const std::size_t max = std::min(options_.engine.prefill_chunk, options_.step_tokens);
  require<RequestError>(block <= max,
                        "`block_length` is {}, but a step computes at most {} tokens, and a block in one "
                        "step; lower it, or raise `prefill_chunk`",
                        block, max);
  if (options_.cache.block_size % block != 0) request.cache_prompt = false;
  request.cache_salt = fmt::format("blocks of {} {}", block, request.cache_salt);
  return block;
}

std::shared_ptr<RequestState> Leader::make_state(Request request, EventSink sink,
                                                 std::size_t attention_block) {
  auto state = std::make_shared<RequestState>();
  state->attention_block = attention_block;
  state->indivisible = options_.recomputes || request.bidirectional;
  state->seed = request.sampling.seed ? *request.sampling.seed : draw_seed();
  if (options_.kind == ModelKind::seq2seq) state->input = lay_out_input(options_.cache.block_size, request);
  const std::size_t own = request.prompt.size() - state->input.positions;
  state->max_tokens =
      std::min<std::size_t>(static_cast<std::size_t>(request.max_tokens), options_.engine.max_length - own);
  state->not_begun = state->open_samples = request.n;
  if (!request.ignore_eos) {
    state->bans.model_ends = state->end_ids = options_.eos_token_ids;
    state->end_ids.insert(state->end_ids.end(), request.stop_token_ids.begin(), request.stop_token_ids.end());
  }
  add_endings(options_.generation, request, *state);
  state->bans.ends = state->end_ids;
  state->bans.min_tokens = static_cast<std::size_t>(request.min_tokens);
  state->bans.words = bad_words_of(request, tokenizer_);
  add_defaults(options_.generation, own, state->max_tokens, request.constraint.has_value(), state->bans);
  state->request = std::move(request);
  state->constraint = constraint_of(*state);
  if (state->constraint) state->constraint_start = state->constraint->start();
  state->sink = std::move(sink);
  state->times.queued = Clock::now();
  return state;
}

// Adds the end tokens, stop texts and forced tokens from the model's files. With a constraint, no token is
// forced, and the constraint defines where the text ends.
void Leader::add_endings(const GenerationDefaults& defaults, Request& request, RequestState& state) const {
  if (request.constraint) return request.forced_first.reset();
  for (const std::string& text : defaults.stop) {
    if (tokenizer_ == nullptr || request.ignore_eos) break;
    const std::optional<TokenId> token = tokenizer_->token_to_id(text);
    // A control token's text is never output, so the token itself must end the text.
    if (token && tokenizer_->is_special(*token))
      state.end_ids.push_back(*token);
    else
      request.stop.push_back(text);
  }
  const bool is_at_beginning = request.prompt.size() == state.input.positions + 1;
  if (!request.forced_first && is_at_beginning) request.forced_first = defaults.forced_first;
  const bool may_end = static_cast<std::size_t>(request.min_tokens) < state.max_tokens;
  if (!request.ignore_eos && may_end) state.forced_last = defaults.forced_last;
}

void Leader::compile_constraint(const Request& request) {
  if (request.constraint && constraints_)
    constraints_->compile(*request.constraint, request.constraint_frame);
}

std::shared_ptr<const constraint::RequestConstraint> Leader::constraint_of(const RequestState& state) {
  constexpr float kBan = -100.0F;
  const Request& request = state.request;
  if (!request.constraint || state.max_tokens == 0) return nullptr;
  constraint::Bans bans{.ends = state.end_ids, .min_tokens = static_cast<std::size_t>(request.min_tokens)};
  for (const LogitBias& bias : request.sampling.logit_bias) {
    if (bias.bias <= kBan) bans.tokens.push_back(bias.id);
  }
  for (const std::vector<TokenId>& word : state.bans.words) {
    if (word.size() == 1)
      bans.tokens.push_back(word.front());
    else
      bans.sequences.push_back(word);
  }
  try {
    return std::make_shared<const constraint::RequestConstraint>(
        constraints_->compile(*request.constraint, request.constraint_frame), std::move(bans));
  } catch (const RequestError& error) {
    throw_error<RequestError>("`constraint`: {}", error.what());
  }
}

void Leader::cancel(RequestId request) { inbox_.cancel(request); }
LeaderStatus Leader::status() const { return inbox_.status(); }
void Leader::wake() { inbox_.wake(); }

void Leader::open_store(StoreSettings settings) {
  scheduler_.use_store(store_.emplace(blocks_, std::move(settings)));
  publish_status();
}

bool Leader::clear_store() {
  if (!store_) return false;
  store_->clear_soon();
  wake();
  return true;
}

std::vector<std::string> Leader::apply_store_reports(std::span<const StoreReport> reports) {
  std::vector<std::string> notes = store_->apply_reports(reports);
  publish_status();
  return notes;
}

void Leader::release_passes(RequestId key) {
  scheduler_.release(key);
  publish_status();
}

bool Leader::has_work() const { return scheduler_.has_work() || !inbox_.empty(); }

bool Leader::wait_for_work(std::chrono::nanoseconds timeout) {
  if (!scheduler_.has_work()) inbox_.wait(timeout);
  return has_work();
}

PlannedStep Leader::plan() {
  Delivery delivery;
  drain_inbox(delivery);
  PlannedStep planned = scheduler_.plan();
  note_start_times(planned);
  fail_sequences(planned.failed, delivery);
  start_masks(planned, options_.vocab_size);
  publish_status();
  deliver(delivery);  // last, because sinks may call the leader
  return planned;
}

void Leader::note_start_times(const PlannedStep& planned) {
  for (const PlannedStep::Chunk& chunk : planned.chunks) {
    RequestTimes& times = chunk.sequence->state->times;
    if (times.first_scheduled == Clock::time_point{}) times.first_scheduled = Clock::now();
  }
}

void Leader::fail_sequences(const std::vector<std::shared_ptr<Sequence>>& failed, Delivery& delivery) {
  for (const std::shared_ptr<Sequence>& sequence : failed) {
    delivery.emplace_back(sequence->state, fail(*sequence, kOutOfMemory));
    if (!sequence->state->is_pass()) count_end(counters_.finished, FinishReason::error);
    end(sequence->state, delivery);
  }
}

void Leader::drain_inbox(Delivery& delivery) {
  const Inbox::Contents contents = inbox_.take();
  for (const auto& state : contents.submitted) {
    try {
      for (const auto& sequence : scheduler_.add(state)) {
        for (TokenEvent& event : replay(*sequence, tokenizer_))
          delivery.emplace_back(state, std::move(event));
      }
    } catch (const std::bad_alloc&) {
      state->times.finished = Clock::now();
      scheduler_.drop(*state);
      if (!state->is_pass())
        count_end(counters_.finished, FinishReason::error, static_cast<std::size_t>(state->request.n));
      delivery.emplace_back(state, RequestRejected{state->id, state->times, kOutOfMemory});
    }
  }
  for (const RequestId request : contents.cancelled)
    count_end(counters_.finished, FinishReason::cancelled, scheduler_.cancel(request));
  end_finished_sequences(delivery);
}

void Leader::apply_results(const PlannedStep& step, const Outputs& outputs, double seconds) {
  Delivery delivery;
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    tell_prompt_progress(chunk, delivery);
    apply_chunk(step, chunk, outputs, delivery);
  }
  scheduler_.finish_step(step, seconds);  // reads the tokens and Sequence::accepted, which are now set
  finish_computed_prompts(step);
  end_finished_sequences(delivery);
  count_step(step, seconds);
  publish_status();
  deliver(delivery);
}

// Finishes the sequences that generate nothing and whose prompts have been computed.
void Leader::finish_computed_prompts(const PlannedStep& step) {
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    Sequence& sequence = *chunk.sequence;
    const bool done = sequence.state->max_tokens == 0 && sequence.computed_tokens == sequence.work();
    if (done && !sequence.finished()) sequence.finish_reason = FinishReason::length;
  }
}

void Leader::count_step(const PlannedStep& step, double seconds) {
  ++counters_.steps;
  counters_.last_step_tokens = step.forward.tokens.size();
  counters_.last_step_seconds = seconds;
}

namespace {

// The sequence's token at this position; nullopt if the sequence is shorter.
std::optional<TokenId> token_at(const Sequence& sequence, std::size_t position) {
  return position < sequence.tokens.size() ? std::optional(sequence.tokens[position]) : std::nullopt;
}

}  // namespace

// A draft token's row is valid only if the model chose this token and all drafts before it. The row is then
// identical to the one that a step without drafts would compute. Rows after a rejected draft are ignored.
void Leader::apply_chunk(const PlannedStep& step, const PlannedStep::Chunk& chunk, const Outputs& outputs,
                         Delivery& delivery) {
  Sequence& sequence = *chunk.sequence;
  sequence.drafted_tokens += chunk.drafts.size();
  for (std::size_t i = 0; i < chunk.outputs; ++i) {
    if (!chunk.drafts.empty() && i > 0) {
      if (token_at(sequence, chunk.end + i - 1) != chunk.drafts[i - 1]) return;
      ++sequence.accepted;
      ++sequence.accepted_tokens;
      if (token_at(sequence, chunk.end + i)) continue;  // a constraint has forced this token
    }
    const std::size_t output = chunk.first_output + i;
    if (step.masks) check_mask(sequence, *step.masks, output, delivery);
    apply_result(sequence, outputs.results[output], delivery);
  }
}

void Leader::tell_prompt_progress(const PlannedStep::Chunk& chunk, Delivery& delivery) {
  const Sequence& sequence = *chunk.sequence;
  const auto& state = sequence.state;
  const EncodedInput& input = state->input;
  if (!state->request.report_progress || sequence.finished() || sequence.generated_tokens() > 0) return;
  delivery.emplace_back(
      state, PrefillProgress{.request = state->id,
                             .sample = sequence.sample,
                             .total = input.tokens_until(sequence.prompt_tokens()),
                             .cached = sequence.cached_tokens,
                             .processed = input.tokens_until(sequence.computed_tokens + chunk.tokens)});
}

// Ends the sequence with an error if its mask computation failed.
void Leader::check_mask(Sequence& sequence, const StepMasks& masks, std::size_t output, Delivery& delivery) {
  if (sequence.finished()) return;
  try {
    masks.check(output);
  } catch (const std::exception& error) {
    delivery.emplace_back(sequence.state, fail(sequence, error.what()));
  } catch (...) {
    delivery.emplace_back(sequence.state, fail(sequence, "cannot compute the mask of allowed tokens"));
  }
}

void Leader::apply_result(Sequence& sequence, const Result& result, Delivery& delivery) {
  const auto& state = sequence.state;
  const auto tell = [&](Event event) { delivery.emplace_back(state, std::move(event)); };
  if (const auto* chosen = std::get_if<std::vector<Chosen>>(&result)) {
    sequence.awaits_token = false;
    for (const Chosen& token : *chosen) append(sequence, token, delivery);
    append_forced(sequence, delivery);
  } else if (const auto* logprobs = std::get_if<std::vector<double>>(&result)) {
    if (sequence.finished()) return;
    if (std::optional<TokenEvent> failure = check_logprobs(sequence, sequence.asked_from + 1, *logprobs))
      return tell(std::move(*failure));
    tell(take_scores(sequence, *logprobs));
  } else if (const auto* rows = std::get_if<std::vector<RowCandidates>>(&result)) {
    if (!state->request.candidates_at.empty()) return apply_candidates(sequence, rows->front(), delivery);
    for (const RowCandidates& row : *rows) sequence.prompt_top.push_back(row.best);
  } else if (const auto* proposals = std::get_if<std::vector<Proposal>>(&result)) {
    if (!sequence.finished()) apply_proposals(sequence, *proposals, delivery);
  } else if (const auto* rows = std::get_if<WholeRows>(&result)) {
    if (!sequence.finished()) apply_rows(sequence, *rows, delivery);
  }
}

// Does nothing if the sequence has ended.
void Leader::append(Sequence& sequence, const Chosen& chosen, Delivery& delivery) {
  if (sequence.finished()) return;
  TokenEvent event = accept(sequence, chosen, tokenizer_);
  if (event.error.empty()) ++counters_.generated_tokens;
  delivery.emplace_back(sequence.state, std::move(event));
}

void Leader::append_forced(Sequence& sequence, Delivery& delivery) {
  try {
    for (auto forced = forced_tokens_next(sequence); !forced.empty(); forced = forced_tokens_next(sequence)) {
      for (const TokenId token : forced) append(sequence, {.id = token}, delivery);
    }
  } catch (const RequestError& error) {  // the constraint has become too large
    delivery.emplace_back(sequence.state, fail(sequence, error.what()));
  }
}

void Leader::apply_rows(Sequence& sequence, const WholeRows& rows, Delivery& delivery) {
  const auto& state = sequence.state;
  const std::vector<std::size_t>& places = state->request.states_at;
  const std::size_t first =
      places.empty() ? sequence.asked_from : *std::ranges::lower_bound(places, sequence.asked_from);
  sequence.asked_from = first + rows.values.size() / rows.columns;
  if (state->request.prompt_logits) {
    delivery.emplace_back(state,
                          PromptLogits{state->id, first - state->input.positions, rows.columns, rows.values});
  } else if (!all_finite(rows.values)) {
    delivery.emplace_back(state, fail(sequence, not_finite("hidden states")));
  } else if (sequence.pooler) {
    sequence.pooler->add(rows.values, rows.columns);
    if (!sequence.is_asked())
      delivery.emplace_back(state, PooledHidden{state->id, sequence.pooler->pooled()});
  } else {
    delivery.emplace_back(state, PromptHidden{state->id, first, rows.columns, rows.values});
  }
}

void Leader::apply_proposals(Sequence& sequence, const std::vector<Proposal>& proposals, Delivery& delivery) {
  const auto& state = sequence.state;
  const auto place = std::ranges::lower_bound(state->request.candidates_at, sequence.asked_from);
  const std::size_t first = *place;
  sequence.asked_from = first + proposals.size();
  delivery.emplace_back(state, PromptProposals{state->id, first, proposals});
}

void Leader::apply_candidates(Sequence& sequence, const RowCandidates& row, Delivery& delivery) {
  if (sequence.finished()) return;
  const auto& state = sequence.state;
  const auto place = std::ranges::lower_bound(state->request.candidates_at, sequence.asked_from);
  sequence.asked_from = *place + 1;
  delivery.emplace_back(state, PromptCandidates{state->id, *place - state->input.positions, row.best});
}

void Leader::end_finished_sequences(Delivery& delivery) {
  for (const std::shared_ptr<Sequence>& sequence : scheduler_.remove_finished()) {
    if (!sequence->state->is_pass()) count_end(counters_.finished, sequence->finish_reason);
    if (sequence->sample == 0) sequence->state->cached_tokens = sequence->cached_tokens;
    end(sequence->state, delivery);
  }
}

// Called when a continuation of the request ends. After the last continuation, sends the request's final
// event.
void Leader::end(const std::shared_ptr<RequestState>& state, Delivery& delivery) {
  if (--state->open_samples > 0) return;
  state->times.finished = Clock::now();
  if (state->cancelled)
    delivery.emplace_back(state, RequestCancelled{state->id, state->times, state->cached_tokens});
  else
    delivery.emplace_back(state, RequestFinished{state->id, state->times, state->cached_tokens});
}

void Leader::deliver(const Delivery& delivery) {
  for (const auto& [state, event] : delivery) {
    if (state->sink) state->sink(event);
  }
}

void Leader::check_invariants() const {
  blocks_.check_invariants();
  scheduler_.check_invariants();
}

void Leader::publish_status() {
  LeaderStatus status = counters_;
  scheduler_.describe(status);
  status.free_blocks = blocks_.free_blocks();
  status.used_blocks = blocks_.num_blocks() - status.free_blocks;
  status.states = blocks_.states();
  status.snapshots = blocks_.snapshots();
  inbox_.publish(status, scheduler_.left_queue());
}

}  // namespace tp
