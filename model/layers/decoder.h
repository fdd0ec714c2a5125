// The whole model on this rank: embedding, blocks, final norm, LM head.
#pragma once

#include "model/config/spec.h"
#include "model/layers/batch.h"
#include "model/layers/decoder_block.h"
#include "model/layers/embedding.h"
#include "model/layers/rope.h"
#include "model/memory/kv_cache.h"

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
  std::size_t block_size = 0;  // of the cache, in tokens
  std::size_t max_blocks = 0;  // of one sequence
};

class Decoder {
 public:
  // Reads this rank's slices, from the cache if there is one that can be read, and holds them in the type
  // that is given or else in their own. Throws ConfigError, CheckpointError or PackedCacheError; does not
  // communicate, unless the source's ColumnReader does.
  Decoder(const DecoderSpec& spec, const WeightSource& source, TpRank tp,
          std::optional<WeightType> weights = WeightType::f32, const LoadProgress& progress = {},
          PackedCache* cache = nullptr);

  // The same decoder without its weights: it can say what it takes of memory, and nothing is read. Throws as
  // the constructor does, as far as names and shapes tell.
  static Decoder shape_of(const DecoderSpec& spec, const WeightSource& source, TpRank tp,
                          std::optional<WeightType> weights);

  // Runs one step: two all-reduces for a sequential block, one for a parallel one, and one for the embedding;
  // one more for a block whose query and key are normed as a whole.
  // `on_logits` gets the logits of the output rows in groups of at most kLogitRows: the index of the first
  // output and a tensor [rows, local_vocab]. Every rank calls it with its shard. `on_hidden` gets the hidden
  // rows behind the final norm in the same way: [rows, hidden_size], alike on every rank. Collective; throws
  // CommError.
  using OnLogits = std::function<void(std::size_t first_output, TensorView<const float> local_logits)>;
  using OnHidden = std::function<void(std::size_t first_output, TensorView<const float> hidden)>;
  void forward(Communicator& comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
               const OnLogits& on_logits, const OnHidden& on_hidden = {}) const;

  // What this rank caches of every layer.
  std::vector<kernels::KvLayout> kv_layouts(KvType type, std::size_t block_size) const;

  // The tokens whose logits this rank computes.
  Range local_vocab() const { return lm_head_.tokens(); }
  // Weights and biases that this rank holds, and their bytes.
  std::size_t parameters() const { return loaded_.elements; }
  std::size_t weight_bytes() const { return loaded_.bytes; }
  // Floats of workspace for any step within the limits, with as many threads as OpenMP has now: what such
  // steps take of a workspace that only counts.
  std::size_t workspace_floats(const StepLimits& limits) const;
  // The checkpoint's tensors outside of blocks that the model does not use, sorted; on the first rank.
  const std::vector<std::string>& unused_tensors() const { return unused_tensors_; }

  static constexpr std::size_t kLogitRows = 32;

 private:
  Decoder(const DecoderSpec& spec, const TensorNames& names, WeightLoader loader);

  // Without a communicator the step is of shapes, and `workspace` one that counts.
  void run(Communicator* comm, const Batch& batch, const KvCache& cache, Workspace& workspace,
           const OnLogits& on_logits, const OnHidden& on_hidden) const;

  std::shared_ptr<const VocabShard> embed_tokens_;
  VocabParallelEmbedding embedding_;
  std::optional<Norm> embedding_norm_;
  std::vector<std::shared_ptr<const DecoderBlock>> blocks_;
  Norm final_norm_;
  std::shared_ptr<const VocabShard> output_tokens_;  // embed_tokens_ where embeddings are tied
  LmHead lm_head_;
  std::vector<Rope> ropes_;
  std::vector<std::string> unused_tensors_;
  LoadedWeights loaded_;
};

// Weights and biases of the whole model.
std::size_t count_parameters(const DecoderSpec& spec);
// Those that one token is multiplied with: of experts only as many as it takes.
std::size_t count_active_parameters(const DecoderSpec& spec);
}  // namespace tp
