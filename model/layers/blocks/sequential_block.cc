#include "model/layers/blocks/sequential_block.h"

#include "model/kernels/elementwise.h"

#include <algorithm>
#include <numbers>

namespace tp {
namespace {

std::optional<ParallelExperts> load_parallel_experts(WeightLoader& loader, const BlockSpec& spec,
                                                     std::size_t hidden_size, const BlockNames& names) {
  if (!spec.parallel_experts) return std::nullopt;
  return ParallelExperts(loader, *spec.parallel_experts, hidden_size, names);
}

std::optional<Mamba> load_parallel_mixer(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                         const BlockNames& names) {
  if (!spec.parallel_mixer) return std::nullopt;
  return Mamba(loader, *spec.parallel_mixer, hidden_size, names);
}

std::optional<Laurel> load_laurel(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                  const BlockNames& names) {
  if (!spec.laurel) return std::nullopt;
  return Laurel(loader, *spec.laurel, hidden_size, names.laurel);
}

std::optional<LayerInput> load_layer_input(WeightLoader& loader, const BlockSpec& spec,
                                           std::size_t hidden_size, const BlockNames& names) {
  if (!spec.layer_input) return std::nullopt;
  return LayerInput(loader, *spec.layer_input, hidden_size, names.layer_input);
}

// One factor, or nothing.
std::vector<float> load_factor(WeightLoader& loader, bool exists, const std::string& name) {
  return exists ? loader.whole_vector(name, 1, "one factor per layer") : std::vector<float>();
}

}  // namespace

SequentialBlock::SequentialBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                                 const BlockNames& names)
    : input_norm_(load_if_present(loader, names.input_norm, hidden_size, spec.input_norm)),
      joins_layer_input_(spec.joins_layer_input),
      attention_(loader, spec.attention, hidden_size, names),
      parallel_mixer_(load_parallel_mixer(loader, spec, hidden_size, names)),
      laurel_(load_laurel(loader, spec, hidden_size, names)),
      post_attention_norm_(
          load_if_present(loader, names.post_attention_norm, hidden_size, spec.post_attention_norm)),
      cross_attention_norm_(
          load_if_present(loader, names.cross_attention.norm, hidden_size, spec.cross_attention_norm)),
      cross_attention_(load_cross_attention(loader, spec, hidden_size, names)),
      pre_feed_forward_norm_(
          load_if_present(loader, names.pre_feed_forward_norm, hidden_size, spec.pre_feed_forward_norm)),
      feed_forward_(loader, spec.feed_forward, hidden_size, names),
      post_feed_forward_norm_(
          load_if_present(loader, names.post_feed_forward_norm, hidden_size, spec.post_feed_forward_norm)),
      parallel_experts_(load_parallel_experts(loader, spec, hidden_size, names)),
      layer_input_(load_layer_input(loader, spec, hidden_size, names)),
      output_scale_(load_factor(loader, spec.output_scale, names.output_scale)),
      canvas_output_scale_(load_factor(loader, spec.canvas_output_scale, names.canvas_output_scale)),
      residual_scale_(spec.residual_scale) {}

PartialSum SequentialBlock::attend(TensorView<const float> x, const StepContext& step,
                                   const kernels::PagedCache& cache) const {
  PartialSum sum = attention_(x, step, cache);
  if (parallel_mixer_) {
    const TraceSpan span(step.tracer, Activity::attention, x.rows());
    StepContext of_mixer = step;
    of_mixer.states = step.states.after(attention_.state_floats());
    sum += (*parallel_mixer_)(x, of_mixer);
  }
  return sum;
}

TensorView<const float> SequentialBlock::attention_input(const Residual& x, const StepContext& step) const {
  const TensorView<const float> normed = x.normed(input_norm_);
  if (!joins_layer_input_) return normed;
  const TensorView<const float> own = step.layer_input;
  const TensorView<float> both = step.workspace.take(normed.rows(), own.columns() + normed.columns());
  for (std::size_t row = 0; row < both.rows() && !both.empty(); ++row) {
    float* const end = std::copy_n(own.row(row), own.columns(), both.row(row));
    std::copy_n(normed.row(row), normed.columns(), end);
  }
  return both;
}

void SequentialBlock::add_attention(Residual& x, const StepContext& step,
                                    const kernels::PagedCache& cache) const {
  const TensorView<const float> input = attention_input(x, step);
  if (!laurel_) return x.add_all_reduced(attend(input, step, cache), post_attention_norm_, residual_scale_);
  const TensorView<float> addend = (*laurel_)(input, step);
  kernels::add(x.reduced(attend(input, step, cache), post_attention_norm_), addend);
  x.add(addend, std::nullopt);
  x.scale(1.0F / std::numbers::sqrt2_v<float>);
}

void SequentialBlock::operator()(Residual& x, const StepContext& step,
                                 const kernels::PagedCache& cache) const {
  if (attention_.exists()) add_attention(x, step, cache);
  if (cross_attention_)
    x.add_all_reduced((*cross_attention_)(x.normed(cross_attention_norm_), step, cache), std::nullopt,
                      residual_scale_);
  if (feed_forward_.exists()) add_feed_forward(x, step);
  if (layer_input_) x.add((*layer_input_)(x.rows(), step), layer_input_->norm());
  scale_output(x, step);
}

void SequentialBlock::scale_output(Residual& x, const StepContext& step) const {
  if (output_scale_.empty()) return;
  const std::vector<std::uint8_t>& is_canvas = step.batch.is_canvas;
  if (canvas_output_scale_.empty() || is_canvas.empty()) return x.scale(output_scale_.front());
  for (std::size_t row = 0; row < is_canvas.size(); ++row)
    x.scale_row(row, (is_canvas[row] != 0 ? canvas_output_scale_ : output_scale_).front());
}

void SequentialBlock::add_feed_forward(Residual& x, const StepContext& step) const {
  StepContext of_half = step;
  of_half.states = step.states.after(attention_.state_floats());
  PartialSum mlp = feed_forward_(x.normed(pre_feed_forward_norm_), of_half);
  if (parallel_experts_)
    x.add(parallel_experts_->with(std::move(mlp), x, step), post_feed_forward_norm_, residual_scale_);
  else
    x.add_all_reduced(std::move(mlp), post_feed_forward_norm_, residual_scale_);
}

}  // namespace tp
