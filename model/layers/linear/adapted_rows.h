// Loops over adapters, and over the rows of a step that they change.
#pragma once

#include "model/kernels/matmul.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/weight_loader.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

namespace tp {

// Rows that are computed at once, which limits the memory for B (A x).
inline constexpr std::size_t kAdaptedRows = 128;

// Calls use(adapter's index + 1, adapter) for each adapter.
template <class Use>
void for_adapters(const WeightLoader& loader, const Use& use) {
  const Adapters* const adapters = loader.adapters();
  for (std::size_t index = 0; adapters != nullptr && index < adapters->all().size(); ++index)
    use(index + 1, adapters->all()[index]);
}

// Calls use(part, rows) for a layer's parts, which belong to adapters (Part::adapter: index + 1), and at most
// kAdaptedRows of the rows that have these adapters. In a shape-only step, calls it for as many rows as may
// be computed at once, and for few rows, because their products take other paths. `rows`: rows of the layer's
// input. `has_memory`: whether the step is more than shapes; it must then say which rows have adapters.
template <class Part, class Use>
void for_adapted_rows(const std::vector<Part>& parts, const StepContext& step, std::size_t rows,
                      bool has_memory, const Use& use) {
  if (parts.empty() || rows == 0) return;
  require<std::logic_error>(step.adapters != nullptr || !has_memory,
                            "a step does not say which rows have adapters");
  if (step.adapters == nullptr) {
    std::vector<std::size_t> some(std::min(rows, kAdaptedRows));
    std::iota(some.begin(), some.end(), std::size_t{0});
    for (const Part& part : parts) {
      use(part, std::span<const std::size_t>(some));
      for (std::size_t few = 1; few <= std::min(some.size(), kernels::kMaxFewTokens); ++few)
        use(part, std::span<const std::size_t>(some).first(few));
    }
    return;
  }
  require<std::logic_error>(step.adapters->empty() || step.adapters->rows() == rows,
                            "a layer with adapters has {} rows, and the adapters of {} rows are known", rows,
                            step.adapters->rows());
  for (const AdapterRows::Group& group : step.adapters->groups()) {
    const auto part = std::ranges::find(parts, group.adapter, &Part::adapter);
    const std::span<const std::size_t> own(group.rows);
    for (std::size_t begin = 0; part != parts.end() && begin < own.size(); begin += kAdaptedRows)
      use(*part, own.subspan(begin, std::min(kAdaptedRows, own.size() - begin)));
  }
}

}  // namespace tp
