// What parts a decoder has, as data. A family of models is a function from its config to this
// (architectures.h).
#pragma once

#include "model/config/diffusion_spec.h"
#include "model/config/tensor_names.h"
#include "model/kernels/attention_pattern.h"
#include "model/kernels/simd/vector/activation.h"
#include "tp/model_config.h"
#include "tp/model_kind.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace tp {

struct NormSpec {
  enum class Kind : std::uint8_t { rms, layer };

  Kind kind = Kind::rms;
  float eps = 1e-6F;
  float gain_offset = 0.0F;  // added to the stored gain
  bool gain = true;          // without one it is 1
  bool bias = true;          // of layer norms; without one it is 0

  bool operator==(const NormSpec&) const = default;
};

struct RopeSpec {
  double theta = 10000.0;
  RopeScaling scaling;
  std::size_t rotary_dim = 0;  // the first elements of every head, which are rotated

  bool operator==(const RopeSpec&) const = default;
};

using kernels::Activation;
using kernels::AttentionPattern;

// Factors of queries, beside the scale of scores: 1 + factor * ln(1 + floor((position + first) /
// step)). Source: Nakanishi, Scalable-Softmax Is Superior for Attention, 2025, as in Llama 4 and Mistral.
struct QueryScalingSpec {
  double factor = 0.0;
  double step = 1.0;      // tokens
  std::size_t first = 0;  // number of the first token: Llama 4 counts from 1

  bool operator==(const QueryScalingSpec&) const = default;
};

struct AttentionSpec {
  std::size_t num_attention_heads = 0;
  std::size_t num_key_value_heads = 0;
  std::size_t head_dim = 0;
  float scale = 1.0F;  // of query . key
  bool qkv_bias = false;
  bool o_bias = false;
  std::optional<RopeSpec> rope;            // none: positions come from elsewhere, or not at all
  AttentionPattern pattern;                // which tokens a token attends to
  std::optional<float> softcap;            // of scaled scores: softcap * tanh(score / softcap)
  std::optional<NormSpec> query_key_norm;  // of every head, before positions, unless what follows says else
  bool query_key_norm_per_head = false;    // every head has a gain of its own, [heads, head_dim]
  bool norms_after_rope = false;
  bool norms_whole_projections = false;  // query_key_norm is of all heads together
  bool interleaved_rope = false;         // pairs (2 i, 2 i + 1), not halves
  std::optional<float> clip_qkv;         // of queries, keys and values: to [-clip_qkv, clip_qkv]
  // What a score gains per position of its key, for every head; empty: nothing (ALiBi).
  std::vector<float> alibi_slopes;  // [num_attention_heads]
  bool sinks = false;               // a learned logit of every head joins its softmax's denominator
  std::optional<QueryScalingSpec> query_scaling;
  bool output_gate = false;    // queries come with gates, whose sigmoids are factors of what attention gives
  bool relative_bias = false;  // scores gain the decoder's bias for their distance
  bool global_projections = false;  // global tokens have queries of their own, and keys and values for these
  // Not of the model: random features that approximate the softmax, with sums over the tokens before in place
  // of keys and values (see kernels/favor.h); 0: it is exact.
  std::size_t favor_features = 0;

  bool operator==(const AttentionSpec&) const = default;
};

// Attention among tokens whose queries fall into the same buckets of a hash, and which come next to each
// other when they are sorted by these: queries are keys, too. Source: Kitaev et al., Reformer, 2020.
struct LshAttentionSpec {
  std::size_t num_attention_heads = 0;
  std::size_t head_dim = 0;
  std::size_t chunk_length = 0;   // sorted tokens see those of their chunk
  std::size_t chunks_before = 1;  // and of so many on either side of it
  std::size_t chunks_after = 0;
  std::size_t num_hashes = 1;
  std::vector<std::size_t> num_buckets{};  // even factors of their number; empty: by the sequence's length
  std::size_t max_buckets = 0;             // of a single factor, where it is by the length
  std::uint64_t hash_seed = 0;
  std::size_t padded_to = 1;  // sequences longer than `unpadded` are filled up to multiples of this
  std::size_t unpadded = 0;

  bool operator==(const LshAttentionSpec&) const = default;
};

// Multi-head latent attention: keys and values of all heads are projected from one shared latent.
struct LatentAttentionSpec {
  std::size_t num_attention_heads = 0;
  std::optional<std::size_t> q_lora_rank;  // without one, queries come from the hidden state directly
  std::size_t kv_lora_rank = 0;
  std::size_t qk_nope_head_dim = 0;
  std::size_t qk_rope_head_dim = 0;
  std::size_t v_head_dim = 0;
  float scale = 1.0F;  // of query . key
  std::optional<RopeSpec> rope;
  bool interleaved_rope = true;  // pairs (2 i, 2 i + 1), not halves
  std::optional<QueryScalingSpec> query_scaling;

  bool operator==(const LatentAttentionSpec&) const = default;
};

// A recurrence in place of attention: every value head has a matrix that maps keys to values, which a token
// first lets decay and then corrects towards its own value. Source: Yang, Kautz and Hatamizadeh, Gated Delta
// Networks, 2024, as in Qwen3-Next.
struct GatedDeltaNetSpec {
  std::size_t num_key_heads = 0;
  std::size_t num_value_heads = 0;
  std::size_t key_head_dim = 0;
  std::size_t value_head_dim = 0;
  std::size_t conv_kernel = 0;  // tokens that queries, keys and values are convolved over, their own included
  NormSpec norm;                // of every head's result, before its gate

  bool operator==(const GatedDeltaNetSpec&) const = default;
};

// A convolution over a token's channels and those of the tokens before it, in place of attention. Source:
// Liquid AI, LFM2 Technical Report, 2025.
struct ShortConvolutionSpec {
  std::size_t channels = 0;
  std::size_t conv_kernel = 0;  // tokens, the token's own included

  bool operator==(const ShortConvolutionSpec&) const = default;
};

// Attention, or what stands in its place.
using AttentionPartSpec = std::variant<AttentionSpec, LatentAttentionSpec, GatedDeltaNetSpec,
                                       LshAttentionSpec, ShortConvolutionSpec>;

// The heads that ranks divide, and those that they share.
struct HeadCounts {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
};
HeadCounts head_counts(const AttentionPartSpec& spec);

// Whether it keeps a state in place of keys and values.
bool is_recurrent(const AttentionPartSpec& spec);

// down(activation(gate(x)) * up(x))
struct GatedMlpSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::silu;
  bool bias = false;

  bool operator==(const GatedMlpSpec&) const = default;
};

// down(activation(up(x)))
struct PlainMlpSpec {
  std::size_t intermediate_size = 0;
  Activation activation = Activation::gelu;
  bool bias = false;
  bool learned_xielu = false;  // in place of `activation`, with parameters that the layer stores

  bool operator==(const PlainMlpSpec&) const = default;
};

// How a token's experts are chosen from the router's logits.
struct RouterSpec {
  // sparse_mixer: the highest logits; the weight of one is its softmax over what is not chosen yet and within
  // `tolerance` of it. Source: Liu et al., GRIN: GRadient-INformed MoE, 2024.
  enum class Scoring : std::uint8_t { softmax, sigmoid, sparse_mixer };

  std::size_t num_experts = 0;
  std::size_t num_experts_per_tok = 0;
  Scoring scoring = Scoring::softmax;
  float tolerance = 0.0F;        // relative to the larger of the magnitudes
  bool bias = false;             // of the logits
  bool correction_bias = false;  // added to scores for the choice, but not to the weights
  bool normalize = false;        // a token's weights sum up to `scale`
  float least_sum = 1e-20F;      // what a token's scores are divided by at least for that
  float added_to_sum = 0.0F;     // and what is added to that divisor
  float scale = 1.0F;            // of the weights
  // Experts are chosen from the best groups only, where there are several.
  std::size_t num_groups = 1;
  std::size_t groups_per_tok = 1;
  std::size_t experts_scoring_group = 1;  // a group's score is the sum over that many of its best experts

  bool operator==(const RouterSpec&) const = default;
};

struct MixtureOfExpertsSpec {
  RouterSpec router;
  std::size_t intermediate_size = 0;         // of an expert
  Activation activation = Activation::silu;  // of all experts
  bool bias = false;                         // of the layers of the chosen experts
  bool weigh_input = false;                  // a chosen expert's weight is a factor of what it reads
  std::size_t shared_intermediate_size = 0;  // of the expert that every token is routed to; 0 without one
  bool shared_expert_gate = false;           // which weighs that expert's result

  bool operator==(const MixtureOfExpertsSpec&) const = default;
};

using FeedForwardSpec = std::variant<GatedMlpSpec, PlainMlpSpec, MixtureOfExpertsSpec>;

struct BlockSpec {
  // sequential: the feed-forward half reads what attention has added to; parallel: both read the same;
  // post_norm: sequential, and the stream itself is normed behind either half; reversible: there are two
  // streams, each of which one half reads and the other adds to.
  enum class Wiring : std::uint8_t { sequential, parallel, post_norm, reversible };

  Wiring wiring = Wiring::sequential;
  std::optional<NormSpec> input_norm;  // absent in a block that norms only what its halves add
  AttentionPartSpec attention;
  std::optional<NormSpec> post_attention_norm;  // of what attention adds
  // Of a decoder's block that reads what an encoder has made of its input, between the other halves. Its norm
  // is where those of the other halves are.
  std::optional<AttentionSpec> cross_attention{};
  std::optional<NormSpec> cross_attention_norm{};
  std::optional<NormSpec> pre_feed_forward_norm;  // absent too in a parallel block that has one norm for both
  FeedForwardSpec feed_forward;
  std::optional<NormSpec> post_feed_forward_norm;  // of what the feed-forward half adds
  float residual_scale = 1.0F;                     // of what either half adds

  bool operator==(const BlockSpec&) const = default;
};

// What all layers add to scores, by the distance of key and query: a table [num_buckets, heads], with a row
// for every near distance and one for ranges of distances farther away. Source: Raffel et al., Exploring the
// Limits of Transfer Learning (T5), 2020.
struct RelativeBiasSpec {
  std::size_t num_buckets = 0;
  std::size_t max_distance = 0;  // from which on all distances have the same row
  bool bidirectional = true;     // half of the rows are for keys behind the query
  std::size_t num_attention_heads = 0;

  bool operator==(const RelativeBiasSpec&) const = default;
};

// What stands between the last hidden state and the LM head: norm(activation(dense(x))) in masked language
// models, dense(x) where token vectors have another size.
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

  bool operator==(const PooledLayerSpec&) const = default;
};

// Positions whose vector consists of two, one for the row and one for the column of a table that they are
// laid out in. Source: Kitaev et al., Reformer, 2020.
struct AxialPositionsSpec {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t row_size = 0;  // of the vectors
  std::size_t column_size = 0;

  bool operator==(const AxialPositionsSpec&) const = default;
};

// What the layer of a model that predicts the token after the next one reads, in place of an embedding:
// projection([norm(vector of the token); norm(state behind the one before)]). Source: DeepSeek-V3 Technical
// Report, 2024.
struct NextTokenSpec {
  NormSpec norm;  // of both, with gains of their own

  bool operator==(const NextTokenSpec&) const = default;
};

struct SequenceHeadSpec {
  Pooling pooling = Pooling::first;
  std::vector<PooledLayerSpec> layers;
  bool may_be_missing = false;  // not all checkpoints have it

  bool operator==(const SequenceHeadSpec&) const = default;
};

// A stack of blocks: a decoder, or an encoder; or a decoder with the encoder that it reads.
struct DecoderSpec {
  TensorNames names;
  std::size_t vocab_size = 0;
  std::size_t hidden_size = 0;
  std::size_t max_position_embeddings = 0;  // tokens of a sequence at most
  float embedding_scale = 1.0F;
  std::size_t learned_positions = 0;  // rows of a table of positions, added to the embedding; 0: no table
  std::size_t first_learned_position = 0;  // the row of position 0
  bool sinusoidal_positions = false;       // sines and cosines of positions are added, which are not stored
  std::optional<AxialPositionsSpec> axial_positions{};  // in place of such a table
  std::size_t token_types = 0;  // rows of a table of kinds of tokens, added, too; 0: no table
  // Of token vectors where it is not hidden_size, to which they are projected, else 0. What is added to them
  // has the same size, unless it is added behind a projection, which then has no bias.
  std::size_t embedding_size = 0;
  bool adds_behind_projection = false;
  std::optional<NormSpec> embedding_norm;  // before the projection
  std::optional<RelativeBiasSpec> relative_bias;
  std::vector<BlockSpec> blocks;
  std::optional<NormSpec> final_norm;  // absent where blocks norm the stream themselves
  // Tokens see those that follow, too. A sequence is then computed in one step, and its keys and values are
  // needed only while their layer is: all layers share the memory for them, unless keeps_sequences.
  bool bidirectional = false;
  // What a token gives depends on those that follow, though it does not see them, and so all of a sequence is
  // computed again for every token that it generates.
  bool recomputes = false;
  bool has_lm_head = true;
  std::optional<HeadTransformSpec> head_transform;  // in front of the LM head
  std::optional<SequenceHeadSpec> sequence_head;
  std::optional<DiffusionSpec> diffusion;
  std::optional<NextTokenSpec> next_token{};  // of a model's layer that predicts the token after the next one
  bool tied_embeddings = false;
  bool lm_head_bias = false;
  float logit_scale = 1.0F;
  std::optional<float> logit_softcap;  // of scaled logits
  // Of an encoder-decoder, whose blocks have cross-attention; it has the decoder's table of tokens. Null:
  // none.
  std::shared_ptr<const DecoderSpec> encoder{};
  // Not of the model: whether results have the same bits on any number of ranks,
  bool same_bits = false;
  // and whether keys and values of a sequence that takes_whole_sequences() outlast its step, so that layers
  // cannot share the memory for them.
  bool keeps_sequences = false;
};

// Whether all of a sequence is computed in the same step, and its keys and values are needed only there.
inline bool takes_whole_sequences(const DecoderSpec& spec) { return spec.bidirectional || spec.recomputes; }
// Whether what a step computes of a token depends on no later one, so that a step can be divided.
inline bool can_divide_steps(const DecoderSpec& spec) {
  return !takes_whole_sequences(spec) && spec.encoder == nullptr;
}

// Streams of hidden_size between blocks, side by side behind the last one.
inline std::size_t streams_of(const DecoderSpec& spec) {
  const bool two = !spec.blocks.empty() && spec.blocks.front().wiring == BlockSpec::Wiring::reversible;
  return two ? 2 : 1;
}

// The size of a token's last hidden state.
inline std::size_t state_size(const DecoderSpec& spec) { return streams_of(spec) * spec.hidden_size; }

// The size of token vectors.
inline std::size_t embedding_size(const DecoderSpec& spec) {
  return spec.embedding_size != 0 ? spec.embedding_size : spec.hidden_size;
}

// The first block whose part is a Part, or none.
template <class Part>
const Part* first_part(const DecoderSpec& spec) {
  for (const BlockSpec& block : spec.blocks) {
    if (const auto* const part = std::get_if<Part>(&block.attention)) return part;
  }
  return nullptr;
}

// With same_bits, the most attention heads that a block has, on which the sizes of leaves depend (see
// leaf_of); else 0.
std::size_t leaf_heads(const DecoderSpec& spec);

}  // namespace tp
