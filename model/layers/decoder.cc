#include "model/layers/decoder.h"

#include "model/weights/unused_tensors.h"
#include "parallel/tracer.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp {
namespace {

std::vector<DecoderBlock> load_blocks(WeightLoader& loader, const DecoderSpec& spec,
                                      const TensorNames& names) {
  std::vector<DecoderBlock> blocks;
  blocks.reserve(spec.blocks.size());
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer)
    blocks.push_back(load_block(loader, spec.blocks[layer], spec.hidden_size, names.block(layer)));
  return blocks;
}

std::shared_ptr<const VocabShard> load_vocab(WeightLoader& loader, const DecoderSpec& spec,
                                             const std::string& layer) {
  return std::make_shared<VocabShard>(loader, layer, spec.vocab_size, spec.hidden_size);
}

// Throws CheckpointError unless this rank's rows of both tables hold the same.
void require_tied(WeightLoader& loader, const DecoderSpec& spec, const TensorNames& names) {
  const auto table = [&](const std::string& layer) {
    return StoredLayer{layer, {spec.vocab_size, spec.hidden_size}, "vocab_size", "hidden_size"};
  };
  const std::optional<std::size_t> row = loader.first_different_row(
      {table(names.embed_tokens), shard_columns(spec.vocab_size, loader.part())}, table(names.lm_head));
  if (!row) return;
  throw_error<CheckpointError>(
      "cannot use one matrix as embedding and LM head: config.json ties them (tie_word_embeddings), but {} "
      "and "
      "{} differ in row {}; set tie_word_embeddings to false if the model has an LM head of its own, else "
      "download the checkpoint again",
      tensor_names::weight_of(names.embed_tokens), tensor_names::weight_of(names.lm_head), *row);
}

// Checkpoints of tied embeddings store them under either of their names, or under both.
std::shared_ptr<const VocabShard> load_embedding(WeightLoader& loader, const DecoderSpec& spec,
                                                 const TensorNames& names) {
  const std::vector<std::string> stored = loader.source().names();
  const auto is_stored = [&](const std::string& layer) {
    return std::ranges::binary_search(stored, tensor_names::weight_of(layer));
  };
  if (!spec.tied_embeddings || !is_stored(names.lm_head)) return load_vocab(loader, spec, names.embed_tokens);
  if (!is_stored(names.embed_tokens)) return load_vocab(loader, spec, names.lm_head);
  require_tied(loader, spec, names);
  return load_vocab(loader, spec, names.embed_tokens);
}

std::shared_ptr<const VocabShard> load_positions(WeightLoader& loader, const DecoderSpec& spec,
                                                 const std::string& layer) {
  if (spec.learned_positions == 0) return nullptr;
  return std::make_shared<VocabShard>(loader, layer, spec.learned_positions, spec.hidden_size,
                                      "max_position_embeddings");
}

}  // namespace

Decoder::Decoder(const DecoderSpec& spec, const WeightSource& source, TpRank part,
                 std::optional<WeightType> weights, const LoadProgress& progress)
    : Decoder(spec, spec.names.as_stored_in(source), WeightLoader(source, part, weights, progress)) {}

Decoder::Decoder(const DecoderSpec& spec, const TensorNames& names, WeightLoader loader)
    : embed_tokens_(load_embedding(loader, spec, names)),
      embedding_(embed_tokens_, spec.embedding_scale, load_positions(loader, spec, names.embed_positions)),
      blocks_(load_blocks(loader, spec, names)),
      final_norm_(loader, names.final_norm, spec.hidden_size, spec.final_norm),
      output_tokens_(spec.tied_embeddings ? embed_tokens_ : load_vocab(loader, spec, names.lm_head)),
      lm_head_(output_tokens_, spec.logit_softcap),
      ropes_(distinct_ropes(spec)),
      unused_tensors_(find_unused_tensors(names, loader.source(), loader.part())) {}

void Decoder::forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                      const OnLogits& on_logits, const OnHidden& on_hidden) const {
  const Workspace::Frame frame(workspace);
  std::vector<RopeAngles> angles;
  for (const Rope& rope : ropes_) angles.push_back(rope(batch.positions, workspace));
  const StepContext step{batch, workspace, angles, &comm.tracer()};
  Residual residual(comm, embedding_(step), step);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer)
    std::visit([&](const auto& block) { block(residual, step, cache.layer(layer)); }, blocks_[layer]);

  // Some rows of the result behind the final norm, in groups.
  const TensorView<const float> x = residual.rows();
  const auto for_rows = [&](const std::vector<std::size_t>& wanted, const auto& on_rows) {
    for (std::size_t first = 0; first < wanted.size(); first += kLogitRows) {
      const Workspace::Frame rows_frame(workspace);
      const std::size_t rows = std::min(kLogitRows, wanted.size() - first);
      const TensorView<float> last = workspace.take(rows, x.columns());  // [rows, hidden_size]
      for (std::size_t row = 0; row < rows; ++row)
        std::copy_n(x.row(wanted[first + row]), x.columns(), last.row(row));
      on_rows(first, last);
    }
  };
  for_rows(batch.hidden_rows, [&](std::size_t first, TensorView<float> last) {
    on_hidden(first, final_norm_(last, workspace));
  });
  for_rows(batch.output_rows, [&](std::size_t first, TensorView<float> last) {
    on_logits(first, [&] {
      const TraceSpan span(comm, Activity::logits, last.rows());
      return lm_head_(final_norm_(last, workspace), workspace);
    }());
  });
}

std::vector<kernels::KvLayout> Decoder::kv_layouts(KvType type, std::size_t block_size) const {
  std::vector<kernels::KvLayout> layouts;
  for (const DecoderBlock& block : blocks_) {
    const auto& attention = std::visit(
        [](const auto& any) -> const auto& { return any.attention(); }, block);
    layouts.push_back(attention.kv_layout(type, block_size));
  }
  return layouts;
}

std::size_t Decoder::weight_bytes() const {
  std::size_t bytes = embed_tokens_->weight().bytes() + embedding_.position_bytes() + final_norm_.bytes();
  if (output_tokens_ != embed_tokens_) bytes += output_tokens_->weight().bytes();
  for (const DecoderBlock& block : blocks_)
    bytes += std::visit([](const auto& alternative) { return alternative.bytes(); }, block);
  return bytes;
}

namespace {

// What a rank holds of embeddings and LM head.
LocalShapes tables_of(const DecoderSpec& spec, TpRank part) {
  const MatrixShape vocab{shard_columns(spec.vocab_size, part).size(), spec.hidden_size};
  LocalShapes shapes{.matrices = {vocab}};
  if (!spec.tied_embeddings) shapes.matrices.push_back(vocab);
  if (spec.learned_positions != 0)
    shapes.matrices.push_back({shard_columns(spec.learned_positions, part).size(), spec.hidden_size});
  return shapes;
}

// And of all else.
LocalShapes layers_of(const DecoderSpec& spec, TpRank part) {
  LocalShapes shapes = local_shapes(spec.final_norm, spec.hidden_size);
  for (const BlockSpec& block : spec.blocks) shapes += local_shapes(block, spec.hidden_size, part);
  return shapes;
}

}  // namespace

std::size_t count_parameters(const DecoderSpec& spec) { return count_local_parameters(spec, {0, 1}); }

std::size_t count_active_parameters(const DecoderSpec& spec) {
  std::size_t total = count_parameters(spec);
  for (const BlockSpec& block : spec.blocks) {
    const auto* experts = std::get_if<MixtureOfExpertsSpec>(&block.feed_forward);
    if (experts == nullptr) continue;
    const RouterSpec& router = experts->router;
    total -=
        (router.num_experts - router.num_experts_per_tok) * 3 * experts->intermediate_size * spec.hidden_size;
  }
  return total;
}

std::size_t count_local_parameters(const DecoderSpec& spec, TpRank part) {
  return tables_of(spec, part).parameters() + layers_of(spec, part).parameters();
}

std::size_t local_weight_bytes(const DecoderSpec& spec, TpRank part, WeightType type) {
  return tables_of(spec, part).bytes(vocabulary_type(type)) + layers_of(spec, part).bytes(type);
}

std::size_t decoder_workspace(const DecoderSpec& spec, TpRank part, const StepLimits& limits) {
  std::size_t angles = 0;
  for (const Rope& rope : distinct_ropes(spec))
    angles += 2 * Workspace::footprint(limits.tokens, rope.spec().rotary_dim / 2);
  std::size_t block = 0;
  for (const BlockSpec& each : spec.blocks)
    block = std::max(block, block_workspace(each, spec.hidden_size, part, limits));
  const std::size_t rows = std::min(limits.outputs, Decoder::kLogitRows);
  const std::size_t logits =
      2 * Workspace::footprint(rows, spec.hidden_size) +
      multiply_workspace(rows, shard_columns(spec.vocab_size, part).size(), spec.hidden_size);
  return VocabParallelEmbedding::workspace(limits.tokens, spec.hidden_size) + angles +
         std::max(block, logits);
}

}  // namespace tp
