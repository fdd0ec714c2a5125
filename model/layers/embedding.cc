#include "model/layers/embedding.h"

#include "model/kernels/elementwise.h"

#include <algorithm>
#include <cmath>

namespace tp {

VocabShard::VocabShard(WeightLoader& loader, const std::string& layer, std::size_t rows,
                       std::size_t hidden_size, const std::string& reason)
    : tokens_(shard_columns(rows, loader.tp())),
      weight_(loader.rows_of_vocabulary({{layer, {rows, hidden_size}, reason, "hidden_size"}, tokens_})) {}

bool VocabShard::copy_row(std::size_t id, float* out) const {
  if (!tokens_.contains(id)) return false;
  weight_.unpack_row(id - tokens_.begin, out);
  return true;
}

namespace {

// Adds sines of the position to the first half of a vector and cosines to the second half, as Marian does.
// Source: Vaswani et al., Attention Is All You Need, 2017, where sines and cosines alternate.
void add_sinusoids(std::size_t position, float* out, std::size_t size) {
  const std::size_t sines = (size + 1) / 2;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t pair = i < sines ? i : i - sines;
    const double exponent = 2.0 * static_cast<double>(pair) / static_cast<double>(size);
    const double angle = static_cast<double>(position) / std::pow(10000.0, exponent);
    out[i] += static_cast<float>(i < sines ? std::sin(angle) : std::cos(angle));
  }
}

}  // namespace

PartialSum VocabParallelEmbedding::operator()(const StepContext& step) const {
  const std::vector<TokenId>& tokens = step.batch.tokens;
  const TensorView<float> vectors = step.workspace.take(tokens.size(), tokens_->weight().in_features());
  for (std::size_t row = 0; row < tokens.size() && !vectors.empty(); ++row) {
    const bool owned = tokens_->copy_row(static_cast<std::size_t>(tokens[row]), vectors.row(row));
    if (!owned) std::fill_n(vectors.row(row), vectors.columns(), 0.0F);
  }
  adapters_.apply(step, vectors);
  for (std::size_t row = 0; row < tokens.size() && !vectors.empty(); ++row) {
    for (std::size_t i = 0; i < vectors.columns(); ++i) vectors(row, i) *= scale_;
    // Sinusoids have no table, so the rank that owns the token's vector adds them.
    const bool owned = tokens_->tokens().contains(static_cast<std::size_t>(tokens[row]));
    if (sinusoidal_ && owned) add_sinusoids(step.batch.positions[row], vectors.row(row), vectors.columns());
  }
  const TensorView<float> out = projection_ ? (*projection_)(vectors, step) : vectors;
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> more = step.workspace.take(1, out.columns());
  for (std::size_t row = 0; row < tokens.size() && !out.empty(); ++row) {
    const TensorView<float> own = out.rows_from(row, 1);
    if (!positions_) {
      if (tokens_->tokens().contains(static_cast<std::size_t>(tokens[row]))) add_type(step, row, own);
    } else if (positions_->copy_row(first_position_ + step.batch.positions[row], more.row(0))) {
      add_type(step, row, more);
      kernels::add(more, own);
    }
    if (axial_) axial_->add(step.batch.positions[row], out.row(row));
  }
  return PartialSum(out);
}

void VocabParallelEmbedding::add_type(const StepContext& step, std::size_t row, TensorView<float> out) const {
  if (types_.size() == 0) return;
  const std::size_t type = step.batch.types.empty() ? 0 : step.batch.types[row];
  kernels::add(TensorView<const float>(types_.data() + type * out.columns(), 1, out.columns()), out);
}

TensorView<float> LmHead::operator()(TensorView<const float> hidden, const StepContext& step) const {
  const TensorView<float> logits = shard_->weight().multiply(hidden, step.workspace);
  adapters_.apply(hidden, step, logits);
  if (!bias_.empty()) kernels::add_bias(bias_, logits);
  if (scale_ != 1.0F) kernels::scale(scale_, logits);
  if (softcap_) kernels::softcap(*softcap_, logits);
  return logits;
}

}  // namespace tp
