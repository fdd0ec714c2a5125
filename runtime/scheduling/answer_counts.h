// Counts generated tokens, and continuations by finish reason.
#pragma once

#include "tp/event.h"
#include "tp/leader_status.h"

#include <cstddef>
#include <cstdint>

namespace tp {

inline void count_end(FinishCounts& counts, FinishReason reason, std::size_t continuations = 1) {
  if (reason == FinishReason::stop) counts.stop += continuations;
  if (reason == FinishReason::length) counts.length += continuations;
  if (reason == FinishReason::cancelled) counts.cancelled += continuations;
  if (reason == FinishReason::error) counts.error += continuations;
}

// Counts for requests that run as several passes, kept separately because the leader does not count passes.
struct AnswerCounts {
  std::uint64_t generated_tokens = 0;
  FinishCounts finished;

  // `Counts`: AnswerCounts or LeaderStatus.
  template <class Counts>
  void add_to(Counts& sum) const {
    sum.generated_tokens += generated_tokens;
    sum.finished.stop += finished.stop;
    sum.finished.length += finished.length;
    sum.finished.cancelled += finished.cancelled;
    sum.finished.error += finished.error;
  }
};

}  // namespace tp
