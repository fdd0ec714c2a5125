#include "model/kernels/delta_rule.h"

#include "model/kernels/head_scan.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>

#include <omp.h>

namespace tp::kernels {
namespace {

constexpr std::size_t kMinColumns = 32;  // fewer per task cost more than they save

// Copies the keys and decays since the anchor to a state after the run's first `tokens` tokens.
class InputCopy {
 public:
  InputCopy(const DeltaRule& rule, const RecurrentRun& run, std::size_t tokens, float* state)
      : rule_(rule), shape_(rule.shape), run_(run), tokens_(tokens), state_(state) {}

  void key_head(std::size_t head) const {
    copy(shape_.keys(head), shape_.key_stride(), rule_.key, head * shape_.key_dim, shape_.key_dim);
  }
  void value_head(std::size_t head) const {
    copy(shape_.decays_of(head), shape_.decay_stride(), rule_.decay, head * shape_.decays(), shape_.decays());
  }

 private:
  // A row that is older than the run keeps its place.
  void copy(std::size_t begin, std::size_t stride, TensorView<const float> batch, std::size_t column,
            std::size_t count) const {
    const std::size_t since = (run_.position + tokens_) % kAnchorTokens;
    const std::size_t old = since > tokens_ ? since - tokens_ : 0;
    if (state_ != run_.state) std::copy_n(run_.state + begin, old * stride, state_ + begin);
    for (std::size_t i = old; i < since; ++i) {
      float* const to = state_ + begin + i * stride;
      std::copy_n(batch.row(run_.first_token + tokens_ - since + i) + column, count, to);
      std::fill(to + count, to + stride, 0.0F);
    }
  }

  const DeltaRule& rule_;
  const DeltaShape& shape_;
  const RecurrentRun& run_;
  std::size_t tokens_;
  float* state_;
};

// Calls copy(InputCopy) for all states of a run. The run's own state is the last, because it changes.
template <class Copy>
void for_states(const DeltaRule& rule, const RecurrentRun& run, const Copy& copy) {
  for (const StateCopy& state : run.copies) copy(InputCopy(rule, run, state.tokens, state.state));
  copy(InputCopy(rule, run, run.tokens, run.state));
}

void keep_inputs(const DeltaRule& rule, std::span<const RecurrentRun> runs) {
  const DeltaShape& shape = rule.shape;
  const std::size_t heads = shape.key_heads + shape.value_heads;
  for_thread_parts(runs.size() * heads, rule.key.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t head = i % heads;
      for_states(rule, runs[i / heads], [&](const InputCopy& inputs) {
        head < shape.key_heads ? inputs.key_head(head) : inputs.value_head(head - shape.key_heads);
      });
    }
  });
}

// Calls task(i, thread's scratch) for all tasks.
template <class Task>
void for_tasks(const DeltaRule& rule, std::size_t tasks, std::size_t work, const Task& task) {
  for_thread_parts(tasks, work, [&](std::size_t begin, std::size_t end) {
    const ScanScratch scratch(rule.shape, rule.scratch.row(static_cast<std::size_t>(omp_get_thread_num())));
    for (std::size_t i = begin; i < end; ++i) task(i, scratch);
  });
}

void multiply_keys_of(const DeltaRule& rule, std::span<const RecurrentRun> runs) {
  const std::size_t heads = rule.shape.key_heads;
  for_tasks(rule, runs.size() * heads, rule.key.size() * kAnchorTokens,
            [&](std::size_t i, const ScanScratch& scratch) {
              multiply_keys(rule, runs[i / heads], i % heads, scratch);
            });
}

// Columns of a task: all, unless some threads would have no head.
std::size_t task_columns(const DeltaShape& shape, std::size_t heads, std::size_t work) {
  const std::size_t threads = work < kMinParallelWork ? 1 : static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t parts = std::max<std::size_t>(1, threads / heads);
  const std::size_t columns = (shape.value_dim + parts - 1) / parts;
  return std::max(kMinColumns, padded(columns));
}

void scan_heads(const DeltaRule& rule, std::span<const RecurrentRun> runs) {
  const DeltaShape& shape = rule.shape;
  const std::size_t work = rule.out.size() * shape.key_dim * 3;
  const std::size_t columns = task_columns(shape, runs.size() * shape.value_heads, work);
  const std::size_t parts = (shape.value_dim + columns - 1) / columns;
  const std::size_t tasks = shape.value_heads * parts;
  for_tasks(rule, runs.size() * tasks, work, [&](std::size_t i, const ScanScratch& scratch) {
    const std::size_t task = i % tasks;
    const std::size_t first = task % parts * columns;
    const Stretch part{first, std::min(first + columns, shape.value_dim)};
    HeadScan(rule, runs[i / tasks], task / parts, part, scratch).run();
  });
}

}  // namespace

std::size_t delta_scratch(const DeltaShape& shape) { return ScanScratch(shape, nullptr).floats; }

std::size_t delta_dots(const DeltaShape& shape, bool corrects) {
  return shape.decays_rows ? 0 : shape.key_heads * (corrects ? 2 : 1) * kAnchorTokens;
}

void delta_rule(const DeltaRule& rule, std::span<const RecurrentRun> runs) {
  assert(rule.decay.columns() == rule.shape.value_heads * rule.shape.decays());
  if (rule.out.empty() || runs.empty()) return;
  if (!rule.shape.decays_rows) multiply_keys_of(rule, runs);
  scan_heads(rule, runs);
  keep_inputs(rule, runs);
}

}  // namespace tp::kernels
