#include "model/decoder.h"

#include <algorithm>

namespace tp {
namespace {

std::vector<DecoderBlock> load_blocks(WeightLoader& loader, const DecoderSpec& spec) {
  std::vector<DecoderBlock> blocks;
  blocks.reserve(spec.blocks.size());
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    blocks.emplace_back(loader, spec.blocks[layer], spec.hidden_size, layer);
  }
  return blocks;
}

std::shared_ptr<const VocabShard> load_vocab(WeightLoader& loader, const DecoderSpec& spec,
                                             const std::string& layer) {
  return std::make_shared<VocabShard>(loader, layer, spec.vocab_size, spec.hidden_size);
}

}  // namespace

Decoder::Decoder(const DecoderSpec& spec, const WeightSource& source, RankOf part,
                 std::optional<WeightType> weights, const LoadProgress& progress)
    : Decoder(spec, WeightLoader(source, part, weights, progress)) {}

Decoder::Decoder(const DecoderSpec& spec, WeightLoader loader)
    : embed_tokens_(load_vocab(loader, spec, tensor_names::embed_tokens())),
      embedding_(embed_tokens_),
      blocks_(load_blocks(loader, spec)),
      final_norm_(loader, tensor_names::final_norm(), spec.hidden_size, spec.final_norm),
      output_tokens_(spec.tied_embeddings ? embed_tokens_
                                          : load_vocab(loader, spec, tensor_names::lm_head())),
      lm_head_(output_tokens_),
      rope_(spec.rope, spec.blocks.front().attention.head_dim) {}

void Decoder::forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                      const OnLogits& on_logits) const {
  const Workspace::Frame frame(workspace);
  const TensorView<float> x = all_reduce(comm, embedding_(batch.tokens, workspace));  // [tokens, hidden_size]
  const StepContext step{batch, rope_(batch.positions, workspace), workspace};
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer)
    blocks_[layer](comm, x, step, cache.layer(layer));

  for (std::size_t first = 0; first < batch.output_rows.size(); first += kLogitRows) {
    const Workspace::Frame rows_frame(workspace);
    const std::size_t rows = std::min(kLogitRows, batch.output_rows.size() - first);
    const TensorView<float> last = workspace.take(rows, x.columns());  // [rows, hidden_size]
    for (std::size_t row = 0; row < rows; ++row) {
      std::copy_n(x.row(batch.output_rows[first + row]), x.columns(), last.row(row));
    }
    on_logits(first, lm_head_(final_norm_(last, workspace), workspace));
  }
}

std::size_t Decoder::weight_bytes() const {
  std::size_t bytes = embed_tokens_->weight().bytes() + final_norm_.bytes();
  if (output_tokens_ != embed_tokens_) bytes += output_tokens_->weight().bytes();
  for (const DecoderBlock& block : blocks_) bytes += block.bytes();
  return bytes;
}

std::size_t count_parameters(const DecoderSpec& spec) { return count_local_parameters(spec, {0, 1}); }

std::size_t count_local_parameters(const DecoderSpec& spec, RankOf part) {
  const std::size_t vocab = shard_columns(spec.vocab_size, part).size() * spec.hidden_size;
  std::size_t total = vocab + (spec.tied_embeddings ? 0 : vocab) + spec.hidden_size;
  for (const BlockSpec& block : spec.blocks) {
    total += 2 * spec.hidden_size + count_attention_parameters(block.attention, spec.hidden_size, part) +
             count_mlp_parameters(block.mlp, spec.hidden_size, part);
  }
  return total;
}

std::size_t local_weight_bytes(const DecoderSpec& spec, RankOf part, WeightType type) {
  const std::size_t local_vocab = shard_columns(spec.vocab_size, part).size();
  const std::size_t vocab =
      kernels::PackedLayout{vocabulary_type(type), local_vocab, spec.hidden_size}.bytes();
  const std::size_t norms = (2 * spec.blocks.size() + 1) * spec.hidden_size * sizeof(float);
  std::size_t bytes = vocab + (spec.tied_embeddings ? 0 : vocab) + norms;
  for (const BlockSpec& block : spec.blocks) {
    bytes += attention_bytes(block.attention, spec.hidden_size, part, type) +
             mlp_bytes(block.mlp, spec.hidden_size, part, type);
  }
  return bytes;
}

std::size_t decoder_workspace(const DecoderSpec& spec, RankOf part, const StepLimits& limits) {
  const std::size_t residual = Workspace::footprint(limits.tokens, spec.hidden_size);
  std::size_t angles = 0;
  std::size_t half = 0;
  for (const BlockSpec& block : spec.blocks) {
    angles = std::max(angles, 2 * Workspace::footprint(limits.tokens, block.attention.head_dim / 2));
    half =
        std::max({half,
                  attention_workspace(block.attention, spec.hidden_size, part, limits.tokens, limits.threads,
                                      limits.kv_type, limits.block_size, limits.max_blocks),
                  mlp_workspace(block.mlp, spec.hidden_size, part, limits.tokens)});
  }
  const std::size_t rows = std::min(limits.outputs, Decoder::kLogitRows);
  const std::size_t logits =
      2 * Workspace::footprint(rows, spec.hidden_size) +
      multiply_workspace(rows, shard_columns(spec.vocab_size, part).size(), spec.hidden_size);
  return residual + angles + std::max(residual + half, logits);
}

}  // namespace tp
