#include "model/layers/attention/open_pools.h"

#include "model/layers/linear/recurrent_runs.h"

#include <algorithm>

namespace tp {

void RecentRows::keep(TensorView<const float> raw, const StepContext& step,
                      const std::function<std::size_t(std::size_t tokens)>& first_after) const {
  if (raw.empty()) return;
  const RecurrentRuns runs(step, offset_);
  for (const kernels::RecurrentRun& run : runs.all()) {
    const auto write = [&](std::size_t tokens, float* state) {
      const std::size_t end = run.position + tokens;
      for (std::size_t position = first_after(end); position < end; ++position) {
        float* const to = state + position % modulus_ * row_size_;
        const float* const from = row_of(run, position, raw);
        if (from != to) std::copy_n(from, row_size_, to);
      }
    };
    for (const kernels::StateCopy& copy : run.copies) write(copy.tokens, copy.state);
    write(run.tokens, run.state);
  }
}

std::vector<OpenPools::Closed> OpenPools::closed(TensorView<const float> raw, const StepContext& step) const {
  std::vector<Closed> pools;
  if (raw.empty()) return pools;
  const RecurrentRuns runs(step, rows_.offset());
  for (std::size_t i = 0; i < runs.all().size(); ++i) {
    const kernels::RecurrentRun& run = runs.all()[i];
    const auto rows_of = [&](std::size_t number) {
      std::vector<const float*> rows;
      for (std::size_t row = 0; row < size_; ++row)
        rows.push_back(rows_.row_of(run, number * size_ + row, raw));
      return rows;
    };
    for (std::size_t number = run.position / size_; number < (run.position + run.tokens) / size_; ++number) {
      Closed& pool = pools.emplace_back(Closed{&step.spans()[i], number, rows_of(number)});
      if (overlap_ && number > 0) pool.rows_before = rows_of(number - 1);
    }
  }
  return pools;
}

void OpenPools::keep(TensorView<const float> raw, const StepContext& step) const {
  rows_.keep(raw, step, [&](std::size_t tokens) {
    const std::size_t open = tokens - tokens % size_;
    return overlap_ && open > 0 ? open - size_ : open;
  });
}

}  // namespace tp
