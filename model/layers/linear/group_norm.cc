#include "model/layers/linear/group_norm.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/projection_norm.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp {

GroupNorm::GroupNorm(WeightLoader& loader, const std::string& layer, const NormSpec& spec,
                     const GroupedHeads& all, Range own, const std::vector<std::size_t>& ends)
    : heads_(all), eps_(spec.eps), divides_groups_(std::ranges::any_of(ends, [&](std::size_t end) {
        return end % all.heads_per_group() != 0;
      })) {
  require<ConfigError>(
      spec.kind == NormSpec::Kind::rms,
      "cannot load {}: expected an RMS norm of groups of heads, found a layer norm; check the "
      "family's spec",
      layer);
  gain_ = loader.part_of_vector(tensor_names::weight_of(layer), all.heads * all.head_dim,
                                {own.begin * all.head_dim, own.end * all.head_dim}, "heads x head_dim");
  for (float& gain : gain_) gain += spec.gain_offset;
  for (std::size_t head = own.begin; head < own.end;) {
    const std::size_t group = head / all.heads_per_group();
    const std::size_t end = std::min(own.end, (group + 1) * all.heads_per_group());
    parts_.push_back({group, {(head - own.begin) * all.head_dim, (end - own.begin) * all.head_dim}});
    head = end;
  }
}

// Sums are exact and rounded once, so it makes no difference to their bits whether ranks exchange them.
TensorView<float> GroupNorm::sums_of(TensorView<const float> x, const StepContext& step) const {
  const TensorView<double> squares = step.workspace.take_doubles(x.rows(), heads_.groups);
  const TensorView<float> sums = step.workspace.take(x.rows(), heads_.groups);
  kernels::clear(squares);
  for (const Part& part : parts_)
    kernels::sum_squares(x.columns_from(part.columns.begin, part.columns.size()), heads_.head_dim,
                         squares.columns_from(part.group, 1));
  if (!divides_groups_) {
    for (std::size_t row = 0; row < sums.rows() && !sums.empty(); ++row)
      std::ranges::transform(std::span(squares.row(row), heads_.groups), sums.row(row),
                             [](double sum) { return static_cast<float>(sum); });
    return sums;
  }
  sum_or_count(step, PartialSum(squares, kernels::kExactSquaresBelow), sums);
  return sums;
}

void GroupNorm::operator()(TensorView<float> x, const StepContext& step) const {
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> sums = sums_of(x, step);
  const std::size_t size = heads_.heads_per_group() * heads_.head_dim;
  for (const Part& part : parts_)
    kernels::scale_to_norm(x.columns_from(part.columns.begin, part.columns.size()),
                           sums.columns_from(part.group, 1), size, eps_,
                           std::span(gain_).subspan(part.columns.begin, part.columns.size()));
}

}  // namespace tp
