// This rank's part of the model: embedding, blocks, final norm, head. An encoder is also a Model,
// with bidirectional blocks. The decoder of an encoder-decoder contains the encoder whose states it reads.
#pragma once

#include "model/config/spec.h"
#include "model/layers/altup_projections.h"
#include "model/layers/attention/relative_bias.h"
#include "model/layers/blocks/decoder_block.h"
#include "model/layers/blocks/depth_attention.h"
#include "model/layers/blocks/hyper_connection.h"
#include "model/layers/blocks/low_rank_connection.h"
#include "model/layers/blocks/residual.h"
#include "model/layers/draft_context.h"
#include "model/layers/draft_vocabulary.h"
#include "model/layers/drafter_input.h"
#include "model/layers/embedding.h"
#include "model/layers/head_transform.h"
#include "model/layers/linear/batch.h"
#include "model/layers/linear/rope.h"
#include "model/layers/markov_head.h"
#include "model/layers/next_token_input.h"
#include "model/layers/per_layer_inputs.h"
#include "model/layers/self_conditioning.h"
#include "model/layers/sequence_head.h"
#include "model/layers/vocab_tables.h"
#include "model/memory/kv_cache.h"
#include "parallel/shard/stage.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct StepLimits {
  std::size_t tokens = 0;   // maximum tokens per batch
  std::size_t outputs = 0;  // maximum rows of logits per batch
  KvType kv_type = KvType::f32;
  std::size_t block_size = 0;  // tokens per cache block
  std::size_t max_blocks = 0;  // maximum blocks per sequence
  bool overlaps = false;       // steps may be computed as two half-batches
};

// A rank's work in one step: weights to read and multiply by, and sums over ranks. Computed from shapes.
struct StepWork {
  // All weights except vocabulary tables and hash tables. A token uses only the experts chosen for it.
  LoadedWeights blocks;
  LoadedWeights head;  // the LM head, used only for output rows
  SumTally sums;
};

class Model {
 public:
  // Loads this rank's slices of the weights, from `cache` if it can be read. `weights`: the type in memory;
  // nullopt keeps the stored types. `others`: tables to share with another model that is divided among
  // ranks the same way. Shared tables are neither loaded nor counted. Throws ConfigError, CheckpointError or
  // PackedCacheError. Collective only if the source's ColumnReader communicates.
  Model(const ModelSpec& spec, const WeightSource& source, TpRank tp,
        std::optional<WeightType> weights = WeightType::f32, const LoadProgress& progress = {},
        PackedCache* cache = nullptr, Stage stage = {}, const VocabTables& others = {});

  // A model without weights, for computing how much memory is needed. Reads no tensors. Throws the same
  // errors as the constructor if names or shapes are wrong.
  static Model shape_of(const ModelSpec& spec, const WeightSource& source, TpRank tp,
                        std::optional<WeightType> weights, Stage stage = {}, const VocabTables& others = {});

  // Runs one step. All-reduces: one for the embedding, one per parallel block, two per block of any other
  // kind, and one more for each cross-attention, ParallelExperts, ProjectionNorm, GroupNorm, NextTokenInput,
  // Mamba1, PerLayerInputs and SelfConditioning, for a HashTable that is not mapped, for experts with a
  // latent, and for gates with a cutoff. `on_logits` receives the logits of the output rows in groups of at
  // most kLogitRows rows. Each call passes the index of the group's first output and this rank's shard of the
  // logits, [rows, local_vocab]. `on_hidden` receives the hidden rows after the final norm, grouped the same
  // way: [rows, state_size], the same on every rank. An encoder runs first, on Batch::inputs, and also passes
  // the inputs' hidden rows to `on_hidden`. Collective; throws CommError.
  using OnLogits = std::function<void(std::size_t first_output, TensorView<const float> local_logits)>;
  using OnHidden = std::function<void(std::size_t first_output, TensorView<const float> hidden)>;
  // Passes the residual stream, [tokens, hidden_size], from stage to stage, and after it the choice of shared
  // indexers (StepContext::chosen), if the step has any. All stages except the first receive both. All stages
  // except the last send both and have no outputs.
  struct StageLinks {
    std::function<void(TensorView<float> x)> receive{};
    std::function<void(TensorView<const float> x)> send{};
    // Called after each block to let MPI advance messages in flight.
    std::function<void()> progress{};
  };
  void forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
               const OnLogits& on_logits, const OnHidden& on_hidden, const StageLinks& links) const;
  // The forward pass of a model with a single stage.
  void forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
               const OnLogits& on_logits, const OnHidden& on_hidden = {}) const {
    forward(comm, batch, cache, workspace, on_logits, on_hidden, {});
  }

  // For each layer on this rank: the cache layout, and the size of one sequence's state in floats. Recurrent
  // layers have a state and cache nothing. An encoder's layers follow the decoder's layers.
  std::vector<kernels::KvLayout> kv_layouts(KvType type, std::size_t block_size) const;
  std::vector<std::size_t> state_floats() const;
  // [layers on this rank], without an encoder: the parts of each layer's state.
  std::vector<std::vector<StatePart>> state_parts() const;

  // Whether this is a multi-token prediction layer or a drafter, which reads hidden states
  // (Batch::states_before).
  bool reads_states() const { return next_token_ || drafter_input_ || draft_context_; }
  // Whether this model computes canvases, whose tokens read soft embeddings (Batch::states_before).
  bool reads_soft_embeddings() const { return self_conditioning_.has_value(); }
  // Whether this is a drafter of blocks. Batch::inputs are then positions of its context, with the target's
  // streams as states: the step caches their keys and values first.
  bool has_draft_context() const { return draft_context_.has_value(); }
  // The head that corrects a block's logits row by row; null: none.
  const MarkovHead* markov_head() const { return markov_head_ ? &*markov_head_ : nullptr; }
  // The position of the token that is drafted in a row, counted from the token after the row's token.
  std::ptrdiff_t draft_offset() const { return draft_offset_; }
  // From now on, steps copy these residual streams of all tokens to Batch::captured: for each of `places`,
  // the stream after so many layers; 0 is the embedding. For models with one stream and one stage.
  void capture(std::vector<std::size_t> places) { captured_ = std::move(places); }
  bool captures() const { return !captured_.empty(); }

  // Divides the vocabulary instead of the LM head's tables; null: the LM head has all tokens.
  const DraftVocabulary* draft_vocabulary() const {
    return draft_vocabulary_ ? &*draft_vocabulary_ : nullptr;
  }
  VocabTables tables() const { return {embed_tokens_, output_tokens_}; }
  // The head for pooled hidden states; null on every rank but the first, or if the model has none.
  const SequenceHead* sequence_head() const { return sequence_head_ ? &*sequence_head_ : nullptr; }
  // Number of weights and biases on this rank, and their size in bytes.
  std::size_t parameters() const { return all_loaded_.elements; }
  std::size_t weight_bytes() const { return all_loaded_.bytes + all_loaded_.adapter_bytes; }
  // The part of weight_bytes that adapters have.
  std::size_t adapter_bytes() const { return all_loaded_.adapter_bytes; }
  // Size of the hash tables that stay in the checkpoint's files (MappedRows), whole on every rank. They count
  // neither as parameters nor as weight bytes of a rank.
  std::size_t table_bytes() const { return all_loaded_.mapped_bytes; }
  // Workspace size, in floats, that is sufficient for any step within the limits, given OpenMP's current
  // number of threads. Measured with shape-only steps.
  std::size_t workspace_floats(const StepLimits& limits) const;
  // Peak temporary memory in bytes, in addition to the weights, while ranks read columns together.
  std::size_t largest_columns() const { return largest_columns_; }
  // The work of a step with this many tokens. The model must not share another model's vocabulary tables.
  StepWork work(std::size_t tokens) const;
  // Sorted names of the checkpoint's tensors that the model does not use, as in find_unused_tensors. With
  // several stages: all tensors that this stage has not read. Empty on every rank but the first, in a
  // multi-token prediction layer, and if the model shares another model's embedding.
  const std::vector<std::string>& unused_tensors() const { return unused_tensors_; }

  static constexpr std::size_t kLogitRows = 32;

 private:
  Model() = default;
  // `others`: as in the constructor; an encoder gets the embedding of the decoder that contains it.
  void load(const ModelSpec& spec, WeightLoader& loader, Stage stage, const VocabTables& others);

  // The input of the final norm. streams: [rows, streams * hidden_size] -> [rows, state_size]
  TensorView<float> end(TensorView<float> streams, const StepContext& step) const;
  // Passes the wanted rows of the residual streams, after the final norm, to on_rows(first, [rows,
  // state_size], their step) in groups of at most kLogitRows.
  template <class OnRows>
  void for_rows(TensorView<const float> x, std::span<const std::size_t> wanted, const StepContext& step,
                const OnRows& on_rows) const {
    for_rows(x, wanted, step, final_norm_ ? &*final_norm_ : nullptr, on_rows);
  }
  // After `norm` instead; null: no norm.
  template <class OnRows>
  void for_rows(TensorView<const float> x, std::span<const std::size_t> wanted, const StepContext& step,
                const Norm* norm, const OnRows& on_rows) const;
  std::size_t whole_workspace_floats(const StepLimits& limits) const;
  // x: [rows, state_size] after the final norm -> [rows, local_vocab]
  TensorView<float> logits(TensorView<const float> x, const StepContext& step) const;

  // Without a communicator, runs a shape-only step with a counting `workspace`.
  void run(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
           const OnLogits& on_logits, const OnHidden& on_hidden, const StageLinks& links,
           SumTally* tally = nullptr) const;
  // Runs the blocks, then calls use(x, step) with the residual streams, [tokens, streams * hidden_size].
  template <class Use>
  void compute(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
               const StageLinks& links, SumTally* tally, const Use& use) const;
  // Runs the encoder, and caches the keys and values of its final states for cross-attention.
  void encode(Communicator* comm, const Batch& inputs, const KvCache& cache, Workspace& workspace,
              const OnHidden& on_hidden) const;
  // Caches the keys and values of a drafter's context.
  void remember(Communicator* comm, const Batch& context, const KvCache& cache, Workspace& workspace) const;
  // `inputs`: the layers' own inputs, which a drafter's input fills in.
  Residual begin(Communicator* comm, const StepContext& step, const StageLinks& links,
                 TensorView<float> inputs) const;
  // Begins to read the rows of hash tables that the step's tokens choose.
  void announce_rows(StepContext step, const KvCache& cache) const;
  // Copies the stream after `layers` layers if it is captured.
  void capture(std::size_t layers, TensorView<const float> stream, const Batch& batch) const;
  // Whether a stage also sends the positions that indexers have chosen, which the next stage may need.
  bool sends_choice(const Batch& batch) const;

  // Members that this stage does not need are null or empty.
  Stage stage_;
  std::size_t hidden_size_ = 0;
  std::size_t streams_ = 1;
  std::size_t stream_weights_ = 0;  // weights that a token has between blocks, after its streams
  std::shared_ptr<const VocabShard> embed_tokens_;
  std::optional<VocabParallelEmbedding> embedding_;
  std::optional<Norm> embedding_norm_;
  // [hidden_size, embedding_size], whole on every rank. Projects the summed embedding; null if `embedding_`
  // projects token vectors itself, or if the model has no projection.
  std::shared_ptr<const ColumnParallelLinear> embedding_projection_;
  std::optional<NextTokenInput> next_token_;  // set in a multi-token prediction layer
  std::optional<SelfConditioning> self_conditioning_;
  std::optional<DrafterInput> drafter_input_;
  std::optional<DraftContext> draft_context_;
  std::optional<MarkovHead> markov_head_;
  std::ptrdiff_t draft_offset_ = 0;
  bool gives_state_before_norm_ = false;  // hidden rows are those before the final norm
  std::vector<std::size_t> captured_;     // places of the captured streams
  std::optional<RelativeBias> relative_bias_;
  std::optional<PerLayerInputs> per_layer_inputs_;
  std::optional<AltUpProjections> altup_;
  // Set in the last stage: makes one stream of several, if AltUp doesn't.
  std::variant<std::monostate, LastConnection, LowRankConnection, DepthAttention> last_connection_;
  std::vector<std::shared_ptr<const DecoderBlock>> blocks_;
  std::size_t max_chosen_ = 0;            // positions that an indexer chooses; 0: there are no indexers
  std::size_t candidate_blocks_ = 0;      // see StepContext::candidates
  bool shares_indexers_ = false;          // whether layers use the choice of an earlier layer's indexer
  std::size_t first_values_ = 0;          // see StepContext::first_values: elements of a token
  std::size_t first_layer_ = 0;           // cache index of the first block; above 0 only in `encoder_`
  std::shared_ptr<const Model> encoder_;  // null: the model has no encoder
  std::optional<Norm> final_norm_;
  std::shared_ptr<const VocabShard> output_tokens_;  // embed_tokens_ if tied, or without an LM head
  std::optional<DraftVocabulary> draft_vocabulary_;
  std::optional<HeadTransform> head_transform_;
  std::optional<LmHead> lm_head_;
  std::optional<SequenceHead> sequence_head_;
  std::vector<Rope> ropes_;
  std::vector<std::string> unused_tensors_;
  LoadedWeights loaded_;      // without the encoder
  LoadedWeights all_loaded_;  // with the encoder
  std::size_t largest_columns_ = 0;
};

// Number of weights and biases in the whole model, with unused ones.
std::size_t count_parameters(const ModelSpec& spec);
// Number of parameters that one token uses. Routed experts count only if they process the token.
std::size_t count_active_parameters(const ModelSpec& spec);
}  // namespace tp
