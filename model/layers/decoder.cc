#include "model/layers/decoder.h"

#include "model/kernels/experts.h"
#include "model/weights/checkpoint/synthetic_weights.h"
#include "parallel/tracer.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <span>

namespace tp {
namespace {

using Blocks = std::vector<std::shared_ptr<const DecoderBlock>>;

// Equal layers without weights (shapes only) are one block.
Blocks load_blocks(WeightLoader& loader, const DecoderSpec& spec, const TensorNames& names) {
  const bool alike = loader.is_uniform();
  Blocks blocks;
  std::vector<LoadedWeights> loaded;  // of every block
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const auto first = std::ranges::find(spec.blocks, spec.blocks[layer]) - spec.blocks.begin();
    if (const auto same = static_cast<std::size_t>(first); alike && same < layer) {
      loader.count(loaded[same]);
      loaded.push_back(loaded[same]);
      blocks.push_back(blocks[same]);
    } else {
      const LoadedWeights before = loader.loaded();
      blocks.push_back(std::make_shared<DecoderBlock>(
          load_block(loader, spec.blocks[layer], spec.hidden_size, names.block(layer))));
      loaded.push_back(loader.loaded() - before);
    }
  }
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
      {table(names.embed_tokens), shard_columns(spec.vocab_size, loader.tp())}, table(names.lm_head));
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

// Of this rank's tokens.
std::vector<float> load_lm_head_bias(WeightLoader& loader, const DecoderSpec& spec,
                                     const std::string& layer) {
  if (!spec.lm_head_bias) return {};
  const std::vector<OwnedRows> own = {{{layer, {spec.vocab_size, spec.hidden_size}, "vocab_size", {}},
                                       shard_columns(spec.vocab_size, loader.tp())}};
  return loader.rows_of_biases(own);
}

}  // namespace

Decoder::Decoder(const DecoderSpec& spec, const WeightSource& source, TpRank tp,
                 std::optional<WeightType> weights, const LoadProgress& progress, PackedCache* cache)
    : Decoder(
          spec, spec.names.as_stored_in(source),
          WeightLoader(source, tp, weights, progress, WeightLoader::Mode::weights, leaf_heads(spec), cache)) {
}

Decoder Decoder::shape_of(const DecoderSpec& spec, const WeightSource& source, TpRank tp,
                          std::optional<WeightType> weights) {
  return {spec, spec.names.as_stored_in(source),
          WeightLoader(source, tp, weights, {}, WeightLoader::Mode::shapes, leaf_heads(spec))};
}

Decoder::Decoder(const DecoderSpec& spec, const TensorNames& names, WeightLoader loader)
    : embed_tokens_(load_embedding(loader, spec, names)),
      embedding_(embed_tokens_, spec.embedding_scale, load_positions(loader, spec, names.embed_positions),
                 spec.first_learned_position),
      embedding_norm_(load_if_present(loader, names.embedding_norm, spec.hidden_size, spec.embedding_norm)),
      blocks_(load_blocks(loader, spec, names)),
      final_norm_(loader, names.final_norm, spec.hidden_size, spec.final_norm),
      output_tokens_(spec.tied_embeddings ? embed_tokens_ : load_vocab(loader, spec, names.lm_head)),
      lm_head_(output_tokens_, load_lm_head_bias(loader, spec, names.lm_head), spec.logit_scale,
               spec.logit_softcap),
      ropes_(distinct_ropes(spec)),
      unused_tensors_(loader.unused_tensors(names)),
      loaded_(loader.loaded()) {}

void Decoder::forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                      const OnLogits& on_logits, const OnHidden& on_hidden) const {
  run(&comm, batch, cache, workspace, on_logits, on_hidden);
}

void Decoder::run(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                  const OnLogits& on_logits, const OnHidden& on_hidden) const {
  const Workspace::Frame frame(workspace);
  std::vector<RopeAngles> angles;
  for (const Rope& rope : ropes_) angles.push_back(rope(batch.positions, workspace));
  StepContext step{.batch = batch,
                   .workspace = workspace,
                   .ropes = angles,
                   .tracer = comm != nullptr ? &comm->tracer() : nullptr,
                   .comm = comm};
  Residual residual(comm, embedding_(step), step);
  if (embedding_norm_) residual.apply(*embedding_norm_);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const bool again = layer > 0 && blocks_[layer] == blocks_[layer - 1];  // a shape: it takes no more
    if (again) continue;
    step.cache_group = cache.group(layer);
    std::visit([&](const auto& block) { block(residual, step, cache.layer(layer)); }, *blocks_[layer]);
  }

  // Some rows of the result behind the final norm, in groups.
  const TensorView<const float> x = residual.rows();
  const auto for_rows = [&](std::span<const std::size_t> wanted, const auto& on_rows) {
    for (std::size_t first = 0; first < wanted.size(); first += kLogitRows) {
      const Workspace::Frame rows_frame(workspace);
      const std::size_t rows = std::min(kLogitRows, wanted.size() - first);
      const TensorView<float> last = workspace.take(rows, x.columns());  // [rows, hidden_size]
      kernels::gather_rows(x, wanted.subspan(first, rows), last);
      on_rows(first, last);
    }
  };
  for_rows(batch.hidden_rows, [&](std::size_t first, TensorView<float> last) {
    on_hidden(first, final_norm_(last, workspace));
  });
  for_rows(batch.output_rows, [&](std::size_t first, TensorView<float> last) {
    on_logits(first, [&] {
      const TraceSpan span(step.tracer, Activity::logits, last.rows());
      return lm_head_(final_norm_(last, workspace), workspace);
    }());
  });
}

std::vector<kernels::KvLayout> Decoder::kv_layouts(KvType type, std::size_t block_size) const {
  std::vector<kernels::KvLayout> layouts;
  for (const auto& block : blocks_) {
    const auto& attention = std::visit(
        [](const auto& any) -> const auto& { return any.attention(); }, *block);
    layouts.push_back(attention.kv_layout(type, block_size));
  }
  return layouts;
}

std::size_t Decoder::workspace_floats(const StepLimits& limits) const {
  const KvCache cache(kv_layouts(limits.kv_type, limits.block_size), 0);
  const std::vector<std::int32_t> table(limits.max_blocks);
  Workspace workspace = Workspace::counting();
  const auto count = [&](std::size_t tokens) {
    Batch batch;
    batch.tokens.resize(tokens);
    batch.positions.resize(tokens);
    batch.spans = {{{0, tokens, 0, table}}};
    batch.output_rows.resize(std::min({tokens, limits.outputs, kLogitRows}));
    run(nullptr, batch, cache, workspace, [](std::size_t, TensorView<const float>) {}, {});
  };
  count(limits.tokens);
  // Products of few tokens take paths of their own, some of which need more.
  for (std::size_t tokens = 1; tokens <= std::min(limits.tokens, kernels::kMostFewTokens); ++tokens)
    count(tokens);
  return workspace.peak_bytes() / sizeof(float);
}

std::size_t count_parameters(const DecoderSpec& spec) {
  return Decoder::shape_of(spec, SyntheticWeights(), {0, 1}, {}).parameters();
}

std::size_t count_active_parameters(const DecoderSpec& spec) {
  std::size_t total = count_parameters(spec);
  for (const BlockSpec& block : spec.blocks) {
    const auto* experts = std::get_if<MixtureOfExpertsSpec>(&block.feed_forward);
    if (experts == nullptr) continue;
    const RouterSpec& router = experts->router;
    const std::size_t size = experts->intermediate_size;
    const std::size_t biases = experts->bias ? 2 * size + spec.hidden_size : 0;
    total -= (router.num_experts - router.num_experts_per_tok) * (3 * size * spec.hidden_size + biases);
  }
  return total;
}

}  // namespace tp
