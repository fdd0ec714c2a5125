#include "model/layers/attention/grouped_output.h"

#include "tp/internal/threads.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace tp {
namespace {

Range groups_of(const CompressedAttentionSpec& spec, Range heads) {
  const std::size_t size = spec.num_attention_heads / spec.output_groups;
  return {heads.begin / size, (heads.end + size - 1) / size};
}

HeadwiseLinear load_groups(WeightLoader& loader, const CompressedAttentionSpec& spec, const std::string& name,
                           Range groups) {
  const std::size_t group_columns = spec.num_attention_heads / spec.output_groups * spec.head_dim;
  const StoredLayer stored{name,
                           {spec.output_groups * spec.output_rank, group_columns},
                           "o_groups x o_lora_rank",
                           "num_attention_heads / o_groups x head_dim"};
  std::vector<Range> parts;
  std::vector<LocalWeight> weights;
  for (std::size_t group = groups.begin; group < groups.end; ++group) {
    parts.push_back({group * spec.output_rank, (group + 1) * spec.output_rank});
    weights.push_back(loader.rows_of_weight({stored, parts.back()}));
  }
  return HeadwiseLinear(std::move(weights), HeadwiseAdapters(loader, stored, parts, false));
}

}  // namespace

GroupedOutput::GroupedOutput(WeightLoader& loader, const CompressedAttentionSpec& spec,
                             std::size_t hidden_size, const CompressedAttentionNames& names, Range heads)
    : head_dim_(spec.head_dim),
      group_size_(spec.num_attention_heads / spec.output_groups),
      rank_(spec.output_rank),
      heads_(heads),
      groups_(groups_of(spec, heads)),
      has_same_bits_(loader.has_same_bits()),
      a_proj_(load_groups(loader, spec, names.o_a_proj, groups_)),
      b_proj_(loader,
              {names.o_b_proj,
               {hidden_size, spec.output_groups * spec.output_rank},
               "hidden_size",
               "o_groups x o_lora_rank"},
              {groups_.begin * rank_, groups_.end * rank_}, false, has_same_bits_ ? rank_ : 0) {}

void GroupedOutput::place_heads(TensorView<const float> x, std::size_t only, TensorView<float> out) const {
  if (out.empty()) return;
  const std::size_t first = groups_.begin * group_size_;
  const std::size_t places = groups_.size() * group_size_;
  for_thread_parts(out.rows(), out.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      for (std::size_t place = 0; place < places; ++place) {
        const std::size_t head = first + place;
        float* const to = out.row(token) + place * head_dim_;
        if (heads_.contains(head) && (only == kAll || place % group_size_ == only))
          std::copy_n(x.row(token) + (head - heads_.begin) * head_dim_, head_dim_, to);
        else
          std::fill_n(to, head_dim_, 0.0F);
      }
    }
  });
}

PartialSum GroupedOutput::operator()(TensorView<const float> x, const StepContext& step) const {
  const std::size_t columns = groups_.size() * group_size_ * head_dim_;
  const TensorView<float> projected = step.workspace.take(x.rows(), groups_.size() * rank_);
  if (!has_same_bits_) {
    TensorView<const float> whole = x;
    if (columns != x.columns()) {
      const TensorView<float> placed = step.workspace.take(x.rows(), columns);
      place_heads(x, kAll, placed);
      whole = placed;
    }
    a_proj_(whole, projected, step);
    return b_proj_(projected, step);
  }
  const TensorView<float> placed = step.workspace.take(x.rows(), columns);
  PartialSum sum = b_proj_.nothing_but({}, x.rows(), step);
  std::vector<std::size_t> rows(x.rows());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  for (std::size_t head = 0; head < group_size_; ++head) {
    const Workspace::Frame frame(step.workspace);
    place_heads(x, head, placed);
    a_proj_(placed, projected, step);
    sum.add_to_rows(b_proj_(projected, step), rows);
  }
  return sum;
}

}  // namespace tp
