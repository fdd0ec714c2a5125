#include "model/layers/attention/query_scaling.h"

#include "model/kernels/experts.h"

#include <cmath>
#include <vector>

namespace tp {

void scale_queries(const std::optional<QueryScalingSpec>& spec, std::span<const std::size_t> positions,
                   TensorView<float> query) {
  if (!spec) return;
  std::vector<float> factors;
  factors.reserve(positions.size());
  for (const std::size_t position : positions) {
    const double steps = std::floor(static_cast<double>(position + spec->first) / spec->step);
    factors.push_back(static_cast<float>(1.0 + spec->factor * std::log1p(steps)));
  }
  kernels::scale_rows(factors, query);
}

}  // namespace tp
