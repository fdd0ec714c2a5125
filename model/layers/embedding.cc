#include "model/layers/embedding.h"

#include "model/kernels/elementwise.h"

#include <algorithm>

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

PartialSum VocabParallelEmbedding::operator()(const StepContext& step) const {
  const std::vector<TokenId>& tokens = step.batch.tokens;
  const std::size_t hidden_size = tokens_->weight().in_features();
  const TensorView<float> out = step.workspace.take(tokens.size(), hidden_size);
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> position = step.workspace.take(1, hidden_size);
  if (out.empty()) return PartialSum(out);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (!tokens_->copy_row(static_cast<std::size_t>(tokens[row]), out.row(row)))
      std::fill_n(out.row(row), hidden_size, 0.0F);
    for (std::size_t i = 0; i < hidden_size; ++i) out(row, i) *= scale_;
    if (positions_ && positions_->copy_row(first_position_ + step.batch.positions[row], position.row(0)))
      kernels::add(position, out.rows_from(row, 1));
  }
  return PartialSum(out);
}

TensorView<float> LmHead::operator()(TensorView<const float> hidden, Workspace& workspace) const {
  const TensorView<float> logits = shard_->weight().multiply(hidden, workspace);
  if (!bias_.empty()) kernels::add_bias(bias_, logits);
  if (scale_ != 1.0F) kernels::scale(scale_, logits);
  if (softcap_) kernels::softcap(*softcap_, logits);
  return logits;
}

}  // namespace tp
