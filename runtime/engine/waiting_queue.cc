#include "runtime/engine/waiting_queue.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tp {

void WaitingQueue::add(const std::shared_ptr<RequestState>& state) {
  auto place = sequences_.end();
  while (place != sequences_.begin() && (*std::prev(place))->priority() > state->request.priority) --place;
  sequences_.insert(place, make_sample(state));
  size_ += static_cast<std::size_t>(state->request.n);
}

void WaitingQueue::put_back(const std::shared_ptr<Sequence>& sequence) {
  const auto place = std::ranges::find_if(
      sequences_, [&](const auto& other) { return other->priority() >= sequence->priority(); });
  sequences_.insert(place, sequence);
  ++size_;
}

WaitingQueue::Place WaitingQueue::dequeue(Place place) {
  const std::shared_ptr<Sequence> sequence = *place;
  --size_;
  leave(*sequence->state);
  const auto next = sequences_.erase(place);
  return sequence->is_last_begun() ? sequences_.insert(next, make_sample(sequence->state)) : next;
}

void WaitingQueue::leave(RequestState& state) {
  if (std::exchange(state.has_left_queue, true)) return;
  ++left_.requests;
  left_.prompt_tokens += state.request.prompt.size();
}

void WaitingQueue::remove_finished(std::vector<std::shared_ptr<Sequence>>& removed) {
  size_ -= sequences_.remove_if([&](const auto& sequence) {
    if (sequence->finished()) removed.push_back(sequence);
    return sequence->finished();
  });
}

std::size_t WaitingQueue::drop_samples(RequestState& state) {
  const int dropped = std::exchange(state.not_begun, 0);
  state.open_samples -= dropped;
  size_ -= static_cast<std::size_t>(dropped);
  return static_cast<std::size_t>(dropped);
}

// Creates the request's next sample.
std::shared_ptr<Sequence> WaitingQueue::make_sample(const std::shared_ptr<RequestState>& state) {
  auto sequence = std::make_shared<Sequence>();
  sequence->id = next_id_++;
  sequence->sample = state->request.n - state->not_begun;
  --state->not_begun;
  sequence->asked_from = state->first_asked();
  if (state->request.pooling) sequence->pooler.emplace(*state->request.pooling);
  sequence->state = state;
  return sequence;
}

void WaitingQueue::check_invariants() const {
  std::size_t size = 0;
  int last_priority = sequences_.empty() ? 0 : sequences_.front()->priority();
  for (const std::shared_ptr<Sequence>& sequence : sequences_) {
    size += 1 + (sequence->is_last_begun() ? static_cast<std::size_t>(sequence->state->not_begun) : 0);
    require<std::logic_error>(sequence->priority() >= last_priority,
                              "sequence {}: it waits behind less urgent ones", sequence->id);
    last_priority = sequence->priority();
  }
  require<std::logic_error>(size == size_, "{} sequences wait, {} are counted", size, size_);
}

}  // namespace tp
