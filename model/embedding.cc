#include "model/embedding.h"

#include <algorithm>

namespace tp {
VocabShard::VocabShard(WeightLoader& loader, const std::string& layer, std::size_t vocab_size,
                       std::size_t hidden_size)
    : tokens_(shard_columns(vocab_size, loader.part())),
      weight_(loader.rows_of_vocabulary(
          {{layer, {vocab_size, hidden_size}, "vocab_size, hidden_size"}, tokens_})) {}

PartialSum VocabParallelEmbedding::operator()(std::span<const TokenId> tokens, Workspace& workspace) const {
  const LocalWeight& table = shard_->weight();
  const TensorView<float> out = workspace.take(tokens.size(), table.in_features());
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const auto id = static_cast<std::size_t>(tokens[row]);
    if (shard_->tokens().contains(id)) {
      table.unpack_row(id - shard_->tokens().begin, out.row(row));
    } else {
      std::fill_n(out.row(row), table.in_features(), 0.0F);
    }
  }
  return PartialSum(out);
}

TensorView<float> LmHead::operator()(TensorView<const float> hidden, Workspace& workspace) const {
  return shard_->weight().multiply(hidden, workspace);
}

}  // namespace tp
