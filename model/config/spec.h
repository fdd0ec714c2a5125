// A model's parts, as data. Each family of models has a function that makes a ModelSpec from the model's
// config (architectures.h).
#pragma once

#include "model/config/attention_spec.h"
#include "model/config/block_spec.h"
#include "model/config/checkpoint_config.h"
#include "model/config/diffusion_spec.h"
#include "model/config/feed_forward_spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/simd/vector/activation.h"
#include "tp/model_kind.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace tp {

// A bias of scores by the distance of key and query, shared by all layers: a table [num_buckets, heads]. Each
// short distance has its own row; longer distances share rows by range. Source: Raffel et al., Exploring the
// Limits of Transfer Learning (T5), 2020. Or ALiBi for tokens that also attend to later tokens: a head's
// slope times the distance, without a table.
struct RelativeBiasSpec {
  std::size_t num_buckets = 0;
  std::size_t max_distance = 0;  // from this distance on, all distances share a row
  bool bidirectional = true;     // half of the rows are for keys after the query
  std::size_t num_attention_heads = 0;
  std::vector<float> alibi_slopes{};  // [num_attention_heads], or empty: the bias has a table

  bool operator==(const RelativeBiasSpec&) const = default;
};

// A layer between the last hidden state and the LM head: norm(activation(dense(x))) in masked language
// models, dense(x) if token vectors are not of hidden_size.
struct HeadTransformSpec {
  std::size_t size = 0;  // out_features
  bool of_body = false;  // its name has the prefix of the model without a head
  bool bias = true;
  std::optional<Activation> activation{};
  std::optional<NormSpec> norm{};

  bool operator==(const HeadTransformSpec&) const = default;
};

// A layer over the pooled hidden state of a sequence: norm(activation(linear(x))).
struct PooledLayerSpec {
  enum class Activation : std::uint8_t { none, tanh, relu, gelu, gelu_tanh };

  std::string name;
  bool of_body = false;  // its name has the prefix of the model without a head
  std::size_t out_features = 0;
  bool bias = true;
  Activation activation = Activation::none;
  std::optional<NormSpec> norm{};  // under norm_name
  std::string norm_name{};
  // The layer's one row is the difference of two rows of a table of the vocabulary, which `name` is: of the
  // second token and of the first token. Empty: the layer has its own weight.
  std::vector<TokenId> tokens{};
  std::size_t vocab_size = 0;  // rows of the table

  bool operator==(const PooledLayerSpec&) const = default;
};

// Position vectors that consist of two parts, for the row and the column of the position in a table. Source:
// Kitaev et al., Reformer, 2020.
struct AxialPositionsSpec {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t row_size = 0;  // size of a row's vector
  std::size_t column_size = 0;

  bool operator==(const AxialPositionsSpec&) const = default;
};

// The input of a multi-token prediction layer, which replaces an embedding: projection([norm(vector of the
// token); norm(state after the token before)]). Source: DeepSeek-V3 Technical Report, 2024.
struct NextTokenSpec {
  NormSpec norm;  // used for both norms; each norm has its own gain

  bool operator==(const NextTokenSpec&) const = default;
};

// A head that adds output . input[token before] to the logits of a block's rows, one after the other, and may
// estimate how likely each draft token is accepted. Source: DeepSeek-AI, DSpark, 2026.
struct MarkovSpec {
  std::size_t rank = 0;  // size of vectors of tokens
  bool has_confidence = false;
  bool confidence_reads_token = false;  // the estimate depends on the token before, too

  bool operator==(const MarkovSpec&) const = default;
};

// A block of tokens that are drafted at once: a known token and mask tokens, which see each other and the
// context.
struct DraftBlockSpec {
  std::size_t size = 0;
  TokenId mask_token = 0;
  bool samples_from_anchor = false;  // each row drafts the token after its own, also the known token's row
  std::optional<MarkovSpec> markov{};

  bool operator==(const DraftBlockSpec&) const = default;
};

// How a trained drafter reads its target's residual streams.
//
// EAGLE-3 drafts one token after another. A token's state is projection(the streams at the position before
// it), or the drafter's own output there, if the token before is a draft token. The block's stream begins
// with the state, and the layer's own input is norm(vector of the token). Source: Li et al., EAGLE-3, 2025.
//
// Drafters of blocks (DFlash, DSpark) make the keys and values of all layers from norm(projection(the streams
// at the same position)), and compute only blocks of draft tokens. Source: z-lab, DFlash, 2025.
struct DrafterSpec {
  std::size_t streams = 0;                // streams of the target, side by side
  std::size_t stream_size = 0;            // the target's hidden_size
  NormSpec norm;                          // used for all norms; each norm has its own gain
  bool norms_streams = false;             // norms each stream before the projection
  bool norms_all_streams = false;         // norms all streams as one vector before the projection
  bool norms_state = false;               // the stream begins with norm(state), which attention also reads
  bool keeps_normed_output = false;       // the output is the state after the final norm
  std::size_t draft_vocab_size = 0;       // rows of the LM head; 0: vocab_size
  std::optional<DraftBlockSpec> block{};  // nullopt: EAGLE-3

  bool operator==(const DrafterSpec&) const = default;
};

// Inputs of all layers: (scale * row of the token + norm(projection(embedding))) / sqrt(2). Each layer gets
// `size` elements. The projection's result is divided by sqrt(hidden_size). Source: Gemma 3n.
struct PerLayerInputsSpec {
  std::size_t size = 0;  // elements of one layer's input
  std::size_t vocab_size = 0;
  NormSpec norm;  // norm of one layer's part of the projection

  bool operator==(const PerLayerInputsSpec&) const = default;
};

// The input of a canvas's tokens: embedding_norm(vector of the token + mlp(norm(soft embedding))). The soft
// embedding is the mean of all token vectors by the probabilities of the previous pass. Without a previous
// pass, the addend is 0. Source: Gemma 4's DiffusionGemma.
struct SelfConditioningSpec {
  NormSpec norm;
  GatedMlpSpec mlp;
  NormSpec embedding_norm;

  bool operator==(const SelfConditioningSpec&) const = default;
};

struct SequenceHeadSpec {
  Pooling pooling = Pooling::first;
  std::vector<PooledLayerSpec> layers;
  bool may_be_missing = false;  // some checkpoints lack the head

  bool operator==(const SequenceHeadSpec&) const = default;
};

// A stack of blocks: an encoder, or a decoder, which may contain the encoder that it reads.
struct ModelSpec {
  TensorNames names;
  std::size_t vocab_size = 0;
  std::size_t hidden_size = 0;
  std::size_t max_position_embeddings = 0;  // largest sequence in tokens
  float embedding_scale = 1.0F;
  std::size_t learned_positions = 0;       // rows of the table that is added to the embedding; 0: no table
  std::size_t first_learned_position = 0;  // the row of position 0
  bool sinusoidal_positions = false;       // add computed sines and cosines of positions
  std::optional<AxialPositionsSpec> axial_positions{};  // replaces the position table
  std::size_t token_types = 0;  // rows of the token type table, which is also added; 0: no table
  // Size of token vectors if they are projected to hidden_size; else 0. Positions and types have this size,
  // too, unless adds_behind_projection: then they are added after the projection, which has no bias.
  std::size_t embedding_size = 0;
  bool adds_behind_projection = false;
  std::optional<NormSpec> embedding_norm;  // before the projection
  std::optional<RelativeBiasSpec> relative_bias;
  std::optional<PerLayerInputsSpec> per_layer_inputs{};
  std::optional<SelfConditioningSpec> self_conditioning{};  // set if the model computes canvases
  std::vector<BlockSpec> blocks;
  std::optional<NormSpec> final_norm;  // nullopt: blocks norm the stream themselves
  // Tokens also attend to later tokens. Each sequence is computed in one step, and each layer needs keys and
  // values only while it runs. All layers therefore share the memory for them, unless keeps_sequences.
  bool bidirectional = false;
  // A token's results depend on later tokens, although it does not attend to them. The whole sequence is
  // therefore computed again for each generated token.
  bool recomputes = false;
  bool has_lm_head = true;
  std::optional<HeadTransformSpec> head_transform;  // before the LM head
  std::optional<SequenceHeadSpec> sequence_head;
  std::optional<DiffusionSpec> diffusion;
  std::optional<NextTokenSpec> next_token{};  // set for multi-token prediction layers
  std::optional<DrafterSpec> drafter{};       // set for trained drafters
  bool tied_embeddings = false;
  // Parameters of tensors that the original code has and never uses for texts. Published numbers of
  // parameters include them.
  std::size_t unused_parameters = 0;
  bool lm_head_bias = false;
  float logit_scale = 1.0F;
  std::optional<float> logit_softcap;  // scaled logits become softcap * tanh(logit / softcap)
  // The encoder of an encoder-decoder, which shares the decoder's token table. Null: no encoder.
  std::shared_ptr<const ModelSpec> encoder{};
  // Set by the user, not by the model: results have the same bits on any number of ranks.
  bool same_bits = false;
  // Set by the user: if takes_whole_sequences(), keys and values outlast the step, so layers cannot share
  // memory.
  bool keeps_sequences = false;
};

// Whether each sequence is computed in one step, and its keys and values are needed only in this step.
inline bool takes_whole_sequences(const ModelSpec& spec) { return spec.bidirectional || spec.recomputes; }
// Whether a token's results do not depend on later tokens, so that a step can be divided.
inline bool can_divide_steps(const ModelSpec& spec) {
  return !takes_whole_sequences(spec) && spec.encoder == nullptr;
}

// Whether layers can be divided into stages, because each layer reads only the residual stream.
bool can_divide_layers(const ModelSpec& spec);

// Whether a block's sequences have states, and whether they have keys and values. A block may have both or
// neither.
bool keeps_state(const BlockSpec& block);
// Whether the state has open pools, of an indexer or of compressed attention.
bool keeps_open_pools(const BlockSpec& block);
bool keeps_keys(const BlockSpec& block);

// The experts of a block, instead of its MLP or in addition to it; null: none.
const MixtureOfExpertsSpec* experts_in(const BlockSpec& block);

// The streams of all blocks; null if the model has no AltUp.
inline const AltUpSpec* altup_of(const ModelSpec& spec) {
  return !spec.blocks.empty() && spec.blocks.front().altup ? &*spec.blocks.front().altup : nullptr;
}

// The hyper-connections of all blocks; null if the model has none.
inline const HyperConnectionSpec* hyper_connection_of(const ModelSpec& spec) {
  return !spec.blocks.empty() && spec.blocks.front().hyper_connection ? &*spec.blocks.front().hyper_connection
                                                                      : nullptr;
}

// Weights of streams that a token has between blocks, in addition to its streams.
inline std::size_t stream_weights_of(const ModelSpec& spec) {
  const HyperConnectionSpec* const connection = hyper_connection_of(spec);
  return connection != nullptr ? connection->lagging_weights() : 0;
}

// The hyper-connections of low rank of all blocks; null if the model has none.
inline const LowRankConnectionSpec* low_rank_connection_of(const ModelSpec& spec) {
  const bool has = !spec.blocks.empty() && spec.blocks.front().low_rank_connection;
  return has ? &*spec.blocks.front().low_rank_connection : nullptr;
}

// The first layer's attention residuals; null if the model has none.
inline const DepthAttentionSpec* depth_attention_of(const ModelSpec& spec) {
  return !spec.blocks.empty() && spec.blocks.front().depth_attention ? &*spec.blocks.front().depth_attention
                                                                     : nullptr;
}

// The number of streams of hidden_size between blocks.
inline std::size_t streams_of(const ModelSpec& spec) {
  if (const AltUpSpec* const altup = altup_of(spec)) return altup->streams;
  if (const HyperConnectionSpec* const connection = hyper_connection_of(spec)) return connection->streams;
  if (const LowRankConnectionSpec* const connection = low_rank_connection_of(spec))
    return connection->streams;
  if (const DepthAttentionSpec* const depth = depth_attention_of(spec)) return depth->sums + 1;
  const bool two = !spec.blocks.empty() && spec.blocks.front().wiring == BlockSpec::Wiring::reversible;
  return two ? 2 : 1;
}

// The size of a token's last hidden state: of one stream, or of the two streams of reversible blocks, which
// are concatenated.
inline std::size_t state_size(const ModelSpec& spec) {
  const bool is_one_stream = altup_of(spec) != nullptr || hyper_connection_of(spec) != nullptr ||
                             low_rank_connection_of(spec) != nullptr || depth_attention_of(spec) != nullptr;
  return is_one_stream ? spec.hidden_size : streams_of(spec) * spec.hidden_size;
}

// The size of token vectors.
inline std::size_t embedding_size(const ModelSpec& spec) {
  return spec.embedding_size != 0 ? spec.embedding_size : spec.hidden_size;
}

// The first block's part of type Part; null if there is none.
template <class Part>
const Part* first_part(const ModelSpec& spec) {
  for (const BlockSpec& block : spec.blocks) {
    if (const auto* const part = std::get_if<Part>(&block.attention)) return part;
  }
  return nullptr;
}

// The first Mamba-2 mixer, instead of attention or beside it; null if there is none.
const MambaSpec* first_mixer(const ModelSpec& spec);

// The earlier layer whose keys and values, or pools, the block reads; nullopt if it caches its own.
std::optional<std::size_t> shared_cache_layer(const BlockSpec& block);

// A block's indexer, its own or one that it shares; null if it has none.
const IndexerSpec* indexer_of(const BlockSpec& block);
// A block's indexer of blocks; null if it has none.
const BlockIndexerSpec* block_indexer_of(const BlockSpec& block);
// A block's indexer of pools in grouped-query attention; null if it has none.
const PooledIndexerSpec* pooled_indexer_of(const BlockSpec& block);
// The most positions (or pools) that any indexer of latents chooses for a token; 0 if there are no indexers.
std::size_t max_chosen(const ModelSpec& spec);
// The number of blocks of candidates that indexers choose for a token; 0 if there are no candidates.
std::size_t candidate_blocks(const ModelSpec& spec);
// The indexer of the first layer that has one; null: none.
const IndexerSpec* first_indexer(const ModelSpec& spec);
// Whether any layer uses the choice of another layer's indexer.
bool shares_indexers(const ModelSpec& spec);
bool has_hash_tables(const ModelSpec& spec);
// Sets HashTableSpec::is_divided in all layers.
void divide_hash_tables(ModelSpec& spec);

// With same_bits, the largest number of attention heads in a block, which determines the sizes of leaves (see
// leaf_of); else 0.
std::size_t leaf_heads(const ModelSpec& spec);

}  // namespace tp
