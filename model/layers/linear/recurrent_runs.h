// A batch's sequences, and their states in one recurrent layer.
#pragma once

#include "model/kernels/delta_rule.h"
#include "model/kernels/recurrent_run.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"

#include <cassert>
#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// `offset`: floats to skip at the start of each state.
class RecurrentRuns {
 public:
  explicit RecurrentRuns(const StepContext& step, std::size_t offset = 0) {
    const std::span<const kernels::AttentionSpan> spans = step.spans();
    assert(step.batch.states.size() == spans.size());
    copies_.resize(spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const StateSpan& states = step.batch.states[i];
      for (const StateSpan::Save& save : states.saves)
        copies_[i].push_back({save.tokens, step.states.at(save.slot) + offset});
      runs_.push_back({.first_token = spans[i].first_token,
                       .tokens = spans[i].tokens,
                       .position = spans[i].start_position,
                       .state = step.states.at(states.slot) + offset,
                       .copies = copies_[i]});
    }
  }

  std::span<const kernels::RecurrentRun> all() const { return runs_; }

 private:
  std::vector<std::vector<kernels::StateCopy>> copies_;
  std::vector<kernels::RecurrentRun> runs_;
};

// Rows that a state keeps of the tokens since the anchor.
inline StatePart::Rows rows_since_anchor(std::size_t begin, std::size_t stride) {
  return {begin, kernels::kAnchorTokens - 1, stride, stride, kernels::kAnchorTokens};
}

// A head's floats in a state whose recurrence begins at float `offset`.
inline std::vector<StatePart::Rows> rows_of_key_head(const kernels::DeltaShape& shape, std::size_t offset,
                                                     std::size_t head) {
  return {rows_since_anchor(offset + shape.keys(head), shape.key_stride())};
}
inline std::vector<StatePart::Rows> rows_of_value_head(const kernels::DeltaShape& shape, std::size_t offset,
                                                       std::size_t head) {
  return {{offset + shape.matrix(head), 1, 0, shape.matrix_floats()},
          rows_since_anchor(offset + shape.decays_of(head), shape.decay_stride()),
          rows_since_anchor(offset + shape.additions(head), shape.value_stride())};
}

}  // namespace tp
