#include "launch/generate/sequence_batch.h"

#include "launch/common/progress.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

namespace tp {
namespace {

// This number of requests fills every step, and planning stays quick.
constexpr std::size_t kMaxAtOnce = 1024;

std::vector<std::size_t> longest_first(const std::vector<NamedRequest>& requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return requests[i].request.prompt.size(); });
  return order;
}

// The completed part of the work, in tokens: long sequences, which run first, count more than short ones.
class TokenProgress {
 public:
  TokenProgress(const std::string& label, const std::vector<NamedRequest>& requests) : bar_(label) {
    for (const NamedRequest& request : requests) {
      tokens_.push_back(request.request.prompt.size());
      total_ += tokens_.back();
    }
  }

  void end(std::size_t index) { done_ += tokens_[index]; }
  void show() {
    bar_.update(static_cast<double>(done_) / static_cast<double>(std::max<std::size_t>(total_, 1)));
  }

 private:
  ProgressBar bar_;
  std::vector<std::size_t> tokens_;  // [requests] tokens of each request
  std::size_t total_ = 0;
  std::size_t done_ = 0;
};

}  // namespace

void run_sequences(Engine& engine, std::vector<NamedRequest> requests, const std::string& label,
                   const std::function<void(std::size_t, const Event&)>& on_event) {
  const std::vector<std::size_t> order = longest_first(requests);
  TokenProgress progress(label, requests);
  std::size_t submitted = 0;
  std::size_t ended = 0;
  std::exception_ptr thrown;
  const auto submit = [&](std::size_t index) {
    NamedRequest& next = requests[index];
    try {
      engine.submit(std::move(next.request), [&, index](const Event& event) {
        if (std::holds_alternative<RequestFinished>(event) ||
            std::holds_alternative<RequestRejected>(event)) {
          ++ended;
          progress.end(index);
        }
        // An exception must not leave the step while other ranks compute it.
        try {
          if (const auto* rejected = std::get_if<RequestRejected>(&event))
            throw_error<RequestError>("{}: {}", requests[index].name, rejected->error);
          if (const auto* token = std::get_if<TokenEvent>(&event); token != nullptr && !token->error.empty())
            throw_error<Error>("{}: {}", requests[index].name, token->error);
          if (!thrown) on_event(index, event);
        } catch (...) {
          if (!thrown) thrown = std::current_exception();
        }
      });
    } catch (const RequestError& error) {
      throw_error<RequestError>("{}: {}", next.name, error.what());
    }
  };
  while (ended < requests.size()) {
    while (submitted < requests.size() && submitted - ended < kMaxAtOnce) submit(order[submitted++]);
    engine.step();
    if (thrown) std::rethrow_exception(thrown);
    progress.show();
  }
}

std::vector<std::vector<float>> pooled_states(Engine& engine, std::vector<NamedRequest> requests,
                                              const std::string& label) {
  std::vector<std::vector<float>> states(requests.size());
  run_sequences(engine, std::move(requests), label, [&](std::size_t index, const Event& event) {
    if (const auto* pooled = std::get_if<PooledHidden>(&event)) states[index] = pooled->state;
  });
  return states;
}

std::vector<std::vector<float>> label_scores(Engine& engine, std::vector<NamedRequest> requests,
                                             const std::string& label) {
  for (NamedRequest& named : requests) named.request.pooling = engine.info().head_pooling;
  std::vector<std::vector<float>> scores = pooled_states(engine, std::move(requests), label);
  for (std::vector<float>& state : scores) state = engine.sequence_head(std::move(state));
  return scores;
}

}  // namespace tp
