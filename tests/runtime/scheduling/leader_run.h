// A leader whose steps run on a fake worker, and the events that its requests' sinks received.
#pragma once

#include "runtime/scheduling/leader.h"
#include "tests/runtime/scheduling/fake_worker.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

class LeaderRun {
 public:
  static constexpr std::size_t kVocabulary = 200;
  static constexpr TokenId kEos = 199;  // the fake worker never generates it

  // The events that a request's sink received.
  struct Received {
    std::map<int, std::vector<TokenId>> tokens;  // key: sample
    std::map<int, std::string> texts;
    std::map<int, FinishReason> reasons;
    std::map<int, std::string> errors;
    std::variant<std::monostate, TokenId, std::string> matched_stop;  // set by the last token
    std::vector<double> logprobs;
    std::vector<float> logits;
    std::size_t first_logprob = 0;
    std::vector<PrefillProgress> progress;
    std::size_t cached_tokens = 0;
    int ends = 0;  // number of terminal events
    std::optional<Event> end;

    template <class T>
    bool ended_with() const {
      return ends == 1 && std::holds_alternative<T>(*end);
    }
  };

  // `windows`: windows of the groups of layers. `states`: slots of the state cache. `speculator`: null for
  // steps without draft tokens.
  LeaderRun(std::size_t num_blocks, std::size_t block_size, LeaderOptions options,
            const CacheWindows& windows = {std::nullopt}, std::size_t states = 0,
            std::unique_ptr<Speculator> speculator = nullptr, const Tokenizer* tokenizer = nullptr)
      : options_(with_model(std::move(options), num_blocks, block_size, windows, states)),
        worker(block_size, windows),
        leader(options_, tokenizer, std::move(speculator)) {}

  RequestId add(std::vector<TokenId> prompt, int max_tokens, int samples = 1) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.n = samples;
    request.sampling.temperature = 0.0F;
    return add(std::move(request));
  }

  RequestId add(Request request) {
    const RequestId id = leader.submit(std::move(request), [this](const Event& event) { take(event); });
    received[id];
    return id;
  }

  // Plans a step and runs it on the worker. Unless the step is empty, it is then in flight.
  Forward plan() {
    PlannedStep step = leader.plan();
    check_limits(step.forward);
    leader.check_invariants();
    if (step.chunks.empty()) return {};
    Outputs outputs = worker.run(step.forward);
    computed_tokens += step.forward.tokens.size();
    Forward forward = step.forward;
    in_flight_.emplace_back(std::move(step), std::move(outputs));
    ++steps;
    return forward;
  }

  // Finishes the oldest step in flight. `seconds_of` says how long it took.
  void finish_step() {
    ASSERT_FALSE(in_flight_.empty());
    const auto& [step, outputs] = in_flight_.front();
    leader.apply_results(step, outputs, seconds_of ? seconds_of(step) : 0.0);
    in_flight_.pop_front();
    leader.check_invariants();
    max_blocks = std::max(max_blocks, leader.status().used_blocks);
  }

  Forward step() {
    Forward forward = plan();
    if (!in_flight_.empty()) finish_step();
    return forward;
  }

  void run() {
    while (leader.has_work()) {
      ASSERT_LT(steps, 1000000U) << "it does not come to an end";
      step();
    }
  }

  std::size_t in_flight() const { return in_flight_.size(); }

 private:
  static LeaderOptions with_model(LeaderOptions options, std::size_t num_blocks, std::size_t block_size,
                                  const CacheWindows& windows, std::size_t states) {
    options.engine.model = "model";
    options.engine.max_length = 1000000;
    options.vocab_size = kVocabulary;
    options.eos_token_ids = {kEos};
    options.cache_blocks = num_blocks;
    options.cache = {.block_size = block_size,
                     .chunk = options.engine.prefill_chunk,
                     .windows = windows,
                     .states = states};
    return options;
  }

  LeaderOptions options_;
  std::deque<std::pair<PlannedStep, Outputs>> in_flight_;

 public:
  FakeWorker worker;
  Leader leader;
  std::map<RequestId, Received> received;
  std::function<double(const PlannedStep&)>
      seconds_of;  // made-up durations of steps; without it, durations are unknown
  std::size_t steps = 0;
  std::size_t max_blocks = 0;       // largest number of owned blocks after a step
  std::size_t computed_tokens = 0;  // sum over all steps

 private:
  void check_limits(const Forward& forward) const {
    EXPECT_LE(forward.tokens.size(), options_.step_tokens);
    EXPECT_LE(forward.chunks.size(), options_.engine.max_sequences);
    for (const SequenceChunk& chunk : forward.chunks) EXPECT_LE(chunk.tokens, options_.engine.prefill_chunk);
  }

  void take(const Event& event) {
    if (const auto* token = std::get_if<TokenEvent>(&event)) return take_token(*token);
    if (const auto* some = std::get_if<PromptLogprobs>(&event)) {
      Received& one = received[some->request];
      if (one.logprobs.empty()) one.first_logprob = some->first;
      EXPECT_EQ(some->first, one.first_logprob + one.logprobs.size()) << "out of order";
      one.logprobs.insert(one.logprobs.end(), some->logprobs.begin(), some->logprobs.end());
    } else if (const auto* progress = std::get_if<PrefillProgress>(&event)) {
      EXPECT_EQ(received[progress->request].tokens.count(progress->sample), 0U) << "after the prompt";
      received[progress->request].progress.push_back(*progress);
    } else if (const auto* rows = std::get_if<PromptLogits>(&event)) {
      Received& one = received[rows->request];
      EXPECT_EQ(rows->first, one.logits.size() / rows->vocab_size) << "out of order";
      one.logits.insert(one.logits.end(), rows->logits.begin(), rows->logits.end());
    } else {
      std::visit(
          [&](const auto& end) {
            Received& one = received[end.request];
            one.end = event;
            EXPECT_EQ(++one.ends, 1) << "request " << end.request << " ends more than once";
          },
          event);
    }
  }

  void take_token(const TokenEvent& event) {
    Received& one = received[event.request];
    EXPECT_EQ(one.ends, 0) << "an event after the end";
    EXPECT_EQ(one.reasons.count(event.sample), 0U) << "a token after the last";
    one.cached_tokens = event.cached_tokens;
    one.matched_stop = event.matched_stop;
    one.texts[event.sample] += event.text;
    if (event.error.empty())
      one.tokens[event.sample].push_back(event.token);
    else
      one.errors[event.sample] = event.error;
    if (event.finish_reason != FinishReason::none) one.reasons[event.sample] = event.finish_reason;
  }
};

// A leader of passes, and a worker that proposes the same token at every position.
class PassRun {
 public:
  explicit PassRun(LeaderOptions options) : leader(std::move(options), nullptr) {}

  RequestId add_pass(Request request, const Pass& pass) {
    request.max_tokens = 0;
    request.proposal = ProposalSettings{};
    const auto note = [this](const Event& event) {
      if (const auto* end = std::get_if<RequestFinished>(&event)) finished.push_back(end->request);
      if (const auto* end = std::get_if<RequestCancelled>(&event)) cancelled.push_back(end->request);
    };
    return leader.submit_pass(std::move(request), note, pass);
  }

  Forward step() {
    const PlannedStep step = leader.plan();
    leader.check_invariants();
    if (step.chunks.empty()) return {};
    Outputs outputs;
    for (const Output& output : step.forward.outputs)
      outputs.results.emplace_back(std::vector<Proposal>(output.rows.count, Proposal{7, 0.5}));
    leader.apply_results(step, outputs);
    leader.check_invariants();
    return step.forward;
  }

  Leader leader;
  std::vector<RequestId> finished;
  std::vector<RequestId> cancelled;
};

// Returns the token ids first, first + 1, ...
inline std::vector<TokenId> prompt_of(std::size_t size, TokenId first = 0) {
  std::vector<TokenId> prompt(size);
  for (std::size_t i = 0; i < size; ++i) prompt[i] = (first + static_cast<TokenId>(i)) % 97;
  return prompt;
}

inline LeaderOptions limits_of(std::size_t chunk, std::size_t sequences) {
  return {.engine = {.prefill_chunk = chunk, .max_sequences = sequences},
          .step_tokens = std::max(chunk, sequences)};
}

// A limit of 0 means none.
inline LeaderOptions with_queue(LeaderOptions options, std::size_t requests, std::size_t prompt_tokens = 0) {
  options.engine.max_queue = requests;
  options.engine.max_queue_tokens = prompt_tokens;
  return options;
}

// Returns each sequence's number of tokens in a step.
inline std::vector<std::size_t> chunk_sizes(const Forward& forward) {
  std::vector<std::size_t> sizes;
  for (const SequenceChunk& chunk : forward.chunks) sizes.push_back(chunk.tokens);
  return sizes;
}

inline void expect_all_free(const LeaderRun& run) {
  EXPECT_EQ(run.leader.status().used_blocks, 0U);
  EXPECT_EQ(run.leader.status().running, 0U);
  EXPECT_EQ(run.leader.status().queued, 0U);
}

}  // namespace tp::test
