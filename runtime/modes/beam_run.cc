#include "runtime/modes/beam_run.h"

#include "runtime/scheduling/accept.h"
#include "runtime/text/text_stream.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <new>
#include <span>
#include <utility>

namespace tp {

BeamRun::BeamRun(Leader& leader, const Tokenizer* tokenizer, Setup setup)
    : leader_(leader),
      tokenizer_(tokenizer),
      setup_(std::move(setup)),
      state_(*setup_.request.beam_search, setup_.ends, setup_.max_tokens) {
  times_.queued = RequestTimes::Clock::now();
}

void BeamRun::begin() {
  advance_forced();
  if (state_.running().empty()) return end();
  ask(true);
}

void BeamRun::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (const RequestId id : asked_) leader_.cancel(id);
}

// All texts have the same length, so they have the same forced token.
std::optional<TokenId> BeamRun::forced_next() const {
  const std::size_t generated = state_.running().front().tokens.size();
  if (generated == 0 && setup_.request.forced_first) return setup_.request.forced_first;
  if (generated + 1 == setup_.max_tokens) return setup_.forced_last;
  return std::nullopt;
}

// A forced token has the log-probability 0, as in Hugging Face's transformers.
void BeamRun::advance_forced() {
  while (!state_.running().empty()) {
    const std::optional<TokenId> forced = forced_next();
    if (!forced) return;
    state_.advance(std::vector<std::vector<TokenLogprob>>(state_.running().size(), {{*forced, 0.0F}}));
  }
}

std::vector<TokenId> BeamRun::banned_behind(const Beam& beam) const {
  const Request& asked = setup_.request;
  std::vector<TokenId> text = asked.decoder_prompt.empty() ? asked.prompt : asked.decoder_prompt;
  const std::size_t prompt = text.size();
  text.insert(text.end(), beam.tokens.begin(), beam.tokens.end());
  return setup_.bans.after(text, prompt);
}

std::size_t BeamRun::candidates_behind(const std::vector<TokenId>& banned) const {
  return std::min(state_.wanted_candidates() + banned.size(), setup_.vocab_size);
}

Request BeamRun::request_of(const Beam& beam, std::size_t candidates) const {
  const Request& asked = setup_.request;
  Request request{.prompt = asked.prompt, .decoder_prompt = asked.decoder_prompt, .max_tokens = 0};
  std::vector<TokenId>& text = asked.decoder_prompt.empty() ? request.prompt : request.decoder_prompt;
  text.insert(text.end(), beam.tokens.begin(), beam.tokens.end());
  request.candidates_at = {text.size() - 1};
  request.candidates = static_cast<int>(candidates);
  request.cache_salt = asked.cache_salt;
  request.adapter = asked.adapter;
  if (!asked.cache_prompt) {  // shares the cache only within this search
    request.cache_salt += "\nsearch ";
    request.cache_salt += std::to_string(setup_.id);
  }
  request.priority = asked.priority;
  return request;
}

// Submits one pass for every text. Only the first pass of a search may be refused, because later passes
// belong to an admitted search. Throws RequestError if the model's no_repeat_ngram_size bans so many tokens
// that the step needs too many candidates.
void BeamRun::ask(bool is_first) {
  const std::lock_guard lock(mutex_);
  asked_.clear();
  const std::vector<Beam>& beams = state_.running();
  candidates_.assign(beams.size(), {});
  banned_.clear();
  std::size_t candidates = 0;
  for (const Beam& beam : beams) {
    banned_.push_back(banned_behind(beam));
    candidates += candidates_behind(banned_.back());
  }
  require<RequestError>(candidates <= kMaxBeamCandidates,
                        "cannot search: {} texts and the tokens that are excluded after them need {} "
                        "candidates in a step, expected at most {}; use fewer `beams`, or a shorter prompt",
                        beams.size(), candidates, kMaxBeamCandidates);
  awaited_ = beams.size();
  for (std::size_t i = 0; i < beams.size(); ++i) {
    auto sink = [self = shared_from_this(), i](const Event& event) { self->receive(i, event); };
    asked_.push_back(leader_.submit_pass(request_of(beams[i], candidates_behind(banned_[i])), std::move(sink),
                                         {.place = is_first ? Pass::Place::first : Pass::Place::later}));
    if (cancelled_) leader_.cancel(asked_.back());
  }
}

void BeamRun::receive(std::size_t beam, const Event& event) {
  const auto take_times = [&](const RequestTimes& times) {
    if (times_.first_scheduled == RequestTimes::Clock::time_point{})
      times_.first_scheduled = times.first_scheduled;
    times_.restored_tokens += times.restored_tokens;
    times_.restore_seconds += times.restore_seconds;
  };
  if (const auto* found = std::get_if<PromptCandidates>(&event)) {
    try {
      candidates_[beam] = found->best;
    } catch (const std::bad_alloc&) {
      error_ = kOutOfMemory;
    }
    return;
  }
  if (const auto* token = std::get_if<TokenEvent>(&event)) {
    if (!token->error.empty()) error_ = token->error;
    return;
  }
  if (const auto* finished = std::get_if<RequestFinished>(&event)) {
    take_times(finished->times);
    if (state_.running().front().tokens.empty()) cached_tokens_ = finished->cached_tokens;
  } else if (const auto* rejected = std::get_if<RequestRejected>(&event)) {
    error_ = rejected->error;
  } else if (!std::holds_alternative<RequestCancelled>(event)) {
    return;
  }
  if (--awaited_ == 0) advance();
}

void BeamRun::advance() {
  if (is_cancelled() || !error_.empty()) return end();
  try {
    choose();
  } catch (const std::bad_alloc&) {
    error_ = kOutOfMemory;
  }
  if (!error_.empty() || state_.running().empty()) return end();
  try {
    ask(false);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

// Chooses the beams of the next step from the candidates of this step.
void BeamRun::choose() {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].empty()) {
      error_ =
          "the model's logits are not finite (expected numbers, found NaN or infinity); check the "
          "checkpoint, and try `weights` f32 if it is stored as f16";
      return;
    }
    std::erase_if(candidates_[i], [&](const TokenLogprob& token) {
      return std::ranges::binary_search(banned_[i], token.id);
    });
  }
  state_.advance(candidates_);
  advance_forced();
}

// Ends the search if not all requests of a step could be submitted. Waits until the submitted requests end.
void BeamRun::fail(const std::string& error) {
  error_ = error;
  {
    const std::lock_guard lock(mutex_);
    awaited_ = asked_.size();
    for (const RequestId id : asked_) leader_.cancel(id);
  }
  if (awaited_ == 0) end();
}

bool BeamRun::is_cancelled() {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

// Emits the last event, after the events of the texts.
void BeamRun::end() {
  times_.finished = RequestTimes::Clock::now();
  const bool cancelled = error_.empty() && is_cancelled();
  if (!error_.empty())
    emit_error(error_);
  else if (!cancelled)
    emit_texts();
  setup_.on_end(counts(cancelled));
  if (cancelled)
    setup_.sink(RequestCancelled{setup_.id, times_, cached_tokens_});
  else
    setup_.sink(RequestFinished{setup_.id, times_, cached_tokens_});
}

// Counts the texts whose events were emitted.
AnswerCounts BeamRun::counts(bool cancelled) const {
  AnswerCounts counts;
  const auto wanted = static_cast<std::size_t>(setup_.request.n);
  if (cancelled || !error_.empty()) {
    count_end(counts.finished, cancelled ? FinishReason::cancelled : FinishReason::error, wanted);
    return counts;
  }
  const std::size_t found = std::min(state_.finished().size(), wanted);
  for (const FinishedBeam& text : std::span(state_.finished()).first(found)) {
    counts.generated_tokens += text.beam.tokens.size();
    count_end(counts.finished, text.ended ? FinishReason::stop : FinishReason::length);
  }
  count_end(counts.finished, FinishReason::error, wanted - found);
  return counts;
}

void BeamRun::emit_texts() {
  const std::vector<FinishedBeam>& found = state_.finished();
  const auto wanted = static_cast<std::size_t>(setup_.request.n);
  for (std::size_t i = 0; i < std::min(found.size(), wanted); ++i) emit_text(static_cast<int>(i), found[i]);
  if (found.size() < wanted)
    emit_error(
        "the request excludes every token that the model allows after all texts of the search (expected at "
        "least one allowed token); exclude fewer");
}

TokenEvent BeamRun::event_of(int sample) const {
  TokenEvent event;
  event.request = setup_.id;
  event.sample = sample;
  return event;
}

void BeamRun::emit_text(int sample, const FinishedBeam& text) {
  std::optional<TextStream> stream;
  if (tokenizer_ != nullptr) stream.emplace(*tokenizer_, setup_.request);
  const std::vector<TokenId>& tokens = text.beam.tokens;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    TokenEvent event = event_of(sample);
    event.token = tokens[i];
    event.cached_tokens = cached_tokens_;
    event.restored_tokens = times_.restored_tokens;
    event.restore_seconds = times_.restore_seconds;
    const bool is_last = i + 1 == tokens.size();
    if (stream) event.text = stream->push(tokens[i], false);
    if (stream && is_last) event.text += stream->finish();
    if (setup_.request.sampling.logprobs >= 0) event.logprob = TokenLogprob{tokens[i], text.beam.logprobs[i]};
    if (is_last) event.finish_reason = text.ended ? FinishReason::stop : FinishReason::length;
    const std::vector<TokenId>& stops = setup_.request.stop_token_ids;
    if (is_last && std::ranges::find(stops, tokens[i]) != stops.end()) event.matched_stop = tokens[i];
    setup_.sink(event);
  }
}

// Emits the error for all continuations without events.
void BeamRun::emit_error(const std::string& error) {
  const std::size_t found = error_.empty() ? state_.finished().size() : 0;
  for (auto sample = static_cast<int>(found); sample < setup_.request.n; ++sample) {
    TokenEvent event = event_of(sample);
    event.finish_reason = FinishReason::error;
    event.error = error;
    setup_.sink(event);
  }
}

}  // namespace tp
