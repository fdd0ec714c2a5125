// A source of drafts whose passes run on the fake worker.
#pragma once

#include "runtime/speculation/model_source.h"
#include "tests/runtime/scheduling/fake_worker.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tp::test {

using Tokens = std::vector<TokenId>;

class Drafting {
 public:
  explicit Drafting(DraftModelLimits limits)
      : worker_(limits.cache.block_size, limits.cache.windows),
        source_(limits, [this](Forward forward) { return run(std::move(forward)); }) {}

  Draft draft(std::uint64_t sequence, const Tokens& tokens, std::size_t max) {
    const DraftQuery query{.sequence = sequence, .tokens = tokens, .prompt_tokens = 1, .max_tokens = max};
    return source_.draft(std::span(&query, 1)).front();
  }
  ModelSource& source() { return source_; }
  const FakeWorker& worker() const { return worker_; }

  std::vector<Forward> passes;
  std::function<void()> after_pass = [] {};

 private:
  std::vector<Result> run(Forward forward) {
    passes.push_back(forward);
    std::vector<Result> results = worker_.run(forward).results;
    after_pass();
    return results;
  }

  FakeWorker worker_;
  ModelSource source_;
};

inline DraftModelLimits limits_of(std::size_t blocks = 100, CacheWindows windows = {std::nullopt}) {
  return {.vocab_size = 97,
          .max_length = 200,
          .step_tokens = 16,
          .cache_blocks = blocks,
          .cache = {.block_size = 4, .chunk = 16, .windows = std::move(windows)}};
}

inline Tokens joined(Tokens first, const Tokens& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline DraftModelLimits limits_of_layer() {
  DraftModelLimits limits = limits_of();
  limits.reads_states = true;
  return limits;
}

}  // namespace tp::test
