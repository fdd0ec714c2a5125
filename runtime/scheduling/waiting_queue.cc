#include "runtime/scheduling/waiting_queue.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

namespace tp {
namespace {

// Sort key of the queue. Sequences for which earlier passes have left something come first, because only they
// can use it, and other sequences may be waiting for its room.
std::pair<bool, int> rank_of(const std::shared_ptr<Sequence>& sequence) {
  const bool continues = sequence->has_blocks_waiting() || sequence->state->pass.canvas.has_room;
  return {!continues, sequence->priority()};
}

}  // namespace

std::vector<std::shared_ptr<Sequence>> WaitingQueue::add(const std::shared_ptr<RequestState>& state) {
  std::vector<std::shared_ptr<Sequence>> created = {make_sample(state)};
  while (!state->request.generated.empty() && state->not_begun > 0) created.push_back(make_sample(state));
  auto place = sequences_.end();
  while (place != sequences_.begin() && rank_of(*std::prev(place)) > rank_of(created.front())) --place;
  sequences_.insert(place, created.begin(), created.end());
  size_ += static_cast<std::size_t>(state->request.n);
  return created;
}

void WaitingQueue::put_back(const std::shared_ptr<Sequence>& sequence) {
  const auto place = std::ranges::find_if(
      sequences_, [&](const auto& other) { return rank_of(other) >= rank_of(sequence); });
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

std::shared_ptr<Sequence> WaitingQueue::make_sample(const std::shared_ptr<RequestState>& state) {
  auto sequence = std::make_shared<Sequence>();
  sequence->id = next_id_++;
  sequence->sample = state->request.n - state->not_begun;
  --state->not_begun;
  sequence->asked_from = state->first_asked();
  if (state->request.asks_for_state()) sequence->pooler.emplace(state->request.pooling);
  sequence->state = state;
  return sequence;
}

void WaitingQueue::check_invariants() const {
  std::size_t size = 0;
  std::optional<std::pair<bool, int>> last_rank;
  for (const std::shared_ptr<Sequence>& sequence : sequences_) {
    size += 1 + (sequence->is_last_begun() ? static_cast<std::size_t>(sequence->state->not_begun) : 0);
    require<std::logic_error>(!last_rank || rank_of(sequence) >= *last_rank,
                              "sequence {}: it waits behind less urgent ones", sequence->id);
    last_rank = rank_of(sequence);
  }
  require<std::logic_error>(size == size_, "{} sequences wait, {} are counted", size, size_);
}

}  // namespace tp
