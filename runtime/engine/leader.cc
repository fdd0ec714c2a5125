#include "runtime/engine/leader.h"

#include "runtime/engine/accept.h"
#include "runtime/engine/request_check.h"
#include "runtime/text/bad_words.h"
#include "tp/error.h"

#include <exception>
#include <future>
#include <new>

namespace tp {

using Clock = RequestTimes::Clock;

Leader::Leader(LeaderOptions options, const Tokenizer* tokenizer)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      blocks_(options_.cache_blocks, options_.cache.block_size, options_.cache.windows),
      scheduler_(blocks_, options_.limits),
      inbox_(options_.queue) {
  publish_status();
}

RequestId Leader::submit(Request request, EventSink sink) {
  check_request(request, options_, tokenizer_ != nullptr);
  try {
    return inbox_.submit(make_state(std::move(request), std::move(sink)));
  } catch (const std::bad_alloc&) {
    throw OverloadedError(kOutOfMemory);
  }
}

std::shared_ptr<RequestState> Leader::make_state(Request request, EventSink sink) const {
  auto state = std::make_shared<RequestState>();
  state->seed = request.sampling.seed ? *request.sampling.seed : draw_seed();
  state->max_tokens = std::min<std::size_t>(static_cast<std::size_t>(request.max_tokens),
                                            options_.max_length - request.prompt.size());
  state->not_begun = state->open_samples = request.n;
  if (!request.ignore_eos) {
    state->end_ids = options_.eos_token_ids;
    state->end_ids.insert(state->end_ids.end(), request.stop_token_ids.begin(), request.stop_token_ids.end());
  }
  state->bad_words = bad_words_of(request, tokenizer_);
  state->request = std::move(request);
  state->sink = std::move(sink);
  state->times.queued = Clock::now();
  return state;
}

void Leader::cancel(RequestId request) { inbox_.cancel(request); }
LeaderStatus Leader::status() const { return inbox_.status(); }
void Leader::wake() { inbox_.wake(); }
bool Leader::has_work() const { return scheduler_.has_work() || !inbox_.empty(); }

bool Leader::wait_for_work(std::chrono::nanoseconds timeout) {
  if (!scheduler_.has_work()) inbox_.wait(timeout);
  return has_work();
}

PlannedStep Leader::plan() {
  Delivery delivery;
  drain_inbox(delivery);
  PlannedStep planned = scheduler_.plan();
  for (const PlannedStep::Chunk& chunk : planned.chunks) {
    RequestTimes& times = chunk.sequence->state->times;
    if (times.first_scheduled == Clock::time_point{}) times.first_scheduled = Clock::now();
  }
  for (const std::shared_ptr<Sequence>& sequence : planned.failed) {
    delivery.emplace_back(sequence->state, fail(*sequence, kOutOfMemory));
    count_end(FinishReason::error);
    end(sequence->state, delivery);
  }
  start_masks(planned);
  publish_status();
  deliver(delivery);
  return planned;
}

namespace {

// Starts computing a mask on a thread of its own.
std::shared_future<TokenMask> start_mask(const Sequence& sequence) {
  try {
    const auto first = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(sequence.prompt_tokens());
    std::vector<TokenId> generated(first, sequence.tokens.end());
    return std::async(std::launch::async,
                      [state = sequence.state, generated = std::move(generated)] {
                        return state->request.allowed_tokens(generated);
                      })
        .share();
  } catch (...) {  // out of threads or memory
    std::promise<TokenMask> none;
    none.set_exception(std::current_exception());
    return none.get_future().share();
  }
}

}  // namespace

// Masks are computed while the ranks run the forward pass.
void Leader::start_masks(PlannedStep& planned) {
  for (const PlannedStep::Chunk& chunk : planned.chunks) {
    for (std::size_t output = chunk.first_output; output < chunk.first_output + chunk.outputs; ++output) {
      const auto* choose = std::get_if<want::Choose>(&planned.forward.outputs[output].want);
      if (choose != nullptr && choose->masked) planned.masks[output] = start_mask(*chunk.sequence);
    }
  }
}

void Leader::drain_inbox(Delivery& delivery) {
  const Inbox::Contents contents = inbox_.take();
  for (const auto& state : contents.submitted) {
    try {
      scheduler_.add(state);
    } catch (const std::bad_alloc&) {
      state->times.finished = Clock::now();
      scheduler_.drop(*state);
      count_end(FinishReason::error, static_cast<std::size_t>(state->request.n));
      delivery.emplace_back(state, RequestRejected{state->id, state->times, kOutOfMemory});
    }
  }
  for (const RequestId request : contents.cancelled)
    count_end(FinishReason::cancelled, scheduler_.cancel(request));
  if (!contents.cancelled.empty()) end_sequences(delivery);
}

void Leader::settle(const PlannedStep& step, const Outputs& outputs, double seconds) {
  Delivery delivery;
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    tell_progress(chunk, delivery);
    for (std::size_t output = chunk.first_output; output < chunk.first_output + chunk.outputs; ++output) {
      if (const auto mask = step.masks.find(output); mask != step.masks.end())
        check_mask(*chunk.sequence, mask->second, delivery);
      settle_result(*chunk.sequence, outputs.results[output], delivery);
    }
  }
  scheduler_.settle(step, seconds);
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    Sequence& sequence = *chunk.sequence;
    const bool done = sequence.state->max_tokens == 0 && sequence.computed_tokens == sequence.work();
    if (done && !sequence.finished()) sequence.finish_reason = FinishReason::length;
  }
  end_sequences(delivery);
  ++counters_.steps;
  counters_.last_step_tokens = step.forward.tokens.size();
  counters_.last_step_seconds = seconds;
  publish_status();
  deliver(delivery);
}

// How much of its prompt has been computed once the chunk is.
void Leader::tell_progress(const PlannedStep::Chunk& chunk, Delivery& delivery) {
  const Sequence& sequence = *chunk.sequence;
  const auto& state = sequence.state;
  if (!state->request.report_progress || sequence.finished() || sequence.generated_tokens() > 0) return;
  delivery.emplace_back(state, PrefillProgress{.request = state->id,
                                               .sample = sequence.sample,
                                               .total = sequence.prompt_tokens(),
                                               .cached = sequence.cached_tokens,
                                               .processed = sequence.computed_tokens + chunk.tokens});
}

// A mask that could not be computed ends its sequence with an error.
void Leader::check_mask(Sequence& sequence, const std::shared_future<TokenMask>& mask, Delivery& delivery) {
  if (sequence.finished()) return;
  try {
    mask.get();
  } catch (const std::exception& error) {
    delivery.emplace_back(sequence.state, fail(sequence, error.what()));
  } catch (...) {
    delivery.emplace_back(sequence.state, fail(sequence, "cannot compute the mask of allowed tokens"));
  }
}

void Leader::settle_result(Sequence& sequence, const Result& result, Delivery& delivery) {
  const auto& state = sequence.state;
  const auto tell = [&](Event event) { delivery.emplace_back(state, std::move(event)); };
  if (const auto* chosen = std::get_if<std::vector<Chosen>>(&result)) {
    sequence.awaits_token = false;
    for (const Chosen& token : *chosen) {
      if (sequence.finished()) return;
      TokenEvent event = accept(sequence, token, tokenizer_);
      if (event.error.empty()) ++counters_.generated_tokens;
      tell(std::move(event));
    }
  } else if (const auto* logprobs = std::get_if<std::vector<double>>(&result)) {
    if (sequence.finished()) return;
    const std::size_t first = std::exchange(sequence.asked_from, sequence.asked_from + logprobs->size()) + 1;
    if (std::optional<TokenEvent> failure = check_logprobs(sequence, first, *logprobs))
      return tell(std::move(*failure));
    tell(PromptLogprobs{state->id, first, *logprobs, std::exchange(sequence.prompt_top, {})});
  } else if (const auto* rows = std::get_if<std::vector<RowCandidates>>(&result)) {
    for (const RowCandidates& row : *rows) sequence.prompt_top.push_back(row.best);
  } else if (const auto* rows = std::get_if<WholeRows>(&result)) {
    if (sequence.finished()) return;
    PromptLogits event{state->id, sequence.asked_from, rows->columns, rows->values};
    sequence.asked_from += event.positions();
    tell(event);
  }
}

// A request's last event is sent when its last continuation has ended.
void Leader::end_sequences(Delivery& delivery) {
  for (const std::shared_ptr<Sequence>& sequence : scheduler_.remove_finished()) {
    count_end(sequence->finish_reason);
    if (sequence->sample == 0) sequence->state->cached_tokens = sequence->cached_tokens;
    end(sequence->state, delivery);
  }
}

void Leader::count_end(FinishReason reason, std::size_t continuations) {
  FinishCounts& counts = counters_.finished;
  if (reason == FinishReason::stop) counts.stop += continuations;
  if (reason == FinishReason::length) counts.length += continuations;
  if (reason == FinishReason::cancelled) counts.cancelled += continuations;
  if (reason == FinishReason::error) counts.error += continuations;
}

// One of the request's continuations has ended.
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
  inbox_.publish(status, scheduler_.left_queue());
}

}  // namespace tp
