#include "model/embedding.h"

#include <algorithm>

namespace tp {
namespace {

LocalWeight load_rows(WeightLoader& loader, const std::string& layer, std::size_t vocab_size,
                      std::size_t hidden_size, Range tokens) {
  const std::vector<OwnedRows> parts = {
      {{layer, {vocab_size, hidden_size}, "vocab_size, hidden_size"}, tokens}};
  return LocalWeight(loader.rows_of_weights(parts), tokens.size(), hidden_size);
}

}  // namespace

VocabShard::VocabShard(WeightLoader& loader, const std::string& layer, std::size_t vocab_size,
                       std::size_t hidden_size)
    : tokens_(shard_columns(vocab_size, loader.part())),
      weight_(load_rows(loader, layer, vocab_size, hidden_size, tokens_)) {}

PartialSum VocabParallelEmbedding::operator()(std::span<const TokenId> tokens, Workspace& workspace) const {
  const TensorView<const float> table = shard_->weight().view();
  const TensorView<float> out = workspace.take(tokens.size(), table.columns());
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const auto id = static_cast<std::size_t>(tokens[row]);
    if (shard_->tokens().contains(id)) {
      std::copy_n(table.row(id - shard_->tokens().begin), table.columns(), out.row(row));
    } else {
      std::fill_n(out.row(row), table.columns(), 0.0F);
    }
  }
  return PartialSum(out);
}

TensorView<float> LmHead::operator()(TensorView<const float> hidden, Workspace& workspace) const {
  const TensorView<float> logits = workspace.take(hidden.rows(), shard_->weight().out_features());
  shard_->weight().multiply(hidden, logits);
  return logits;
}

}  // namespace tp
