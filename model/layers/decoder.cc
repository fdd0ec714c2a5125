#include "model/layers/decoder.h"

#include "model/kernels/experts.h"
#include "model/layers/half_batches.h"
#include "model/weights/checkpoint/synthetic_weights.h"
#include "model/weights/unused_tensors.h"
#include "parallel/tracer.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <span>

namespace tp {
namespace {

using Blocks = std::vector<std::shared_ptr<const DecoderBlock>>;

// The first layer that has the same stored block.
std::size_t first_of_same_block(const TensorNames& names, std::size_t layer) {
  std::size_t first = 0;
  while (names.stored_block(first) != names.stored_block(layer)) ++first;
  return first;
}

// Layers that share a stored block are one block, and so are equal layers without weights (shapes only).
Blocks load_blocks(WeightLoader& loader, const DecoderSpec& spec, const TensorNames& names, Range layers) {
  const bool alike = loader.is_uniform();
  const std::span<const BlockSpec> specs = std::span(spec.blocks).subspan(layers.begin, layers.size());
  Blocks blocks;
  std::vector<LoadedWeights> loaded;  // of every block
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

std::shared_ptr<const VocabShard> load_vocab(WeightLoader& loader, const DecoderSpec& spec,
                                             const std::string& layer, std::size_t size) {
  return std::make_shared<VocabShard>(loader, layer, spec.vocab_size, size);
}

TensorNames names_of(const DecoderSpec& spec, const WeightSource& source) {
  const TensorNames names = spec.names.as_stored_in(source);
  return spec.next_token ? names.of_next_token_layer(source) : names;
}

// What the LM head multiplies.
std::size_t head_size(const DecoderSpec& spec) {
  return streams_of(spec) == 1 ? embedding_size(spec) : state_size(spec);
}

// Throws CheckpointError unless this rank's rows of both tables hold the same.
void require_tied(WeightLoader& loader, const DecoderSpec& spec, const TensorNames& names) {
  const auto table = [&](const std::string& layer) {
    return StoredLayer{layer, {spec.vocab_size, embedding_size(spec)}, "vocab_size", "hidden_size"};
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
  if (!spec.tied_embeddings || !is_stored(names.lm_head))
    return load_vocab(loader, spec, names.embed_tokens, embedding_size(spec));
  if (!is_stored(names.embed_tokens)) return load_vocab(loader, spec, names.lm_head, embedding_size(spec));
  require_tied(loader, spec, names);
  return load_vocab(loader, spec, names.embed_tokens, embedding_size(spec));
}

// Of what is added to token vectors.
std::size_t added_size(const DecoderSpec& spec) {
  return spec.adds_behind_projection ? spec.hidden_size : embedding_size(spec);
}

std::shared_ptr<const VocabShard> load_positions(WeightLoader& loader, const DecoderSpec& spec,
                                                 const std::string& layer) {
  if (spec.learned_positions == 0) return nullptr;
  return std::make_shared<VocabShard>(loader, layer, spec.learned_positions, added_size(spec),
                                      "max_position_embeddings");
}

std::shared_ptr<const VocabShard> load_types(WeightLoader& loader, const DecoderSpec& spec,
                                             const std::string& layer) {
  if (spec.token_types == 0) return nullptr;
  return std::make_shared<VocabShard>(loader, layer, spec.token_types, added_size(spec), "type_vocab_size");
}

// On the first rank, which adds them to the others' addends.
std::optional<AxialPositions> load_axial(WeightLoader& loader, const DecoderSpec& spec,
                                         const std::string& name) {
  if (!spec.axial_positions || !loader.tp().is_first()) return std::nullopt;
  return AxialPositions(loader, name, *spec.axial_positions);
}

// Of token vectors to hidden_size. All of it on every rank, as each needs all of the result.
std::shared_ptr<const ColumnParallelLinear> load_projection(WeightLoader& loader, const DecoderSpec& spec,
                                                            const std::string& layer) {
  if (spec.embedding_size == 0) return nullptr;
  const std::vector<OwnedRows> whole = {
      {{layer, {spec.hidden_size, spec.embedding_size}, "hidden_size", "embedding_size"},
       {0, spec.hidden_size}}};
  return std::make_shared<ColumnParallelLinear>(loader, whole, !spec.adds_behind_projection);
}

std::optional<RelativeBias> load_relative_bias(WeightLoader& loader, const DecoderSpec& spec,
                                               const std::string& layer) {
  if (!spec.relative_bias) return std::nullopt;
  return RelativeBias(loader, layer, *spec.relative_bias);
}

// Of this rank's tokens.
std::vector<float> load_lm_head_bias(WeightLoader& loader, const DecoderSpec& spec,
                                     const TensorNames& names) {
  if (!spec.lm_head_bias) return {};
  if (!names.lm_head_bias_row.empty())
    return loader.part_of_vector(names.lm_head_bias_row, spec.vocab_size,
                                 shard_columns(spec.vocab_size, loader.tp()), "vocab_size");
  const std::string& layer = names.lm_head_bias.empty() ? names.lm_head : names.lm_head_bias;
  const std::vector<OwnedRows> own = {{{layer, {spec.vocab_size, head_size(spec)}, "vocab_size", {}},
                                       shard_columns(spec.vocab_size, loader.tp())}};
  return loader.rows_of_biases(own);
}

std::optional<HeadTransform> load_transform(WeightLoader& loader, const DecoderSpec& spec,
                                            const TensorNames& names) {
  if (!spec.head_transform) return std::nullopt;
  return HeadTransform(loader, names, *spec.head_transform, spec.hidden_size);
}

std::optional<LmHead> load_lm_head(WeightLoader& loader, const DecoderSpec& spec, const TensorNames& names,
                                   std::shared_ptr<const VocabShard> tokens) {
  if (!spec.has_lm_head) return std::nullopt;
  return LmHead(std::move(tokens), load_lm_head_bias(loader, spec, names), spec.logit_scale,
                spec.logit_softcap);
}

// On the first rank, which pools.
std::optional<SequenceHead> load_sequence_head(WeightLoader& loader, const DecoderSpec& spec,
                                               const TensorNames& names) {
  if (!spec.sequence_head || !loader.tp().is_first()) return std::nullopt;
  const SequenceHeadSpec& head = *spec.sequence_head;
  const bool is_there = !head.may_be_missing || SequenceHead::is_stored(loader.source(), head, names.body);
  if (!is_there) return std::nullopt;
  return SequenceHead(loader, head, spec.hidden_size, names.body);
}

template <class Element>
void append(const std::vector<Element>& more, std::vector<Element>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

// As many tokens of inputs as the batch has, which its sequence reads.
void add_inputs(std::span<const std::int32_t> table, Batch& batch) {
  Batch inputs;
  inputs.tokens = batch.tokens;
  inputs.positions = batch.positions;
  inputs.spans = {{{0, batch.tokens.size(), 0, table}}};
  inputs.hidden_rows = batch.hidden_rows;
  batch.contexts = inputs.spans.front();
  batch.inputs = std::make_shared<Batch>(std::move(inputs));
}

}  // namespace

Decoder::Decoder(const DecoderSpec& spec, const WeightSource& source, TpRank tp,
                 std::optional<WeightType> weights, const LoadProgress& progress, PackedCache* cache,
                 Stage stage) {
  WeightLoader loader(source, tp, weights, progress, WeightLoader::Mode::weights, leaf_heads(spec), cache);
  load(spec, loader, stage);
}

Decoder Decoder::shape_of(const DecoderSpec& spec, const WeightSource& source, TpRank tp,
                          std::optional<WeightType> weights, Stage stage) {
  WeightLoader loader(source, tp, weights, {}, WeightLoader::Mode::shapes, leaf_heads(spec));
  Decoder shape;
  shape.load(spec, loader, stage);
  return shape;
}

void Decoder::load(const DecoderSpec& spec, WeightLoader& loader, Stage stage,
                   std::shared_ptr<const VocabShard> tokens) {
  const TensorNames names = names_of(spec, loader.source());
  const bool is_part = tokens != nullptr;
  stage_ = stage;
  hidden_size_ = spec.hidden_size;
  streams_ = streams_of(spec);
  ropes_ = distinct_ropes(spec);
  const bool predicts_with_embedding = stage.is_last() && (spec.tied_embeddings || !spec.has_lm_head);
  embed_tokens_ = std::move(tokens);
  if (!is_part && (stage.is_first() || predicts_with_embedding))
    embed_tokens_ = load_embedding(loader, spec, names);
  if (stage.is_first()) {
    const auto positions = load_positions(loader, spec, names.embed_positions);
    const auto types = load_types(loader, spec, names.token_types);
    embedding_norm_ =
        load_if_present(loader, names.embedding_norm, embedding_size(spec), spec.embedding_norm);
    const auto projection = load_projection(loader, spec, names.embedding_projection);
    const bool is_first = spec.adds_behind_projection;
    embedding_.emplace(embed_tokens_, spec.embedding_scale, positions, spec.first_learned_position, types,
                       is_first ? projection : nullptr, load_axial(loader, spec, names.axial_positions),
                       spec.sinusoidal_positions);
    if (!is_first) embedding_projection_ = projection;
    if (spec.next_token)
      next_token_.emplace(loader, names.block(0).next_token, hidden_size_, *spec.next_token);
    sequence_head_ = load_sequence_head(loader, spec, names);
  }
  relative_bias_ = load_relative_bias(loader, spec, names.relative_bias);
  blocks_ = load_blocks(loader, spec, names, stage.layers(spec.blocks.size()));
  if (stage.is_last()) {
    final_norm_ = load_if_present(loader, names.final_norm, state_size(spec), spec.final_norm);
    output_tokens_ =
        predicts_with_embedding ? embed_tokens_ : load_vocab(loader, spec, names.lm_head, head_size(spec));
    head_transform_ = load_transform(loader, spec, names);
    lm_head_ = load_lm_head(loader, spec, names, output_tokens_);
  }
  loaded_ = loader.loaded();
  if (spec.encoder) {
    Decoder encoder;
    encoder.first_layer_ = blocks_.size();
    encoder.load(*spec.encoder, loader, stage, embed_tokens_);
    encoder_ = std::make_shared<const Decoder>(std::move(encoder));
  }
  if (!is_part && !spec.next_token) {
    unused_tensors_ = loader.unread_tensors();
    if (stage.is_whole()) unused_tensors_ = find_unused_tensors(names, unused_tensors_);
  }
  all_loaded_ = loader.loaded();
  largest_columns_ = loader.largest_columns();
}

void Decoder::forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                      const OnLogits& on_logits, const OnHidden& on_hidden, const StageLinks& links) const {
  run(&comm, batch, cache, workspace, on_logits, on_hidden, links);
}

Residual Decoder::begin(Communicator* comm, const StepContext& step, const StageLinks& links) const {
  if (next_token_) return {comm, (*next_token_)(comm, (*embedding_)(step), step), {}, nullptr, 1, step};
  if (stage_.is_first())
    return {comm, (*embedding_)(step), embedding_norm_, embedding_projection_.get(), streams_, step};
  const TensorView<float> x = step.workspace.take(step.batch.tokens.size(), hidden_size_);
  if (comm != nullptr) links.receive(x);
  return {comm, x, step};
}

template <class Use>
void Decoder::compute(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                      const StageLinks& links, SumTally* tally, const Use& use) const {
  const Workspace::Frame frame(workspace);
  std::vector<RopeAngles> angles;
  for (const Rope& rope : ropes_) angles.push_back(rope(batch.positions, workspace));
  StepContext step{.batch = batch,
                   .workspace = workspace,
                   .ropes = angles,
                   .tracer = comm != nullptr ? &comm->tracer() : nullptr,
                   .comm = comm,
                   .relative_bias = relative_bias_ ? &*relative_bias_ : nullptr,
                   .tally = tally};
  Residual residual = begin(comm, step, links);
  SumTally of_block;
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    // A shape takes no more the second time.
    const bool again = comm == nullptr && layer > 0 && blocks_[layer] == blocks_[layer - 1];
    if (again) {
      if (tally != nullptr) *tally += of_block;
      continue;
    }
    const SumTally before = tally != nullptr ? *tally : SumTally{};
    const std::size_t cached = first_layer_ + layer;
    step.cache_group = cache.group(cached);
    step.states = cache.states().layer(cached);
    std::visit([&](const auto& block) { block(residual, step, cache.layer(cached)); }, *blocks_[layer]);
    if (tally != nullptr) of_block = *tally - before;
    if (comm != nullptr && links.progress) links.progress();
  }
  use(residual.rows(), step);
}

void Decoder::encode(Communicator* comm, const Batch& inputs, const KvCache& cache, Workspace& workspace,
                     const OnHidden& on_hidden) const {
  const auto keep = [&](TensorView<const float> x, StepContext step) {
    const TensorView<const float> states = encoder_->final_norm_ ? (*encoder_->final_norm_)(x, workspace) : x;
    for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
      step.cache_group = cache.group(layer);
      const CrossAttention* const reader = cross_attention_of(*blocks_[layer]);
      if (reader != nullptr) reader->remember(states, step, cache.layer(layer));
    }
    encoder_->for_rows(x, inputs.hidden_rows, workspace, on_hidden);
  };
  encoder_->compute(comm, inputs, cache, workspace, {}, nullptr, keep);
}

void Decoder::run(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                  const OnLogits& on_logits, const OnHidden& on_hidden, const StageLinks& links,
                  SumTally* tally) const {
  if (batch.inputs) encode(comm, *batch.inputs, cache, workspace, on_hidden);
  if (batch.tokens.empty()) return;  // the step does nothing but encode
  compute(comm, batch, cache, workspace, links, tally,
          [&](TensorView<const float> x, const StepContext& step) {
            if (!stage_.is_last()) {
              if (comm != nullptr) links.send(x);
              return;
            }
            for_rows(x, batch.hidden_rows, workspace, on_hidden);
            for_rows(x, batch.output_rows, workspace, [&](std::size_t first, TensorView<const float> rows) {
              on_logits(first, logits(rows, step));
            });
          });
}

template <class OnRows>
void Decoder::for_rows(TensorView<const float> x, std::span<const std::size_t> wanted, Workspace& workspace,
                       const OnRows& on_rows) const {
  for (std::size_t first = 0; first < wanted.size(); first += kLogitRows) {
    const Workspace::Frame frame(workspace);
    const std::size_t rows = std::min(kLogitRows, wanted.size() - first);
    const TensorView<float> last = workspace.take(rows, x.columns());
    kernels::gather_rows(x, wanted.subspan(first, rows), last);
    on_rows(first, final_norm_ ? (*final_norm_)(last, workspace) : last);
  }
}

TensorView<float> Decoder::logits(TensorView<const float> x, const StepContext& step) const {
  const TraceSpan span(step.tracer, Activity::logits, x.rows());
  return (*lm_head_)(head_transform_ ? (*head_transform_)(x, step) : x, step.workspace);
}

std::vector<kernels::KvLayout> Decoder::kv_layouts(KvType type, std::size_t block_size) const {
  std::vector<kernels::KvLayout> layouts;
  for (const auto& block : blocks_) {
    const auto& attention = std::visit(
        [](const auto& any) -> const auto& { return any.attention(); }, *block);
    layouts.push_back(attention.kv_layout(type, block_size));
  }
  if (encoder_) append(encoder_->kv_layouts(type, block_size), layouts);
  return layouts;
}

std::vector<std::size_t> Decoder::state_floats() const {
  std::vector<std::size_t> floats;
  for (const auto& block : blocks_) {
    const auto& part = std::visit(
        [](const auto& any) -> const auto& { return any.attention(); }, *block);
    floats.push_back(part.state_floats());
  }
  if (encoder_) append(encoder_->state_floats(), floats);
  return floats;
}

std::size_t Decoder::workspace_floats(const StepLimits& limits) const {
  const std::size_t whole = whole_workspace_floats(limits);
  if (!limits.overlaps) return whole;
  StepLimits half = limits;
  half.tokens = larger_half(limits.tokens);
  return std::max(whole, 2 * whole_workspace_floats(half));
}

std::size_t Decoder::whole_workspace_floats(const StepLimits& limits) const {
  const KvCache cache(kv_layouts(limits.kv_type, limits.block_size), 0);
  const std::vector<std::int32_t> table(limits.max_blocks);
  Workspace workspace = Workspace::counting();
  const auto count = [&](std::size_t tokens) {
    Batch batch;
    batch.tokens.resize(tokens);
    batch.positions.resize(tokens);
    batch.spans = {{{0, tokens, 0, table}}};
    batch.states.resize(1);
    batch.is_global.assign(tokens, 1);
    batch.hidden_rows.resize(std::min({tokens, limits.outputs, kLogitRows}));
    if (lm_head_) batch.output_rows = batch.hidden_rows;
    if (encoder_) add_inputs(table, batch);
    const auto ignore = [](std::size_t, TensorView<const float>) {};
    run(nullptr, batch, cache, workspace, ignore, ignore, {});
  };
  count(limits.tokens);
  // Products of few tokens take paths of their own, some of which need more.
  for (std::size_t tokens = 1; tokens <= std::min(limits.tokens, kernels::kMostFewTokens); ++tokens)
    count(tokens);
  return workspace.peak_bytes() / sizeof(float);
}

StepWork Decoder::work(std::size_t tokens) const {
  constexpr std::size_t kBlock = 32;  // of a cache that holds nothing
  const KvCache cache(kv_layouts(KvType::f32, kBlock), 0);
  const std::vector<std::int32_t> table((tokens + kBlock - 1) / kBlock);
  Workspace workspace = Workspace::counting();
  Batch batch;
  batch.tokens.resize(tokens);
  batch.positions.resize(tokens);
  batch.spans = {{{0, tokens, 0, table}}};
  batch.contexts = batch.spans.front();
  StepWork work{.blocks = loaded_, .head = {}, .sums = {}};
  run(nullptr, batch, cache, workspace, {}, {}, {}, &work.sums);
  const auto take = [&](const VocabShard& vocab) {
    const LocalWeight& weight = vocab.weight();
    const LoadedWeights taken{weight.out_features() * weight.in_features(), weight.bytes()};
    work.blocks = work.blocks - taken;
    return taken;
  };
  if (embed_tokens_ && embed_tokens_ != output_tokens_) take(*embed_tokens_);
  if (output_tokens_) work.head = take(*output_tokens_);
  return work;
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
