// A block's parts, and the streams between blocks, as data.
#pragma once

#include "model/config/attention_spec.h"
#include "model/config/feed_forward_spec.h"
#include "model/config/ngrams/ngram_hash.h"
#include "model/kernels/simd/vector/activation.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tp {

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
//
// If connections lag, a half reads by the weights w that the half before it has computed. The model's first
// half reads the first stream, and the final norm reads by the weights of the last half. Source: DeepSeek-AI,
// DeepSeek-V4.1, 2026.
struct HyperConnectionSpec {
  std::size_t streams = 0;
  float norm_eps = 1e-6F;
  float eps = 1e-6F;
  float magnitude = 2.0F;
  std::size_t sinkhorn_steps = 0;  // 0: streams are not mixed
  bool ends_in_mean = false;
  bool lags = false;

  // Weights that pass from each half to the next one.
  std::size_t lagging_weights() const { return lags ? streams : 0; }
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
// x is sigmoid(sign(d) * sqrt(max(|d|, 1e-6))), where d = norm(key) . norm(x) / sqrt(hidden_size). The addend
// is y = gate * value. With a convolution, it is y + silu(convolution(norm(y))). The convolution has its own
// weights for each channel of each stream. Each stream has its own gains. Sources: Qwen Team,
// Qwen3.8-Flash-Next, 2026; DeepSeek, Engram, 2026 (without a convolution).
struct HashTableSpec {
  NgramHash hash;
  std::size_t row_size = 0;
  std::size_t rows = 0;    // including padding
  std::size_t shards = 1;  // tensors with equal numbers of rows
  std::size_t streams = 1;
  std::size_t conv_kernel = 0;    // 0: no convolution
  std::size_t conv_dilation = 1;  // tokens from one tap of the convolution to the next
  bool zero_has_sign = false;     // d = 0 has a sign (copysign); false: the gate of d = 0 is 1/2
  bool is_divided = false;        // ranks load parts of the rows, even if the rows could stay in the files
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
  std::optional<HashTableSpec> hash_table{};  // only with hyper-connections
  std::optional<LaurelSpec> laurel{};
  std::optional<AltUpSpec> altup{};
  std::optional<HyperConnectionSpec> hyper_connection{};
  std::optional<LowRankConnectionSpec> low_rank_connection{};
  std::optional<DepthAttentionSpec> depth_attention{};
  bool output_scale = false;         // a learned factor of the stream after the block
  bool canvas_output_scale = false;  // tokens of a canvas have another such factor

  bool operator==(const BlockSpec&) const = default;
};

}  // namespace tp
