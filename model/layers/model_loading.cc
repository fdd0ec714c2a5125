#include "model/files/printable.h"
#include "model/layers/model.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "model/weights/unused_tensors.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <span>
#include <utility>

namespace tp {
namespace {

using Blocks = std::vector<std::shared_ptr<const DecoderBlock>>;

// The first layer that uses the same stored block as `layer`.
std::size_t first_of_same_block(const TensorNames& names, std::size_t layer) {
  std::size_t first = 0;
  while (names.stored_block(first) != names.stored_block(layer)) ++first;
  return first;
}

// Layers share an object if they share a stored block, or if their specs are equal and the loader creates
// only shapes, which do not depend on names.
Blocks load_blocks(WeightLoader& loader, const ModelSpec& spec, const TensorNames& names, Range layers) {
  const bool alike = loader.is_uniform();
  const std::span<const BlockSpec> specs = std::span(spec.blocks).subspan(layers.begin, layers.size());
  Blocks blocks;
  std::vector<LoadedWeights> loaded;  // weights loaded for each layer so far
  for (std::size_t layer = 0; layer < specs.size(); ++layer) {
    const std::size_t sharing = first_of_same_block(names, layers.begin + layer);
    if (sharing >= layers.begin && sharing < layers.begin + layer) {
      loaded.push_back(loaded[sharing - layers.begin]);
      blocks.push_back(blocks[sharing - layers.begin]);
      continue;
    }
    const auto first = std::ranges::find(specs, specs[layer]) - specs.begin();
    if (const auto same = static_cast<std::size_t>(first); alike && same < layer) {
      loader.count(loaded[same]);
      loaded.push_back(loaded[same]);
      blocks.push_back(blocks[same]);
    } else {
      const LoadedWeights before = loader.loaded();
      blocks.push_back(std::make_shared<DecoderBlock>(
          load_block(loader, specs[layer], spec.hidden_size, names.block(layers.begin + layer))));
      loaded.push_back(loader.loaded() - before);
    }
  }
  return blocks;
}

std::shared_ptr<const VocabShard> load_vocab(WeightLoader& loader, const ModelSpec& spec,
                                             const std::string& layer, std::size_t size) {
  return std::make_shared<VocabShard>(loader, layer, spec.vocab_size, size);
}

// Rows of the LM head.
std::size_t head_rows(const ModelSpec& spec) {
  const bool lacks_tokens = spec.drafter && spec.drafter->draft_vocab_size != 0;
  return lacks_tokens ? spec.drafter->draft_vocab_size : spec.vocab_size;
}

std::optional<DraftVocabulary> load_draft_vocabulary(WeightLoader& loader, const ModelSpec& spec,
                                                     const TensorNames& names) {
  if (head_rows(spec) == spec.vocab_size) return std::nullopt;
  return DraftVocabulary(loader, names.draft_ids, head_rows(spec), spec.vocab_size);
}

// A decoder that reads states does not see a sequence's first token, so its positions are smaller by one. A
// row of a block drafts its own token, or the token after it.
std::ptrdiff_t draft_offset_of(const ModelSpec& spec) {
  if (spec.drafter && spec.drafter->block) return spec.drafter->block->samples_from_anchor ? 0 : -1;
  return spec.next_token || spec.drafter ? 1 : 0;
}

// Throws CheckpointError if a drafter's checkpoint has tensors that the drafter does not use: they belong to
// a variant that computes something else.
void require_all_used(const ModelSpec& spec, const std::vector<std::string>& unused) {
  if (!spec.drafter || unused.empty()) return;
  throw_error<CheckpointError>(
      "cannot use this drafter: expected only the tensors that its config.json describes, found {}, which "
      "belongs to an unsupported variant; use another drafter",
      printable(unused.front()));
}

TensorNames names_of(const ModelSpec& spec, const WeightSource& source) {
  const TensorNames names = spec.names.as_stored_in(source);
  return spec.next_token ? names.of_next_token_layer(source) : names;
}

// Size of the LM head's input.
std::size_t head_size(const ModelSpec& spec) {
  return streams_of(spec) == 1 ? embedding_size(spec) : state_size(spec);
}

// Throws CheckpointError unless this rank's rows of both tables are equal.
void require_tied(WeightLoader& loader, const ModelSpec& spec, const TensorNames& names) {
  const auto table = [&](const std::string& layer) {
    return StoredLayer{layer, {spec.vocab_size, embedding_size(spec)}, "vocab_size", "hidden_size"};
  };
  const std::optional<std::size_t> row = loader.first_different_row(
      {table(names.embed_tokens), shard_columns(spec.vocab_size, loader.tp())}, table(names.lm_head));
  if (!row) return;
  throw_error<CheckpointError>(
      "cannot use one matrix as embedding and LM head: config.json ties them (tie_word_embeddings), but {} "
      "and {} differ in row {}; set tie_word_embeddings to false if the model has its own LM head; otherwise "
      "download the checkpoint again",
      loader.source().stored_name(tensor_names::weight_of(names.embed_tokens)),
      loader.source().stored_name(tensor_names::weight_of(names.lm_head)), *row);
}

// A checkpoint may store tied embeddings under the embedding's name, the LM head's name or both.
std::shared_ptr<const VocabShard> load_embedding(WeightLoader& loader, const ModelSpec& spec,
                                                 const TensorNames& names) {
  const std::vector<std::string> stored = loader.source().names();
  const auto is_stored = [&](const std::string& layer) {
    return std::ranges::binary_search(stored, tensor_names::weight_of(layer));
  };
  if (!spec.tied_embeddings || !is_stored(names.lm_head))
    return load_vocab(loader, spec, names.embed_tokens, embedding_size(spec));
  if (!is_stored(names.embed_tokens)) return load_vocab(loader, spec, names.lm_head, embedding_size(spec));
  require_tied(loader, spec, names);
  return load_vocab(loader, spec, names.embed_tokens, embedding_size(spec));
}

// Size of the position and type vectors that are added to token vectors.
std::size_t added_size(const ModelSpec& spec) {
  return spec.adds_behind_projection ? spec.hidden_size : embedding_size(spec);
}

std::shared_ptr<const VocabShard> load_positions(WeightLoader& loader, const ModelSpec& spec,
                                                 const std::string& layer) {
  if (spec.learned_positions == 0) return nullptr;
  return std::make_shared<VocabShard>(loader, layer, spec.learned_positions, added_size(spec),
                                      "max_position_embeddings");
}

Buffer<float> load_types(WeightLoader& loader, const ModelSpec& spec, const std::string& layer) {
  if (spec.token_types == 0) return {};
  return loader.whole_weight({layer, {spec.token_types, added_size(spec)}, "type_vocab_size", "hidden_size"});
}

// Only the first rank loads axial positions, so that the sum over ranks contains them once.
std::optional<AxialPositions> load_axial(WeightLoader& loader, const ModelSpec& spec,
                                         const std::string& name) {
  if (!spec.axial_positions || !loader.tp().is_first()) return std::nullopt;
  return AxialPositions(loader, name, *spec.axial_positions);
}

// Loads the projection from token vectors to hidden_size. Every rank loads all of it, because every rank
// needs the whole result.
std::shared_ptr<const ColumnParallelLinear> load_projection(WeightLoader& loader, const ModelSpec& spec,
                                                            const std::string& layer) {
  if (spec.embedding_size == 0) return nullptr;
  const std::vector<OwnedRows> whole = {
      {{layer, {spec.hidden_size, spec.embedding_size}, "hidden_size", "embedding_size"},
       {0, spec.hidden_size}}};
  return std::make_shared<ColumnParallelLinear>(loader, whole, !spec.adds_behind_projection);
}

std::optional<RelativeBias> load_relative_bias(WeightLoader& loader, const ModelSpec& spec,
                                               const std::string& layer) {
  if (!spec.relative_bias) return std::nullopt;
  return RelativeBias(loader, layer, *spec.relative_bias);
}

std::optional<PerLayerInputs> load_per_layer_inputs(WeightLoader& loader, const ModelSpec& spec,
                                                    const PerLayerInputNames& names) {
  if (!spec.per_layer_inputs) return std::nullopt;
  return PerLayerInputs(loader, *spec.per_layer_inputs, spec.blocks.size(), spec.hidden_size, names);
}

std::optional<AltUpProjections> load_altup(WeightLoader& loader, const ModelSpec& spec,
                                           const AltUpStreamNames& names) {
  const AltUpSpec* const altup = altup_of(spec);
  if (altup == nullptr) return std::nullopt;
  return AltUpProjections(loader, *altup, spec.hidden_size, names);
}

// Loads the LM head's biases for this rank's part of the vocabulary.
std::vector<float> load_lm_head_bias(WeightLoader& loader, const ModelSpec& spec, const TensorNames& names) {
  if (!spec.lm_head_bias) return {};
  if (!names.lm_head_bias_row.empty())
    return loader.part_of_vector(names.lm_head_bias_row, spec.vocab_size,
                                 shard_columns(spec.vocab_size, loader.tp()), "vocab_size");
  const std::string& layer = names.lm_head_bias.empty() ? names.lm_head : names.lm_head_bias;
  const std::vector<OwnedRows> own = {{{layer, {spec.vocab_size, head_size(spec)}, "vocab_size", {}},
                                       shard_columns(spec.vocab_size, loader.tp())}};
  return loader.rows_of_biases(own);
}

std::optional<HeadTransform> load_transform(WeightLoader& loader, const ModelSpec& spec,
                                            const TensorNames& names) {
  if (!spec.head_transform) return std::nullopt;
  return HeadTransform(loader, names, *spec.head_transform, spec.hidden_size);
}

std::optional<LmHead> load_lm_head(WeightLoader& loader, const ModelSpec& spec, const TensorNames& names,
                                   std::shared_ptr<const VocabShard> tokens) {
  if (!spec.has_lm_head) return std::nullopt;
  HeadAdapters adapters(loader, {names.lm_head, {spec.vocab_size, head_size(spec)}, tokens->tokens()});
  return LmHead(std::move(tokens), load_lm_head_bias(loader, spec, names), spec.logit_scale,
                spec.logit_softcap, std::move(adapters));
}

// Only the first rank loads the head, because only the first rank pools hidden states.
std::optional<SequenceHead> load_sequence_head(WeightLoader& loader, const ModelSpec& spec,
                                               const TensorNames& names) {
  if (!spec.sequence_head || !loader.tp().is_first()) return std::nullopt;
  const SequenceHeadSpec& head = *spec.sequence_head;
  const bool is_there = !head.may_be_missing || SequenceHead::is_stored(loader.source(), head, names.body);
  if (!is_there) return std::nullopt;
  return SequenceHead(loader, head, spec.hidden_size, names.body);
}

// Elements of StepContext::first_values for each token.
std::size_t elements_of_first_values(const ModelSpec& spec, TpRank tp) {
  const auto* const mix = first_part<Rwkv7Spec>(spec);
  if (mix == nullptr) return 0;
  return shard_heads_of_some(mix->num_heads, mix->num_heads, tp).local_heads() * mix->head_dim;
}

// Throws ConfigError if an adapter changes a layer that the model lacks, or that cannot have adapters.
void require_adapters_are_used(const WeightLoader& loader) {
  if (loader.adapters() == nullptr) return;
  for (const Adapter& adapter : loader.adapters()->all()) {
    const auto require_used = [&](const AdapterMatrix& matrix) {
      require<ConfigError>(
          loader.used().contains(&matrix),
          "{}: the adapter {} has {}, but the model has no such layer, or its layer cannot have "
          "adapters; choose an adapter of this model, or merge it (tp-infer quantize --lora)",
          printable(adapter.place), printable(adapter.name), printable(matrix.name));
    };
    for (const auto& [name, factors] : adapter.layers) require_used(factors.a);
    for (const auto& [name, tensor] : adapter.tensors) require_used(tensor);
  }
}

}  // namespace

Model::Model(const ModelSpec& spec, const WeightSource& source, TpRank tp, std::optional<WeightType> weights,
             const LoadProgress& progress, PackedCache* cache, Stage stage, const VocabTables& others) {
  WeightLoader loader(source, tp, weights, progress, WeightLoader::Mode::weights, leaf_heads(spec), cache);
  load(spec, loader, stage, others);
}

Model Model::shape_of(const ModelSpec& spec, const WeightSource& source, TpRank tp,
                      std::optional<WeightType> weights, Stage stage, const VocabTables& others) {
  WeightLoader loader(source, tp, weights, {}, WeightLoader::Mode::shapes, leaf_heads(spec));
  Model shape;
  shape.load(spec, loader, stage, others);
  return shape;
}

void Model::load(const ModelSpec& spec, WeightLoader& loader, Stage stage, const VocabTables& others) {
  const TensorNames names = names_of(spec, loader.source());
  require<ConfigError>(
      stage.is_whole() || can_divide_layers(spec),
      "cannot divide the layers into {} stages: layers of this model read more than the "
      "output of the layer before (keys and values, or inputs, of other layers); leave `pipeline` out",
      stage.count);
  stage_ = stage;
  hidden_size_ = spec.hidden_size;
  streams_ = streams_of(spec);
  stream_weights_ = stream_weights_of(spec);
  ropes_ = distinct_ropes(spec);
  const bool predicts_with_embedding = stage.is_last() && (spec.tied_embeddings || !spec.has_lm_head);
  embed_tokens_ = others.embedding;
  if (!embed_tokens_ && (stage.is_first() || predicts_with_embedding))
    embed_tokens_ = load_embedding(loader, spec, names);
  if (stage.is_first()) {
    const auto positions = load_positions(loader, spec, names.embed_positions);
    auto types = load_types(loader, spec, names.token_types);
    embedding_norm_ =
        load_if_present(loader, names.embedding_norm, embedding_size(spec), spec.embedding_norm);
    const auto projection = load_projection(loader, spec, names.embedding_projection);
    const bool is_first = spec.adds_behind_projection;
    embedding_.emplace(
        embed_tokens_, spec.embedding_scale, positions, spec.first_learned_position, std::move(types),
        is_first ? projection : nullptr, load_axial(loader, spec, names.axial_positions),
        spec.sinusoidal_positions,
        EmbeddingAdapters(
            loader, {names.embed_tokens, {spec.vocab_size, embedding_size(spec)}, embed_tokens_->tokens()}));
    if (!is_first) embedding_projection_ = projection;
    if (spec.next_token)
      next_token_.emplace(loader, names.block(0).next_token, hidden_size_, *spec.next_token);
    if (spec.self_conditioning)
      self_conditioning_.emplace(loader, *spec.self_conditioning, hidden_size_, spec.embedding_scale,
                                 names.self_conditioning);
    if (spec.drafter && spec.drafter->block)
      draft_context_.emplace(loader, names.block(0).drafter, hidden_size_, *spec.drafter);
    else if (spec.drafter)
      drafter_input_.emplace(loader, names.block(0), hidden_size_, *spec.drafter);
    draft_offset_ = draft_offset_of(spec);
    sequence_head_ = load_sequence_head(loader, spec, names);
  }
  relative_bias_ = load_relative_bias(loader, spec, names.relative_bias);
  per_layer_inputs_ = load_per_layer_inputs(loader, spec, names.per_layer_inputs);
  altup_ = load_altup(loader, spec, names.altup_streams);
  blocks_ = load_blocks(loader, spec, names, stage.layers(spec.blocks.size()));
  max_chosen_ = max_chosen(spec);
  candidate_blocks_ = candidate_blocks(spec);
  shares_indexers_ = shares_indexers(spec);
  first_values_ = elements_of_first_values(spec, loader.tp());
  if (stage.is_last()) {
    if (const HyperConnectionSpec* const connection = hyper_connection_of(spec))
      last_connection_ = LastConnection(loader, *connection, hidden_size_, names.last_connection);
    if (const LowRankConnectionSpec* const connection = low_rank_connection_of(spec))
      last_connection_ = LowRankConnection(loader, *connection, hidden_size_, names.last_low_rank);
    if (const DepthAttentionSpec* const depth = depth_attention_of(spec))
      last_connection_ =
          DepthAttention(loader, depth->norm, depth->sums, false, hidden_size_, names.last_residual);
    final_norm_ = load_if_present(loader, names.final_norm, state_size(spec), spec.final_norm);
    output_tokens_ = predicts_with_embedding ? embed_tokens_ : others.head;
    if (!output_tokens_)
      output_tokens_ = std::make_shared<VocabShard>(
          loader, names.lm_head, head_rows(spec), head_size(spec),
          head_rows(spec) == spec.vocab_size ? "vocab_size" : "draft_vocab_size");
    draft_vocabulary_ = load_draft_vocabulary(loader, spec, names);
    if (spec.drafter && spec.drafter->block && spec.drafter->block->markov)
      markov_head_.emplace(loader, names.block(0).drafter, spec.vocab_size, hidden_size_,
                           *spec.drafter->block->markov);
    gives_state_before_norm_ = spec.drafter && !spec.drafter->keeps_normed_output;
    head_transform_ = load_transform(loader, spec, names);
    lm_head_ = load_lm_head(loader, spec, names, output_tokens_);
  }
  loaded_ = loader.loaded();
  if (spec.encoder) {
    Model encoder;
    encoder.first_layer_ = blocks_.size();
    encoder.load(*spec.encoder, loader, stage, {.embedding = embed_tokens_});
    encoder_ = std::make_shared<const Model>(std::move(encoder));
  }
  const bool is_part = (others.embedding != nullptr && !spec.drafter) || spec.next_token;
  if (!is_part) {
    // The first rank owns a part of every layer; others may own nothing of a small one.
    if (stage.is_whole() && loader.tp().is_first()) require_adapters_are_used(loader);
    unused_tensors_ = loader.unread_tensors();
    if (stage.is_whole()) unused_tensors_ = find_unused_tensors(names, loader.source(), unused_tensors_);
    require_all_used(spec, unused_tensors_);
  }
  all_loaded_ = loader.loaded();
  largest_columns_ = loader.largest_columns();
}

std::size_t count_parameters(const ModelSpec& spec) {
  return Model::shape_of(spec, SyntheticWeights(), {0, 1}, {}).parameters() + spec.unused_parameters;
}

std::size_t count_active_parameters(const ModelSpec& spec) {
  std::size_t total = count_parameters(spec) - spec.unused_parameters;
  for (const BlockSpec& block : spec.blocks) {
    if (const auto& table = block.hash_table; table)
      total -= table->rows * table->row_size - table->embed_dim();
    const MixtureOfExpertsSpec* const experts = experts_in(block);
    if (experts == nullptr) continue;
    const RouterSpec& router = experts->router;
    const std::size_t size = experts->intermediate_size;
    const std::size_t width = experts->latent_size != 0 ? experts->latent_size : spec.hidden_size;
    const std::size_t matrices = experts->gated ? 3 : 2;
    const std::size_t biases = experts->bias ? (matrices - 1) * size + width : 0;
    total -= (router.num_experts - router.num_experts_per_tok) * (matrices * size * width + biases);
  }
  return total;
}

}  // namespace tp
