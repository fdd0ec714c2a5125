// Attention and its replacements, and their norms and positions, as data.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/kernels/attention_pattern.h"
#include "model/kernels/simd/vector/activation.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace tp {

struct NormSpec {
  enum class Kind : std::uint8_t { rms, layer };

  Kind kind = Kind::rms;
  float eps = 1e-6F;
  float gain_offset = 0.0F;  // added to the stored gain
  bool gain = true;          // false: the gain is 1
  bool bias = true;          // layer norms only; false: the bias is 0

  bool operator==(const NormSpec&) const = default;
};

struct RopeSpec {
  double theta = 10000.0;
  RopeScaling scaling;
  std::size_t rotary_dim = 0;  // number of rotated elements at the start of each head

  bool operator==(const RopeSpec&) const = default;
};

using kernels::Activation;
using kernels::AttentionPattern;

// Scales queries, in addition to AttentionSpec::scale, by 1 + factor * ln(1 + floor((position + first) /
// step)). Source: Nakanishi, Scalable-Softmax Is Superior for Attention, 2025, as in Llama 4 and Mistral.
struct QueryScalingSpec {
  double factor = 0.0;
  double step = 1.0;      // tokens
  std::size_t first = 0;  // number of the first token; Llama 4 counts from 1

  bool operator==(const QueryScalingSpec&) const = default;
};

// Chooses the blocks of positions that the heads of a KV head attend to, if a token sees more than `top_k`
// blocks: the blocks around the token, and those with the highest scores. A block's score is the highest
// product of the query of the KV head's index head and a key of the block. All index heads have the same
// keys. Source: MiniMax-M3.
struct BlockIndexerSpec {
  std::size_t head_dim = 0;
  std::size_t block_size = 0;  // positions
  std::size_t top_k = 0;       // blocks, including local ones
  std::size_t local = 1;       // the token's block, and blocks before it, which are always chosen
  NormSpec norm;               // norm of index queries and keys, before RoPE

  // The most positions that a token attends to.
  std::size_t max_positions() const { return top_k * block_size; }

  bool operator==(const BlockIndexerSpec&) const = default;
};

// Chooses the pools of `pool` consecutive positions that all heads attend to, if a token sees more than
// `top_k` pools. A pool's key is the mean of its positions' keys after the norm, with the RoPE of its first
// position. Its score is the sum over index heads of max(0, query . key). A token also attends to the
// positions after the last pool that ends at the token or before it. Source: Qwen Team, Qwen3.8-Flash-Next,
// 2026.
struct PooledIndexerSpec {
  std::size_t num_heads = 0;
  std::size_t head_dim = 0;
  std::size_t pool = 0;
  std::size_t top_k = 0;  // pools
  NormSpec norm;          // norm of index queries and of pools' keys, before RoPE

  // The most positions that a token attends to. It attends to all if it sees no more.
  std::size_t max_positions() const { return (top_k + 1) * pool - 1; }

  bool operator==(const PooledIndexerSpec&) const = default;
};

struct AttentionSpec {
  std::size_t num_attention_heads = 0;
  std::size_t num_key_value_heads = 0;
  std::size_t head_dim = 0;
  std::size_t input_size = 0;  // size of the input of queries, keys and values; 0: hidden_size
  float scale = 1.0F;          // factor of query . key
  bool qkv_bias = false;
  bool o_bias = false;
  std::optional<RopeSpec> rope;            // nullopt: no RoPE
  AttentionPattern pattern;                // the tokens that a token attends to
  std::optional<float> softcap;            // scaled scores become softcap * tanh(score / softcap)
  std::optional<NormSpec> query_key_norm;  // per head, before RoPE, unless the next fields differ
  bool query_key_norm_per_head = false;    // a gain for each head, [heads, head_dim]
  bool norms_after_rope = false;
  bool norms_whole_projections = false;  // one norm over all heads
  bool interleaved_rope = false;         // pairs (2 i, 2 i + 1), not halves
  std::optional<float> clip_qkv;         // queries, keys and values are clipped to [-clip_qkv, clip_qkv]
  // ALiBi: added to scores per position of their key, for each head; empty: no ALiBi.
  std::vector<float> alibi_slopes;  // [num_attention_heads]
  bool sinks = false;               // adds a learned logit per head to the softmax's denominator
  std::optional<QueryScalingSpec> query_scaling;
  std::size_t v_head_dim = 0;            // size of a value; 0: head_dim
  bool output_gate = false;              // sigmoids of gates scale attention's output
  bool gate_per_head = false;            // one gate for each head, instead of one for each element
  bool softplus_gate = false;            // softplus instead of the sigmoid
  float output_scale = 1.0F;             // factor of attention's output
  bool relative_bias = false;            // add the decoder's relative_bias to scores
  bool global_projections = false;       // global tokens have separate projections of queries, keys, values
  std::optional<NormSpec> value_norm{};  // per head
  bool values_are_keys = false;          // values are the keys before their norm and RoPE
  // The earlier layer whose keys and values this layer attends to. The layer has only queries of its own.
  std::optional<std::size_t> shared_kv_layer{};
  // At most one of both. Without an indexer, a token attends to all tokens of the pattern.
  std::optional<BlockIndexerSpec> block_indexer{};
  std::optional<PooledIndexerSpec> pooled_indexer{};
  // Set by the user, not by the model: the number of random features that approximate the softmax. Sums over
  // earlier tokens then replace keys and values (see kernels/favor.h). 0: exact softmax.
  std::size_t favor_features = 0;

  std::size_t value_dim() const { return v_head_dim != 0 ? v_head_dim : head_dim; }

  bool operator==(const AttentionSpec&) const = default;
};

// Attention among tokens whose queries fall into the same hash bucket. Sorting by bucket makes these tokens
// adjacent. Queries are also the keys. Source: Kitaev et al., Reformer, 2020.
struct LshAttentionSpec {
  std::size_t num_attention_heads = 0;
  std::size_t head_dim = 0;
  std::size_t chunk_length = 0;   // sorted tokens attend to their own chunk,
  std::size_t chunks_before = 1;  // to this many chunks before it,
  std::size_t chunks_after = 0;   // and to this many after it
  std::size_t num_hashes = 1;
  std::vector<std::size_t> num_buckets{};  // even factors of the bucket count; empty: set by sequence length
  std::size_t max_buckets = 0;             // if num_buckets is empty: the largest count with one factor
  std::uint64_t hash_seed = 0;
  std::size_t padded_to = 1;  // pads sequences to multiples of this
  std::size_t unpadded = 0;   // largest sequence that is not padded

  bool operator==(const LshAttentionSpec&) const = default;
};

// Chooses the positions that latent attention reads in contexts of more than `top_k` positions: those with
// the highest scores, which a few small heads compute. Source: DeepSeek-AI, DeepSeek-V3.2, 2025.
//
// Positions may be chosen in pools of consecutive positions, counted from the first one. A pool has one key,
// the sum of its positions' keys by weights, which are softmaxes of gates. A token chooses among the pools
// that end at the token or before it, and also reads the later positions up to its own. Source: Z.ai,
// GLM-5.3, 2026.
//
// With candidates, a layer whose indexer `chooses_candidates` also chooses blocks of pools for the later
// layers' indexers: the block of the last pool, and those with the highest scores of a pool. The later
// indexers choose only pools in these blocks. Source: DeepSeek-AI, DeepSeek-V4.1, 2026.
struct CandidatesSpec {
  std::size_t block_size = 0;  // pools
  std::size_t blocks = 0;
  bool chooses_candidates = false;  // false: the indexer chooses among candidates

  // A token chooses among all pools if it sees no more.
  std::size_t max_pools() const { return blocks * block_size; }
  // The candidates of a token that sees this many pools. The last block may have fewer pools than others.
  std::size_t pools_of(std::size_t seen) const {
    return seen > max_pools() ? max_pools() - block_size + (seen - 1) % block_size + 1 : seen;
  }

  bool operator==(const CandidatesSpec&) const = default;
};

struct IndexerSpec {
  std::size_t num_heads = 0;
  std::size_t head_dim = 0;
  std::size_t top_k = 0;
  bool interleaved_rope = false;  // pairs (2 i, 2 i + 1), not halves, of a head's rotated elements
  bool rotates_last = false;      // RoPE rotates a head's last elements, not its first ones
  float norm_eps = 1e-6F;         // in the norm of keys
  // The layer uses the choice of the last layer before it that has an indexer.
  bool is_shared = false;
  std::size_t pool = 1;  // positions that are chosen together, by one key
  // Attention reads one latent of each chosen pool, not the positions of the pools.
  bool reads_pools = false;
  // nullopt: the indexer whose choice the layer uses neither chooses candidates nor chooses among them.
  std::optional<CandidatesSpec> candidates{};

  // The most pools that a token chooses.
  std::size_t pools() const { return top_k / pool; }
  // A token attends to all pools that it sees, without a choice, if there are no more.
  std::size_t dense_pools() const {
    return candidates && candidates->max_pools() < pools() ? candidates->max_pools() : pools();
  }
  // Pools that a token chooses if it sees this many.
  std::size_t chosen_pools(std::size_t seen) const {
    const bool are_fewer = candidates && !candidates->chooses_candidates;
    const std::size_t possible = are_fewer ? candidates->pools_of(seen) : seen;
    return possible < pools() ? possible : pools();
  }
  // A token attends to all positions that it sees, without a choice, if there are no more.
  std::size_t max_positions() const { return (dense_pools() + 1) * pool - 1; }
  // The most positions (or pools) of which a choice consists.
  std::size_t max_chosen() const { return reads_pools ? pools() : max_positions(); }
  // The positions that a token at `position` attends to if it sees more than max_positions().
  std::size_t chosen_positions(std::size_t position) const { return pools() * pool + (position + 1) % pool; }

  bool operator==(const IndexerSpec&) const = default;
};

// Multi-head latent attention: keys and values of all heads are projected from one shared latent.
struct LatentAttentionSpec {
  std::size_t num_attention_heads = 0;
  std::optional<std::size_t> q_lora_rank;  // nullopt: the hidden state is projected to queries directly
  std::size_t kv_lora_rank = 0;
  std::size_t qk_nope_head_dim = 0;
  std::size_t qk_rope_head_dim = 0;
  std::size_t v_head_dim = 0;
  float scale = 1.0F;  // factor of query . key
  std::optional<RopeSpec> rope;
  bool interleaved_rope = true;  // pairs (2 i, 2 i + 1), not halves
  std::optional<QueryScalingSpec> query_scaling;
  std::optional<IndexerSpec> indexer{};  // nullopt: a token attends to all earlier tokens
  bool causal = true;                    // false: tokens also attend to later tokens
  float latent_norm_eps = 1e-6F;         // in the norms of latents; DeepSeek's code ignores the config's here
  bool head_gate = false;                // the sigmoid of a gate for each head scales the head's output
  bool element_gate = false;             // each element of the output has such a gate
  bool sinks = false;                    // adds a learned logit per head to the softmax's denominator

  bool operator==(const LatentAttentionSpec&) const = default;
};

// One latent per token is the key and the value of all heads. A token attends to the latents of its last
// `window` tokens and, in one softmax, to one latent for each pool of earlier positions. RoPE rotates pairs
// (2 i, 2 i + 1) of a head's last elements, also in values. So the output is rotated back by the token's
// position. Source: DeepSeek-AI, DeepSeek-V4, 2026.
//
// A pool's latent is the norm of the sum of its positions' keys by weights, which are softmaxes of gates,
// with the RoPE of its first position. If pools overlap, each position has a second key and gate, for the
// pool after its own. A token sees the pools that end at the token or before it. Index keys are made like
// latents.
//
// In DeepSeek-V4.1, pools may be single positions, which have no gates. Gates have no addends. Index keys are
// projections of the pools' latents before RoPE. Only some layers make pools, which the layers up to the next
// such layer also read. Latents, index keys and index queries are rounded to few bits.
struct CompressedAttentionSpec {
  std::size_t num_attention_heads = 0;
  std::size_t q_lora_rank = 0;
  std::size_t head_dim = 0;
  float scale = 1.0F;  // factor of query . key
  std::optional<RopeSpec> rope;
  float norm_eps = 1e-6F;       // in all norms
  bool query_head_norm = true;  // a norm of each query head, which has no gain
  std::size_t window = 0;
  // Heads form groups. Each group's output is projected to `output_rank` elements, and all of these to the
  // hidden size.
  std::size_t output_groups = 1;
  std::size_t output_rank = 0;
  std::size_t pool = 0;  // positions; 0: tokens attend to the window only
  bool overlap = false;
  bool pool_addends = true;      // false: gates have no addends
  bool keys_of_latents = false;  // index keys are projections of pools' latents
  bool rounds = false;           // see kernels/rounding.h
  // The earlier layer whose pools this layer reads. The layer makes no pools.
  std::optional<std::size_t> shared_pools_layer{};
  std::optional<IndexerSpec> indexer{};  // nullopt: a token attends to all pools that it sees

  // Keys, and also gates, that a position has.
  std::size_t series() const { return overlap ? 2 : 1; }
  bool has_gates() const { return pool > 1; }
  // Whether the layer makes latents of pools, and index keys.
  bool makes_pools() const { return pool != 0 && !shared_pools_layer; }
  // Whether the layer has an indexer, instead of the choice of an earlier layer.
  bool chooses() const { return indexer && !indexer->is_shared; }

  bool operator==(const CompressedAttentionSpec&) const = default;
};

// A recurrence that replaces attention. The state of each value head is a matrix that maps keys to values.
// Each token decays the matrix, then corrects it towards the token's value. Source: Yang, Kautz and
// Hatamizadeh, Gated Delta Networks, 2024, as in Qwen3-Next. Kimi delta attention decays each channel of a
// key separately. Source: Moonshot AI, Kimi Linear, 2025.
struct GatedDeltaNetSpec {
  std::size_t num_key_heads = 0;
  std::size_t num_value_heads = 0;
  std::size_t key_head_dim = 0;
  std::size_t value_head_dim = 0;
  std::size_t conv_kernel = 0;         // width in tokens, including the current token
  NormSpec norm;                       // norm of each head's output, before the output gate
  Activation gate = Activation::silu;  // activation of output gates
  bool separate = false;               // queries, keys and values have their own projections and convolutions
  bool element_decays = false;         // each element of a key has its own decay, instead of each head
  // If it isn't 0, decays and output gates are projected from vectors of this size, which are projections of
  // the hidden state. Such layers have separate projections.
  std::size_t gate_rank = 0;
  bool whole_gate = false;  // output gates are projections of the hidden state nonetheless
  // The logarithm of the strongest decay, below 0; 0: decays have no limit (see kernels::delta_gates).
  float decay_floor = 0.0F;
  float strength_scale = 1.0F;  // factor of strengths, which are sigmoids

  // Size of the vectors from which output gates are projected; 0: there are none.
  std::size_t output_gate_rank() const { return whole_gate ? 0 : gate_rank; }
  // The decays of a head.
  std::size_t decays() const { return element_decays ? key_head_dim : 1; }

  bool operator==(const GatedDeltaNetSpec&) const = default;
};

// A convolution that replaces attention: it combines each channel's values at the current and earlier tokens.
// Source: Liquid AI, LFM2 Technical Report, 2025.
struct ShortConvolutionSpec {
  std::size_t channels = 0;
  std::size_t conv_kernel = 0;  // width in tokens, including the current token

  bool operator==(const ShortConvolutionSpec&) const = default;
};

// A recurrence that replaces attention. The state of each head is a matrix, which each token decays and to
// which it adds an outer product. Source: Dao and Gu, Transformers are SSMs (Mamba-2), 2024.
struct MambaSpec {
  std::size_t num_heads = 0;
  std::size_t head_dim = 0;
  std::size_t num_groups = 0;  // groups of heads that share B and C
  std::size_t state_size = 0;
  std::size_t conv_kernel = 0;   // width in tokens, including the current token
  std::optional<NormSpec> norm;  // norm of the gated output
  std::size_t norm_groups = 1;   // the norm covers each of these groups of heads; 1: all heads
  std::array<float, 5> scales = {1.0F, 1.0F, 1.0F, 1.0F, 1.0F};  // factors of the projections z, x, B, C, dt
  float output_scale = 1.0F;

  bool operator==(const MambaSpec&) const = default;
};

// The recurrence before Mamba-2. Each channel has a vector as its state, whose elements decay at different
// rates. All channels share B and C. Source: Gu and Dao, Mamba: Linear-Time Sequence Modeling with Selective
// State Spaces, 2023.
struct Mamba1Spec {
  std::size_t channels = 0;
  std::size_t state_size = 0;
  std::size_t conv_kernel = 0;   // width in tokens, including the current token
  std::size_t dt_rank = 0;       // size of the vector from which the steps of all channels are projected
  std::optional<NormSpec> norm;  // norms of this vector, of B and of C

  // Ranks divide whole units of channels. A unit depends only on the model. The last one may be smaller.
  std::size_t unit() const {
    constexpr std::size_t kEnoughUnits = 32;
    std::size_t size = 64;
    while (size > 16 && channels / size < kEnoughUnits) size /= 2;
    return size;
  }
  std::size_t units() const { return (channels + unit() - 1) / unit(); }

  bool operator==(const Mamba1Spec&) const = default;
};

// A recurrence that replaces attention. The state of each head is a matrix. Each token decays its rows,
// removes what the matrix has along one direction, and adds the token's value along another one. Inputs of
// projections are mixes with the input of the token before. Source: Peng et al., RWKV-7 "Goose", 2025.
struct Rwkv7Spec {
  std::size_t num_heads = 0;
  std::size_t head_dim = 0;
  // Sizes of the vectors from which decays, strengths of removal, shares of the first layer's values, and
  // gates are projected.
  std::size_t decay_rank = 0;
  std::size_t strength_rank = 0;
  std::size_t value_rank = 0;
  std::size_t gate_rank = 0;
  bool is_first = false;  // the layer whose values all later layers share
  NormSpec norm;          // norm of each head's output, before the gate

  bool operator==(const Rwkv7Spec&) const = default;
};

// The absent half of a block that has only the other one.
struct NoPartSpec {
  bool operator==(const NoPartSpec&) const = default;
};

// Attention, or a replacement.
using AttentionPartSpec =
    std::variant<AttentionSpec, LatentAttentionSpec, CompressedAttentionSpec, GatedDeltaNetSpec,
                 LshAttentionSpec, ShortConvolutionSpec, MambaSpec, Mamba1Spec, Rwkv7Spec, NoPartSpec>;

// Head counts that determine how ranks divide the part. Ranks may share KV heads.
struct HeadCounts {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t granule = 1;  // heads that stay together, if there are enough granules for all ranks
};
HeadCounts head_counts(const AttentionPartSpec& spec);

// Whether the part has a state instead of keys and values.
bool is_recurrent(const AttentionPartSpec& spec);

}  // namespace tp
