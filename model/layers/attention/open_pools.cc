#include "model/layers/attention/open_pools.h"

#include "model/layers/linear/recurrent_runs.h"

#include <algorithm>
#include <span>

namespace tp {

const float* OpenPools::row_of(const kernels::RecurrentRun& run, std::size_t position,
                               TensorView<const float> raw) const {
  return position < run.position ? run.state + position % size_ * row_size_
                                 : raw.row(run.first_token + position - run.position);
}

std::vector<OpenPools::Closed> OpenPools::closed(TensorView<const float> raw, const StepContext& step) const {
  std::vector<Closed> pools;
  if (raw.empty()) return pools;
  const RecurrentRuns runs(step);
  for (std::size_t i = 0; i < runs.all().size(); ++i) {
    const kernels::RecurrentRun& run = runs.all()[i];
    for (std::size_t number = run.position / size_; number < (run.position + run.tokens) / size_; ++number) {
      Closed& pool = pools.emplace_back(Closed{&step.spans()[i], number});
      for (std::size_t row = 0; row < size_; ++row)
        pool.rows.push_back(row_of(run, number * size_ + row, raw));
    }
  }
  return pools;
}

void OpenPools::keep(TensorView<const float> raw, const StepContext& step) const {
  if (raw.empty()) return;
  const RecurrentRuns runs(step);
  for (const kernels::RecurrentRun& run : runs.all()) {
    const auto write = [&](std::size_t tokens, float* state) {
      const std::size_t end = run.position + tokens;
      for (std::size_t position = end - end % size_; position < end; ++position) {
        float* const to = state + position % size_ * row_size_;
        const float* const from = row_of(run, position, raw);
        if (from != to) std::copy_n(from, row_size_, to);
      }
    };
    for (const kernels::StateCopy& copy : run.copies) write(copy.tokens, copy.state);
    write(run.tokens, run.state);
  }
}

}  // namespace tp
