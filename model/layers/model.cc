#include "model/layers/model.h"

#include "model/kernels/experts.h"
#include "model/layers/half_batches.h"
#include "parallel/exchange/tracer.h"

#include <algorithm>
#include <span>

namespace tp {
namespace {

template <class Element>
void append(const std::vector<Element>& more, std::vector<Element>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

// Gives the batch an encoder input with the same number of tokens.
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

void Model::forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                    const OnLogits& on_logits, const OnHidden& on_hidden, const StageLinks& links) const {
  run(&comm, batch, cache, workspace, on_logits, on_hidden, links);
}

Residual Model::begin(Communicator* comm, const StepContext& step, const StageLinks& links,
                      TensorView<float> inputs) const {
  if (drafter_input_) return {comm, (*drafter_input_)(comm, (*embedding_)(step), step, inputs), step};
  if (next_token_) return {comm, (*next_token_)(comm, (*embedding_)(step), step), step};
  if (self_conditioning_) return {comm, (*self_conditioning_)(comm, (*embedding_)(step), step), step};
  if (stage_.is_first())
    return {
        comm, (*embedding_)(step), embedding_norm_, embedding_projection_.get(), streams_, stream_weights_,
        step};
  const TensorView<float> x =
      step.workspace.take(step.batch.tokens.size(), streams_ * hidden_size_ + stream_weights_);
  if (comm != nullptr) {
    links.receive(x);
    if (sends_choice(step.batch)) links.receive(step.chosen);
  }
  return {comm, x, step, streams_, stream_weights_};
}

void Model::announce_rows(StepContext step, const KvCache& cache) const {
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    if (hash_table_of(*blocks_[layer]) == nullptr) continue;
    step.states = cache.states().layer(first_layer_ + layer);
    tp::announce_rows(*blocks_[layer], step);
  }
}

void Model::capture(std::size_t layers, TensorView<const float> stream, const Batch& batch) const {
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    if (captured_[i] != layers) continue;
    for (std::size_t row = 0; row < batch.captured.size(); ++row)
      std::copy_n(stream.row(row), stream.columns(), batch.captured[row] + i * stream.columns());
  }
}

// A token at position p sees p + 1 positions.
bool Model::sends_choice(const Batch& batch) const {
  return shares_indexers_ && std::ranges::max(batch.positions) >= max_chosen_;
}

template <class Use>
void Model::compute(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                    const StageLinks& links, SumTally* tally, const Use& use) const {
  const Workspace::Frame frame(workspace);
  const AdapterRows adapters(batch.adapters);
  std::vector<RopeAngles> angles;
  for (const Rope& rope : ropes_) angles.push_back(rope(batch.positions, workspace));
  StepContext step{.batch = batch,
                   .workspace = workspace,
                   .ropes = angles,
                   .tracer = comm != nullptr ? &comm->tracer() : nullptr,
                   .comm = comm,
                   .relative_bias = relative_bias_ ? &*relative_bias_ : nullptr,
                   .tally = tally,
                   .adapters = comm != nullptr ? &adapters : nullptr};
  TensorView<float> inputs;  // inputs of all layers, [tokens, layers * size]
  if (per_layer_inputs_) inputs = workspace.take(batch.tokens.size(), per_layer_inputs_->columns());
  if (first_values_ != 0) step.first_values = workspace.take(batch.tokens.size(), first_values_);
  if (drafter_input_) inputs = workspace.take(batch.tokens.size(), hidden_size_);
  if (max_chosen_ != 0) step.chosen = workspace.take(batch.tokens.size(), max_chosen_);
  if (candidate_blocks_ != 0) step.candidates = workspace.take(batch.tokens.size(), candidate_blocks_);
  if (comm != nullptr) announce_rows(step, cache);
  Residual residual = begin(comm, step, links, inputs);
  if (per_layer_inputs_) per_layer_inputs_->compute(comm, residual.stream(0), step, inputs);
  if (altup_) altup_->begin(residual, step);
  capture(0, residual.rows(), batch);
  const std::size_t input_size = inputs.columns() / std::max<std::size_t>(1, blocks_.size());
  SumTally of_block;
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    // A shape-only step skips a block that is the same as the previous one: both need the same workspace.
    const bool again = comm == nullptr && layer > 0 && blocks_[layer] == blocks_[layer - 1];
    if (again) {
      if (tally != nullptr) *tally += of_block;
      continue;
    }
    const SumTally before = tally != nullptr ? *tally : SumTally{};
    const std::size_t cached = first_layer_ + layer;
    step.cache_group = cache.group(cached);
    step.shared_cache = cache.shared(cached);
    step.states = cache.states().layer(cached);
    step.layer_input = inputs.columns_from(layer * input_size, input_size);
    std::visit([&](const auto& block) { block(residual, step, cache.layer(cached)); }, *blocks_[layer]);
    capture(layer + 1, residual.rows(), batch);
    if (tally != nullptr) of_block = *tally - before;
    if (comm != nullptr && links.progress) links.progress();
  }
  use(residual.rows(), step);
}

void Model::encode(Communicator* comm, const Batch& inputs, const KvCache& cache, Workspace& workspace,
                   const OnHidden& on_hidden) const {
  const auto keep = [&](TensorView<const float> x, StepContext step) {
    const TensorView<const float> states = encoder_->final_norm_ ? (*encoder_->final_norm_)(x, workspace) : x;
    for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
      step.cache_group = cache.group(layer);
      const CrossAttention* const reader = cross_attention_of(*blocks_[layer]);
      if (reader != nullptr) reader->remember(states, step, cache.layer(layer));
    }
    encoder_->for_rows(
        x, inputs.hidden_rows, step,
        [&](std::size_t first, TensorView<const float> rows, const StepContext&) { on_hidden(first, rows); });
  };
  encoder_->compute(comm, inputs, cache, workspace, {}, nullptr, keep);
}

void Model::remember(Communicator* comm, const Batch& context, const KvCache& cache,
                     Workspace& workspace) const {
  const Workspace::Frame frame(workspace);
  std::vector<RopeAngles> angles;
  for (const Rope& rope : ropes_) angles.push_back(rope(context.positions, workspace));
  StepContext step{.batch = context,
                   .workspace = workspace,
                   .ropes = angles,
                   .tracer = comm != nullptr ? &comm->tracer() : nullptr,
                   .comm = comm};
  const TensorView<const float> states = (*draft_context_)(comm, step);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    step.cache_group = cache.group(layer);
    step.shared_cache = cache.shared(layer);
    std::visit([&](const auto& block) { block.attention().remember(states, step, cache.layer(layer)); },
               *blocks_[layer]);
  }
}

void Model::run(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
                const OnLogits& on_logits, const OnHidden& on_hidden, const StageLinks& links,
                SumTally* tally) const {
  if (batch.inputs && draft_context_)
    remember(comm, *batch.inputs, cache, workspace);
  else if (batch.inputs)
    encode(comm, *batch.inputs, cache, workspace, on_hidden);
  if (batch.tokens.empty()) return;  // a step that only runs the encoder, or caches a context
  compute(comm, batch, cache, workspace, links, tally,
          [&](TensorView<const float> x, const StepContext& step) {
            if (!stage_.is_last()) {
              if (comm == nullptr) return;
              links.send(x);
              if (sends_choice(batch)) links.send(step.chosen);
              return;
            }
            for_rows(x, batch.hidden_rows, step,
                     final_norm_ && !gives_state_before_norm_ ? &*final_norm_ : nullptr,
                     [&](std::size_t first, TensorView<const float> rows, const StepContext&) {
                       on_hidden(first, rows);
                     });
            for_rows(x, batch.output_rows, step,
                     [&](std::size_t first, TensorView<const float> rows, const StepContext& own) {
                       const TensorView<float> shard = logits(rows, own);
                       // Room for the weights from which the caller computes soft embeddings, and for their
                       // sums.
                       if (comm == nullptr && self_conditioning_) {
                         workspace.take(shard.rows(), shard.columns());
                         workspace.take_doubles(shard.rows(), hidden_size_ + 1);
                       }
                       on_logits(first, shard);
                     });
          });
}

TensorView<float> Model::end(TensorView<float> streams, const StepContext& step) const {
  if (altup_) return altup_->end(streams, step);
  if (const auto* const last = std::get_if<LastConnection>(&last_connection_)) return (*last)(streams, step);
  if (const auto* const last = std::get_if<LowRankConnection>(&last_connection_))
    return last->mixed(streams, step);
  if (const auto* const last = std::get_if<DepthAttention>(&last_connection_)) return (*last)(streams, step);
  return streams;
}

template <class OnRows>
void Model::for_rows(TensorView<const float> x, std::span<const std::size_t> wanted, const StepContext& step,
                     const Norm* norm, const OnRows& on_rows) const {
  for (std::size_t first = 0; first < wanted.size(); first += kLogitRows) {
    const Workspace::Frame frame(step.workspace);
    const std::size_t rows = std::min(kLogitRows, wanted.size() - first);
    const TensorView<float> streams = step.workspace.take(rows, x.columns());
    kernels::gather_rows(x, wanted.subspan(first, rows), streams);
    StepContext own = step;
    const AdapterRows adapters =
        step.adapters != nullptr ? step.adapters->of(wanted.subspan(first, rows)) : AdapterRows();
    if (step.adapters != nullptr) own.adapters = &adapters;
    const TensorView<float> last = end(streams, own);
    on_rows(first, norm != nullptr ? (*norm)(last, step.workspace) : last, own);
  }
}

TensorView<float> Model::logits(TensorView<const float> x, const StepContext& step) const {
  const TraceSpan span(step.tracer, Activity::logits, x.rows());
  const TensorView<float> rows = (*lm_head_)(head_transform_ ? (*head_transform_)(x, step) : x, step);
  return draft_vocabulary_ ? draft_vocabulary_->spread(rows, step.workspace) : rows;
}

std::vector<kernels::KvLayout> Model::kv_layouts(KvType type, std::size_t block_size) const {
  std::vector<kernels::KvLayout> layouts;
  for (const auto& block : blocks_) {
    const auto& attention = std::visit(
        [](const auto& any) -> const auto& { return any.attention(); }, *block);
    layouts.push_back(attention.kv_layout(type, block_size));
  }
  if (encoder_) append(encoder_->kv_layouts(type, block_size), layouts);
  return layouts;
}

std::vector<std::size_t> Model::state_floats() const {
  std::vector<std::size_t> floats;
  for (const auto& block : blocks_) floats.push_back(state_floats_of(*block));
  if (encoder_) append(encoder_->state_floats(), floats);
  return floats;
}

std::vector<std::vector<StatePart>> Model::state_parts() const {
  std::vector<std::vector<StatePart>> parts;
  for (const auto& block : blocks_) parts.push_back(state_parts_of(*block));
  return parts;
}

std::size_t Model::workspace_floats(const StepLimits& limits) const {
  const std::size_t whole = whole_workspace_floats(limits);
  if (!limits.overlaps) return whole;
  StepLimits half = limits;
  half.tokens = larger_half(limits.tokens);
  return std::max(whole, 2 * whole_workspace_floats(half));
}

std::size_t Model::whole_workspace_floats(const StepLimits& limits) const {
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
    if (encoder_ || draft_context_) add_inputs(table, batch);
    const auto ignore = [](std::size_t, TensorView<const float>) {};
    run(nullptr, batch, cache, workspace, ignore, ignore, {});
  };
  count(limits.tokens);
  // Matmuls with few tokens take different code paths, some of which need more workspace.
  for (std::size_t tokens = 1; tokens <= std::min(limits.tokens, kernels::kMaxFewTokens); ++tokens)
    count(tokens);
  return workspace.peak_bytes() / sizeof(float);
}

StepWork Model::work(std::size_t tokens) const {
  constexpr std::size_t kBlock = 32;  // tokens per block of the empty cache
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
  if (per_layer_inputs_) take(per_layer_inputs_->table());
  for (const auto& block : blocks_) {
    if (const HashTable* const table = hash_table_of(*block))
      work.blocks = work.blocks - table->rows().loaded();
  }
  if (output_tokens_) work.head = take(*output_tokens_);
  return work;
}

}  // namespace tp
