#include "model/layers/draft_vocabulary.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tp {
namespace {

std::vector<TokenId> read_tokens(WeightLoader& loader, const std::string& tensor, std::size_t rows,
                                 std::size_t vocab_size) {
  if (!loader.reads()) return {};
  std::vector<std::int64_t> offsets = loader.source().whole_numbers(tensor, {1, rows}, "draft_vocab_size");
  if (offsets.empty()) offsets.assign(rows, 0);  // synthetic weights: the first tokens
  std::vector<TokenId> tokens;
  std::int64_t min = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto max = static_cast<std::int64_t>(vocab_size) - 1;
    const auto place = static_cast<std::int64_t>(row);
    const bool fits = offsets[row] >= min - place && offsets[row] <= max - place;
    if (!fits) {
      throw_error<CheckpointError>(
          "cannot use the drafter's vocabulary: expected {} with ascending tokens from {} to {} for row {}, "
          "found the offset {}; download the checkpoint again",
          tensor, min, max, row, offsets[row]);
    }
    tokens.push_back(static_cast<TokenId>(place + offsets[row]));
    min = tokens.back() + 1;
  }
  return tokens;
}

}  // namespace

DraftVocabulary::DraftVocabulary(WeightLoader& loader, const std::string& tensor, std::size_t rows,
                                 std::size_t vocab_size)
    : vocab_size_(vocab_size),
      rows_(rows),
      own_rows_(shard_columns(rows, loader.tp())),
      tokens_(read_tokens(loader, tensor, rows, vocab_size)),
      own_(tokens_on(loader.tp())) {}

// A rank's tokens begin at the token of its first row.
Range DraftVocabulary::tokens_on(TpRank tp) const {
  if (tokens_.empty()) return {0, vocab_size_};
  const Range rows = shard_columns(rows_, tp);
  const auto begin_of = [&](std::size_t row) {
    if (row == 0) return std::size_t{0};
    return row == rows_ ? vocab_size_ : static_cast<std::size_t>(tokens_[row]);
  };
  return {begin_of(rows.begin), begin_of(rows.end)};
}

TensorView<float> DraftVocabulary::spread(TensorView<const float> logits, Workspace& workspace) const {
  const TensorView<float> out = workspace.take(logits.rows(), own_.size());
  for (std::size_t output = 0; output < out.rows() && !out.empty(); ++output) {
    std::fill_n(out.row(output), out.columns(), -std::numeric_limits<float>::infinity());
    for (std::size_t i = 0; i < own_rows_.size(); ++i) {
      const auto token = static_cast<std::size_t>(tokens_[own_rows_.begin + i]);
      out(output, token - own_.begin) = logits(output, i);
    }
  }
  return out;
}

}  // namespace tp
