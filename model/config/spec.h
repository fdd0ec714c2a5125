// A model's parts, as data. Each family of models has a function that makes a ModelSpec from the model's
// config (architectures.h).
#pragma once

#include "model/config/attention_spec.h"
#include "model/config/checkpoint_config.h"
#include "model/config/diffusion_spec.h"
#include "model/config/ngrams/ngram_hash.h"
#include "model/config/tensor_names.h"
#include "model/kernels/simd/vector/activation.h"
#include "model/kernels/situ.h"
#include "tp/model_kind.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace tp {

using kernels::Situ;

// down(activation(gate(x)) * up(x))
struct GatedMlpSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::silu;
  bool bias = false;
  bool down_bias = false;   // a bias of down only
  float gate_scale = 1.0F;  // factor of gate(x)
  float output_scale = 1.0F;
  float limit = 0.0F;  // activation(gate(x)) is at most this, and up(x) within -limit and limit; 0: no limit
  bool limits_gate = false;    // gate(x) itself is at most `limit`, not its activation
  std::optional<Situ> situ{};  // replaces the activation and the product
  // The gates of a token lose their mean plus this many standard deviations, over all columns, and are at
  // least 0. This makes most of them 0. Source: Gemma 3n.
  std::optional<float> gate_cutoff{};

  bool operator==(const GatedMlpSpec&) const = default;
};

// down(activation(up(x)))
struct PlainMlpSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::gelu;
  bool bias = false;
  bool learned_xielu = false;  // replaces `activation`; each layer stores parameters
  // x is a mix with the input of the token before, which the layer's state contains. Source: RWKV.
  bool token_shift = false;

  bool operator==(const PlainMlpSpec&) const = default;
};

// How a token's experts are chosen from the router's logits.
struct RouterSpec {
  // sparse_mixer: chooses the highest logits one after the other. An expert's weight is its softmax among the
  // experts that are not yet chosen and have logits within `tolerance`. Source: Liu et al., GRIN:
  // GRadient-INformed MoE, 2024.
  enum class Scoring : std::uint8_t { softmax, sigmoid, sparse_mixer };

  std::size_t num_experts = 0;
  std::size_t num_experts_per_tok = 0;
  Scoring scoring = Scoring::softmax;
  float tolerance = 0.0F;        // relative to max(|logit|, highest logit)
  bool bias = false;             // added to the logits
  bool correction_bias = false;  // added to scores for selection only
  bool normalize = false;        // scales a token's weights so that they add up to `scale`
  float least_sum = 1e-20F;      // smallest divisor for `normalize`
  float added_to_sum = 0.0F;     // added to the sum of scores, the divisor for `normalize`
  float scale = 1.0F;            // factor of the weights
  // The norm of the router's input, whose gain is a tensor of the router.
  std::optional<NormSpec> input_norm{};
  float input_scale = 1.0F;       // factor of the normed input
  bool per_expert_scale = false;  // a learned factor of each expert's weight
  // If there are several groups, experts are chosen from the best groups only.
  std::size_t num_groups = 1;
  std::size_t groups_per_tok = 1;
  std::size_t experts_scoring_group = 1;  // a group's score is the sum of this many best scores

  bool operator==(const RouterSpec&) const = default;
};

struct MixtureOfExpertsSpec {
  RouterSpec router;
  std::size_t intermediate_size = 0;         // width of an expert
  Activation activation = Activation::silu;  // activation of all experts
  bool gated = true;                         // false: experts are plain MLPs
  bool bias = false;                         // in the layers of routed experts
  bool output_bias = false;                  // one bias, added to the sum of the routed experts
  bool weigh_input = false;                  // scale an expert's input by its weight, instead of the output
  // Size of the vectors that the routed experts read and write, which are projections of the hidden state; 0:
  // they read the hidden state itself.
  std::size_t latent_size = 0;
  std::size_t shared_intermediate_size = 0;  // width of the expert that every token uses; 0: none
  bool shared_expert_gate = false;           // a gate scales the shared expert's output
  float shared_scale = 1.0F;                 // factor of the shared expert's output
  float limit = 0.0F;                        // limit of routed experts, as in GatedMlpSpec
  float shared_limit = 0.0F;                 // limit of the shared expert
  bool limits_gate = false;                  // as in GatedMlpSpec, for both limits
  std::optional<Situ> situ{};                // as in GatedMlpSpec, for all experts
  std::optional<NormSpec> latent_norm{};     // norm of the routed experts' sum, before its projection

  bool operator==(const MixtureOfExpertsSpec&) const = default;
};

using FeedForwardSpec = std::variant<GatedMlpSpec, PlainMlpSpec, MixtureOfExpertsSpec, NoPartSpec>;

// The width of an MLP, or of an expert; 0 without either.
std::size_t intermediate_size(const FeedForwardSpec& spec);

// Experts in addition to a block's feed-forward part: norm(part(x)) + norm(experts(norm(y))), where y is the
// residual stream. The router reads y. Each norm has its own gain.
struct ParallelExpertsSpec {
  MixtureOfExpertsSpec experts;
  NormSpec norm;

  bool operator==(const ParallelExpertsSpec&) const = default;
};

// A third part of a block: norm(projection(activation(gate(x)) * input)). The input is the layer's part of a
// vector that depends on the token and its embedding (PerLayerInputsSpec).
struct LayerInputSpec {
  std::size_t size = 0;  // elements of the input
  Activation activation = Activation::gelu_tanh;
  NormSpec norm;

  bool operator==(const LayerInputSpec&) const = default;
};

// y = (x + attention's output + z + norm(right(left(z)))) / sqrt(2) instead of the sum of x and the output,
// where z is attention's input and `left` has `rank` rows.
struct LaurelSpec {
  std::size_t rank = 0;
  NormSpec norm;

  bool operator==(const LaurelSpec&) const = default;
};

// Several streams, side by side. A block predicts all streams from all streams, runs on the first prediction,
// and corrects each prediction by a multiple of the difference that this makes. A layer's input is added to
// all streams but the first, of which it reads the corrected one. The streams' weights follow from
// tanh(router(norm(first stream) / hidden_size)). Before the first block, projections of the embedding with
// its magnitude make the streams; after the last block, the final norm reads the mean of the first stream and
// of projections of the others with its magnitude.
struct AltUpSpec {
  std::size_t streams = 0;
  NormSpec norm;

  bool operator==(const AltUpSpec&) const = default;
};

// Several streams, side by side, which begin as copies of the embedding. Each half of a block reads the sum
// of w[s] * x[s] over streams, and adds v[s] times its output to stream s. The weights of a token follow from
// a projection z of all its streams, divided by the root of their mean square plus norm_eps:
// w = sigmoid(scale[0] * z + base) + eps, v = magnitude * sigmoid(scale[1] * z + base) + eps. The final norm
// reads a sum with weights like w, or the mean.
//
// Connections may also mix streams: stream s becomes the sum over j of m[j, s] * x[j], plus v[s] times the
// output. The matrix m of a token is scale[2] * z + base after softmaxes of rows and Sinkhorn steps. eps is
// then part of m and of the sums in these steps, instead of v. Source: Xie et al., mHC:
// Manifold-Constrained Hyper-Connections, 2025.
struct HyperConnectionSpec {
  std::size_t streams = 0;
  float norm_eps = 1e-6F;
  float eps = 1e-6F;
  float magnitude = 2.0F;
  std::size_t sinkhorn_steps = 0;  // 0: streams are not mixed
  bool ends_in_mean = false;

  // Weights of a token around a half of a block: w, v and m.
  std::size_t weights() const { return (2 + (sinkhorn_steps > 0 ? streams : 0)) * streams; }

  bool operator==(const HyperConnectionSpec&) const = default;
};

// Several streams, side by side, which begin as copies of the embedding. x is a token's streams, each after
// its norm. A half of a block has no norm. It reads the mean over streams of sigmoid(up(silu(down(x) /
// streams))) * x, where `down` has `rank` rows, and adds 2 * sigmoid(inject(x) / streams)[s] times its output
// to stream s. The LM head reads such a mean. Source: Qwen Team, Qwen3.8-Flash-Next, 2026.
struct LowRankConnectionSpec {
  std::size_t streams = 0;
  std::size_t rank = 0;
  NormSpec norm;  // each stream has its own gain

  bool operator==(const LowRankConnectionSpec&) const = default;
};

// Each half of a block reads a weighted sum of vectors: of the running sum, and of the running sums at the
// beginning of earlier layers that began a new one. A vector's weight is the softmax of weight .
// norm(vector). A layer that begins a sum keeps the running sum, which its attention's output then replaces;
// all other outputs are added to the running sum. The final norm reads a sum with such weights, too.
struct DepthAttentionSpec {
  std::size_t sums = 0;  // number of sums that all layers begin
  std::size_t sum = 0;   // the number of the sum that the layer begins, or that runs there
  bool begins = false;
  NormSpec norm;

  bool operator==(const DepthAttentionSpec&) const = default;
};

// Adds vectors that the last tokens choose from a large table to all streams, before attention. The rows that
// `hash` chooses, side by side, are projected to a value, and to a key for each stream. The gate of a stream
// x is sigmoid(sign(d) * sqrt(|d|)), where d = norm(key) . norm(x) / sqrt(hidden_size). The addend is y +
// silu(convolution(norm(y))), where y = gate * value. The convolution has its own weights for each channel of
// each stream. Each stream has its own gains. Source: Qwen Team, Qwen3.8-Flash-Next, 2026.
struct HashTableSpec {
  NgramHash hash;
  std::size_t row_size = 0;
  std::size_t rows = 0;    // including padding
  std::size_t shards = 1;  // tensors with equal numbers of rows
  std::size_t streams = 1;
  std::size_t conv_kernel = 0;
  std::size_t conv_dilation = 1;  // tokens from one tap of the convolution to the next
  NormSpec norm;

  // Elements of a token's rows.
  std::size_t embed_dim() const { return hash.heads() * row_size; }

  bool operator==(const HashTableSpec&) const = default;
};

struct BlockSpec {
  // sequential: the feed-forward half reads the sum of its input and attention's output. parallel: both
  // halves read the same input. post_norm: sequential, with norms of the stream itself after each half.
  // reversible: two streams; each half reads one stream and adds to the other.
  enum class Wiring : std::uint8_t { sequential, parallel, post_norm, reversible };

  Wiring wiring = Wiring::sequential;
  std::optional<NormSpec> input_norm;  // nullopt: only the outputs of the halves are normed
  // Attention reads the layer's own input (StepContext::layer_input), followed by the normed stream.
  bool joins_layer_input = false;
  AttentionPartSpec attention;
  std::optional<MambaSpec> parallel_mixer{};    // reads attention's input, and is added to its output
  std::optional<NormSpec> post_attention_norm;  // norm of attention's output
  // Cross-attention to an encoder's states, between attention and the feed-forward half. Its norm has the
  // same place as the norms of these halves.
  std::optional<AttentionSpec> cross_attention{};
  std::optional<NormSpec> cross_attention_norm{};
  std::optional<NormSpec> pre_feed_forward_norm;  // nullopt also in parallel blocks with one norm
  FeedForwardSpec feed_forward;
  std::optional<NormSpec> post_feed_forward_norm;  // norm of the feed-forward half's output
  float residual_scale = 1.0F;                     // scales the outputs of both halves
  std::optional<ParallelExpertsSpec> parallel_experts{};
  std::optional<LayerInputSpec> layer_input{};
  std::optional<HashTableSpec> hash_table{};  // only with hyper-connections of low rank
  std::optional<LaurelSpec> laurel{};
  std::optional<AltUpSpec> altup{};
  std::optional<HyperConnectionSpec> hyper_connection{};
  std::optional<LowRankConnectionSpec> low_rank_connection{};
  std::optional<DepthAttentionSpec> depth_attention{};
  bool output_scale = false;         // a learned factor of the stream after the block
  bool canvas_output_scale = false;  // tokens of a canvas have another such factor

  bool operator==(const BlockSpec&) const = default;
};

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
  // Parameters of tensors that the original code has and never uses. Published numbers of parameters include
  // them.
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
// Whether the state is that of the open pool of an indexer.
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

// A block's indexer, its own or one that it shares; null if it has none.
const IndexerSpec* indexer_of(const BlockSpec& block);
// A block's indexer of blocks; null if it has none.
const BlockIndexerSpec* block_indexer_of(const BlockSpec& block);
// A block's indexer of pools in grouped-query attention; null if it has none.
const PooledIndexerSpec* pooled_indexer_of(const BlockSpec& block);
// The most positions that any indexer of latent attention chooses for a token; 0 if there are no indexers.
std::size_t most_chosen(const ModelSpec& spec);
// The indexer of the first layer that has one; null: none.
const IndexerSpec* first_indexer(const ModelSpec& spec);
// Whether any layer uses the choice of another layer's indexer.
bool shares_indexers(const ModelSpec& spec);

// With same_bits, the largest number of attention heads in a block, which determines the sizes of leaves (see
// leaf_of); else 0.
std::size_t leaf_heads(const ModelSpec& spec);

}  // namespace tp
