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
      scheduler_(blocks_, options_.limits) {
  publish_status();
}

RequestId Leader::submit(Request request, EventSink sink) {
  check_request(request, options_, tokenizer_ != nullptr);
  try {
    return enqueue(std::move(request), std::move(sink));
  } catch (const std::bad_alloc&) {
    throw OverloadedError(kOutOfMemory);
  }
}

RequestId Leader::enqueue(Request request, EventSink sink) {
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
  const std::lock_guard lock(mutex_);
  state->id = next_request_++;
  submitted_.push_back(state);
  return state->id;
}

void Leader::cancel(RequestId request) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(request);
}

LeaderStatus Leader::status() const {
  const std::lock_guard lock(mutex_);
  LeaderStatus status = status_;
  for (const auto& state : submitted_) status.queued += static_cast<std::size_t>(state->request.n);
  return status;
}

bool Leader::has_work() const {
  const std::lock_guard lock(mutex_);
  return !submitted_.empty() || !cancelled_.empty() || scheduler_.has_work();
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
  std::vector<std::shared_ptr<RequestState>> submitted;
  std::vector<RequestId> cancelled;
  {
    const std::lock_guard lock(mutex_);
    submitted.swap(submitted_);
    cancelled.swap(cancelled_);
  }
  for (const auto& state : submitted) {
    try {
      scheduler_.add(state);
    } catch (const std::bad_alloc&) {
      state->times.finished = Clock::now();
      delivery.emplace_back(state, RequestRejected{state->id, state->times, kOutOfMemory});
    }
  }
  for (const RequestId request : cancelled) scheduler_.cancel(request);
  if (!cancelled.empty()) end_sequences(delivery);
}

void Leader::settle(const PlannedStep& step, const Outputs& outputs) {
  Delivery delivery;
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    for (std::size_t output = chunk.first_output; output < chunk.first_output + chunk.outputs; ++output) {
      if (const auto mask = step.masks.find(output); mask != step.masks.end())
        check_mask(*chunk.sequence, mask->second, delivery);
      settle_result(*chunk.sequence, outputs.results[output], delivery);
    }
  }
  scheduler_.settle(step);
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    Sequence& sequence = *chunk.sequence;
    const bool done = sequence.state->max_tokens == 0 && sequence.computed_tokens == sequence.work();
    if (done && !sequence.finished()) sequence.finish_reason = FinishReason::length;
  }
  end_sequences(delivery);
  last_step_tokens_ = step.forward.tokens.size();
  publish_status();
  deliver(delivery);
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
      tell(accept(sequence, token, tokenizer_));
    }
  } else if (const auto* logprobs = std::get_if<std::vector<double>>(&result)) {
    if (sequence.finished()) return;
    const std::size_t first = std::exchange(sequence.asked_from, sequence.asked_from + logprobs->size()) + 1;
    if (std::optional<TokenEvent> failure = check_logprobs(sequence, first, *logprobs))
      return tell(std::move(*failure));
    tell(PromptLogprobs{state->id, first, *logprobs});
  } else if (const auto* rows = std::get_if<WholeRows>(&result)) {
    if (sequence.finished()) return;
    PromptLogits event{state->id, sequence.asked_from, rows->columns, rows->values};
    sequence.asked_from += event.positions();
    tell(event);
  }
}

// A request's last event is sent when its last continuation has ended.
void Leader::end_sequences(Delivery& delivery) {
  for (const std::shared_ptr<Sequence>& sequence : scheduler_.remove_finished())
    end(sequence->state, delivery);
}

// One of the request's continuations has ended.
void Leader::end(const std::shared_ptr<RequestState>& state, Delivery& delivery) {
  if (--state->open_samples > 0) return;
  state->times.finished = Clock::now();
  if (state->cancelled)
    delivery.emplace_back(state, RequestCancelled{state->id, state->times});
  else
    delivery.emplace_back(state, RequestFinished{state->id, state->times});
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
  const LeaderStatus status{.queued = scheduler_.queued(),
                            .running = scheduler_.running(),
                            .used_blocks = blocks_.num_blocks() - blocks_.free_blocks(),
                            .free_blocks = blocks_.free_blocks(),
                            .prefix_queries = scheduler_.prefix_queries(),
                            .prefix_hits = scheduler_.prefix_hits(),
                            .preemptions = scheduler_.preemptions(),
                            .last_step_tokens = last_step_tokens_};
  const std::lock_guard lock(mutex_);
  status_ = status;
}

}  // namespace tp
