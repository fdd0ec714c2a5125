// The whole model on this rank: embedding, blocks, final norm, head. An encoder is one whose blocks see in
// both directions, and a decoder may have one that it reads.
#pragma once

#include "model/config/spec.h"
#include "model/layers/attention/relative_bias.h"
#include "model/layers/blocks/decoder_block.h"
#include "model/layers/blocks/residual.h"
#include "model/layers/embedding.h"
#include "model/layers/head_transform.h"
#include "model/layers/linear/batch.h"
#include "model/layers/linear/rope.h"
#include "model/layers/next_token_input.h"
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

// How large a step can be.
struct StepLimits {
  std::size_t tokens = 0;   // in a batch
  std::size_t outputs = 0;  // rows of logits in a batch
  KvType kv_type = KvType::f32;
  std::size_t block_size = 0;  // tokens of a cache block
  std::size_t max_blocks = 0;  // blocks of one sequence
  bool overlaps = false;       // steps may be computed as two half-batches in turns
};

// Bytes that a rank reads and operations that it computes in a step, from the shapes of its weights.
struct StepWork {
  LoadedWeights blocks;  // weights of all blocks, once per token; experts only if tokens are routed to them
  LoadedWeights head;    // the LM head: once per row of logits
  SumTally sums;         // over ranks
};

class Decoder {
 public:
  // Reads this rank's slices, from the cache if there is one that can be read, and holds them in the type
  // that is given or else in their own. Tables of another decoder with the same division are not loaded, nor
  // counted. Throws ConfigError, CheckpointError or PackedCacheError; does not communicate, unless the
  // source's ColumnReader does.
  Decoder(const DecoderSpec& spec, const WeightSource& source, TpRank tp,
          std::optional<WeightType> weights = WeightType::f32, const LoadProgress& progress = {},
          PackedCache* cache = nullptr, Stage stage = {}, const VocabTables& others = {});

  // A decoder without weights, for its memory needs: nothing is read. Throws the constructor's errors about
  // names and shapes.
  static Decoder shape_of(const DecoderSpec& spec, const WeightSource& source, TpRank tp,
                          std::optional<WeightType> weights, Stage stage = {},
                          const VocabTables& others = {});

  // Runs one step: two all-reduces for a sequential block, one for a parallel one, and one for the embedding;
  // one more for a block whose query and key are normed as a whole, and for what reads states.
  // `on_logits` gets the logits of the output rows in groups of at most kLogitRows: the index of the first
  // output and a tensor [rows, local_vocab]. Every rank calls it with its shard. `on_hidden` gets the hidden
  // rows behind the final norm in the same way: [rows, hidden_size], alike on every rank. With an encoder
  // these are those of the inputs (Batch::inputs), which are encoded first. Collective; throws CommError.
  using OnLogits = std::function<void(std::size_t first_output, TensorView<const float> local_logits)>;
  using OnHidden = std::function<void(std::size_t first_output, TensorView<const float> hidden)>;
  // The residual stream between stages, [tokens, hidden_size]: every stage but the first receives it, and
  // every one but the last sends it and has no outputs.
  struct StageLinks {
    std::function<void(TensorView<float> x)> receive{};
    std::function<void(TensorView<const float> x)> send{};
    // Called between blocks, so that what was sent before travels meanwhile.
    std::function<void()> progress{};
  };
  void forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
               const OnLogits& on_logits, const OnHidden& on_hidden, const StageLinks& links) const;
  // The forward pass of a model that is one stage.
  void forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
               const OnLogits& on_logits, const OnHidden& on_hidden = {}) const {
    forward(comm, batch, cache, workspace, on_logits, on_hidden, {});
  }

  // Cache layout of each layer on this rank. A recurrent layer caches nothing: it has a state of so many
  // floats per sequence. An encoder's layers follow those of its decoder.
  std::vector<kernels::KvLayout> kv_layouts(KvType type, std::size_t block_size) const;
  std::vector<std::size_t> state_floats() const;

  // Whether it is the layer of a model that reads the model's states (Batch::states_before).
  bool reads_states() const { return next_token_.has_value(); }

  // The tokens whose logits this rank computes; none but on the last stage.
  Range local_vocab() const { return output_tokens_ ? output_tokens_->tokens() : Range{}; }
  VocabTables tables() const { return {embed_tokens_, output_tokens_}; }
  // The head over pooled hidden states, on the first rank of a model that has one; null otherwise.
  const SequenceHead* sequence_head() const { return sequence_head_ ? &*sequence_head_ : nullptr; }
  // Weights and biases that this rank holds, and their bytes.
  std::size_t parameters() const { return all_loaded_.elements; }
  std::size_t weight_bytes() const { return all_loaded_.bytes; }
  // Floats of workspace for any step within the limits, with as many threads as OpenMP has now: what such
  // steps take of a workspace that only counts.
  std::size_t workspace_floats(const StepLimits& limits) const;
  // Bytes that it holds beside the weights while ranks read columns together.
  std::size_t largest_columns() const { return largest_columns_; }
  // Work of a step of this many tokens, with tables of its own.
  StepWork work(std::size_t tokens) const;
  // The checkpoint's tensors outside of blocks that the model does not use, sorted; on the first rank. Of a
  // stage: all of which it has read nothing, for find_unused_tensors.
  const std::vector<std::string>& unused_tensors() const { return unused_tensors_; }

  static constexpr std::size_t kLogitRows = 32;

 private:
  Decoder() = default;
  // `others`: tables of a model that has this one as a part.
  void load(const DecoderSpec& spec, WeightLoader& loader, Stage stage, const VocabTables& others);

  // Some rows behind the final norm, in groups of at most kLogitRows, as on_rows(first, [rows, hidden_size]).
  template <class OnRows>
  void for_rows(TensorView<const float> x, std::span<const std::size_t> wanted, Workspace& workspace,
                const OnRows& on_rows) const;
  std::size_t whole_workspace_floats(const StepLimits& limits) const;
  // x: [rows, hidden_size] behind the final norm -> [rows, local_vocab]
  TensorView<float> logits(TensorView<const float> x, const StepContext& step) const;

  // Without a communicator the step is of shapes, and `workspace` one that counts.
  void run(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
           const OnLogits& on_logits, const OnHidden& on_hidden, const StageLinks& links,
           SumTally* tally = nullptr) const;
  // Calls use(x, step) with the stream behind the blocks, [tokens, hidden_size].
  template <class Use>
  void compute(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
               const StageLinks& links, SumTally* tally, const Use& use) const;
  // Runs the encoder, and has the blocks keep what they need of its states.
  void encode(Communicator* comm, const Batch& inputs, const KvCache& cache, Workspace& workspace,
              const OnHidden& on_hidden) const;
  Residual begin(Communicator* comm, const StepContext& step, const StageLinks& links) const;

  // Null or nothing is what a stage has no use for.
  Stage stage_;
  std::size_t hidden_size_ = 0;
  std::size_t streams_ = 1;
  std::shared_ptr<const VocabShard> embed_tokens_;
  std::optional<VocabParallelEmbedding> embedding_;
  std::optional<Norm> embedding_norm_;
  // [hidden_size, embedding_size], on every rank: of all that was summed; or a part of `embedding_`.
  std::shared_ptr<const ColumnParallelLinear> embedding_projection_;
  std::optional<NextTokenInput> next_token_;  // set for a multi-token prediction layer
  std::optional<RelativeBias> relative_bias_;
  std::vector<std::shared_ptr<const DecoderBlock>> blocks_;
  std::size_t first_layer_ = 0;  // first layer in the cache: an encoder's layers follow those of its decoder
  std::shared_ptr<const Decoder> encoder_;  // null: none
  std::optional<Norm> final_norm_;
  std::shared_ptr<const VocabShard> output_tokens_;  // embed_tokens_ where embeddings are tied
  std::optional<HeadTransform> head_transform_;
  std::optional<LmHead> lm_head_;
  std::optional<SequenceHead> sequence_head_;
  std::vector<Rope> ropes_;
  std::vector<std::string> unused_tensors_;
  LoadedWeights loaded_;      // but for the encoder
  LoadedWeights all_loaded_;  // with it
  std::size_t largest_columns_ = 0;
};

// Weights and biases of the whole model.
std::size_t count_parameters(const DecoderSpec& spec);
// Parameters that one token is multiplied with: only as many experts as it is routed to.
std::size_t count_active_parameters(const DecoderSpec& spec);
}  // namespace tp
