// Bytes that each rank reads from a checkpoint.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "parallel/exchange/collectives.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

// Parameters of KV heads that are held by more than one rank, counted once for each rank but one. Every rank
// computes an indexer's key, and of an indexer of pools also the queries.
std::size_t replicated_parameters(const AttentionSpec& spec, std::size_t hidden_size, std::size_t ranks) {
  std::size_t held = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    held += shard_heads(spec.num_attention_heads, spec.num_key_value_heads, {rank, ranks}).local_kv_heads();
  }
  const std::size_t projections = spec.shared_kv_layer ? 0 : spec.values_are_keys ? 1 : 2;
  const std::size_t more = held - spec.num_key_value_heads;
  std::size_t index_rows = spec.block_indexer ? (more + ranks - 1) * spec.block_indexer->head_dim : 0;
  if (spec.pooled_indexer)
    index_rows += (ranks - 1) * (spec.pooled_indexer->num_heads + 1) * spec.pooled_indexer->head_dim;
  return projections * more * spec.head_dim * (hidden_size + (spec.qkv_bias ? 1 : 0)) +
         index_rows * hidden_size;
}

// Every rank computes the latents and the whole indexer.
std::size_t replicated_parameters(const LatentAttentionSpec& spec, std::size_t hidden_size,
                                  std::size_t ranks) {
  std::size_t rows = spec.q_lora_rank.value_or(0) + spec.kv_lora_rank + spec.qk_rope_head_dim;
  std::size_t queries = 0;
  if (spec.indexer && !spec.indexer->is_shared) {
    const bool pools = spec.indexer->pool > 1;
    rows += (pools ? 2 : 1) * spec.indexer->head_dim + spec.indexer->num_heads;
    queries = spec.indexer->num_heads * spec.indexer->head_dim * *spec.q_lora_rank +
              (pools ? spec.indexer->pool * spec.indexer->head_dim : 0);
  }
  return (ranks - 1) * (rows * hidden_size + queries);
}

// Every rank computes the latents, the pools and the whole indexer. Ranks that share a group of heads each
// hold the group's output matrices.
std::size_t replicated_parameters(const CompressedAttentionSpec& spec, std::size_t hidden_size,
                                  std::size_t ranks) {
  std::size_t rows = spec.q_lora_rank + spec.head_dim;
  std::size_t others = 0;
  const auto add_pools = [&](std::size_t size) {
    rows += (spec.pool > 1 ? 2 : 1) * spec.series() * size;
    if (spec.pool_addends) others += spec.pool * spec.series() * size;
  };
  if (spec.makes_pools()) add_pools(spec.head_dim);
  if (spec.indexer && spec.makes_pools()) {
    if (spec.keys_of_latents)
      others += spec.indexer->head_dim * spec.head_dim;
    else
      add_pools(spec.indexer->head_dim);
  }
  if (spec.chooses()) {
    rows += spec.indexer->num_heads;
    others += spec.indexer->num_heads * spec.indexer->head_dim * spec.q_lora_rank;
  }
  const std::size_t group = spec.num_attention_heads / spec.output_groups;
  std::size_t held = 0;  // groups
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Range heads =
        shard_heads(spec.num_attention_heads, spec.num_attention_heads, {rank, ranks}).query_heads;
    held += (heads.end + group - 1) / group - heads.begin / group;
  }
  return (ranks - 1) * (rows * hidden_size + others) +
         (held - spec.output_groups) * spec.output_rank * (group * spec.head_dim + hidden_size);
}

// Ranks that need the same key heads each hold them. All ranks hold all taps of the convolution, and compute
// the vectors from which gates are projected.
std::size_t replicated_parameters(const GatedDeltaNetSpec& spec, std::size_t hidden_size, std::size_t ranks) {
  std::size_t held = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    held += shard_heads_of_some(spec.num_value_heads, spec.num_key_heads, {rank, ranks}).local_kv_heads();
  const std::size_t channels =
      2 * spec.num_key_heads * spec.key_head_dim + spec.num_value_heads * spec.value_head_dim;
  return 2 * (held - spec.num_key_heads) * spec.key_head_dim * hidden_size +
         (ranks - 1) *
             (channels * spec.conv_kernel + (spec.gate_rank + spec.output_gate_rank()) * hidden_size);
}

// Everything of a hash table but its rows: two projections and two norms, or the convolution and three norms.
std::size_t replicated_parameters(const HashTableSpec& spec, std::size_t hidden_size, std::size_t ranks) {
  const std::size_t channels = spec.streams * hidden_size;
  return (ranks - 1) * ((channels + hidden_size) * spec.embed_dim() +
                        channels * (spec.conv_kernel + (spec.conv_kernel == 0 ? 2 : 3)));
}

// All taps of the convolution.
std::size_t replicated_parameters(const ShortConvolutionSpec& spec, std::size_t, std::size_t ranks) {
  return (ranks - 1) * spec.channels * spec.conv_kernel;
}

// Ranks that need the same groups of B and C each hold them. All ranks hold all taps and biases of the
// convolution.
std::size_t replicated_parameters(const MambaSpec& spec, std::size_t hidden_size, std::size_t ranks) {
  const HeadCounts counts = head_counts(spec);
  std::size_t held = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    held +=
        shard_heads_of_some(counts.heads, counts.kv_heads, {rank, ranks}, counts.granule).local_kv_heads();
  const std::size_t channels = spec.num_heads * spec.head_dim + 2 * spec.num_groups * spec.state_size;
  return 2 * (held - spec.num_groups) * spec.state_size * hidden_size +
         (ranks - 1) * channels * (spec.conv_kernel + 1);
}

// Every rank holds all taps and biases of the convolution.
std::size_t replicated_parameters(const Mamba1Spec& spec, std::size_t, std::size_t ranks) {
  return (ranks - 1) * spec.channels * (spec.conv_kernel + 1);
}

// Every rank holds the first matrices of pairs of layers, and the previous token's shares.
std::size_t replicated_parameters(const Rwkv7Spec& spec, std::size_t hidden_size, std::size_t ranks) {
  const std::size_t rows =
      6 + spec.decay_rank + spec.strength_rank + spec.gate_rank + (spec.is_first ? 0 : spec.value_rank);
  return (ranks - 1) * rows * hidden_size;
}

// Every rank routes, and projects to the experts' latent.
std::size_t replicated_parameters(const MixtureOfExpertsSpec& spec, std::size_t hidden_size,
                                  std::size_t ranks) {
  const std::size_t rows = spec.router.num_experts + (spec.shared_expert_gate ? 1 : 0) +
                           (spec.router.input_norm ? 1 : 0) + spec.latent_size;
  return (ranks - 1) * rows * hidden_size;
}

// Every rank computes the layers' inputs.
std::size_t replicated_inputs(const ModelSpec& spec, std::size_t ranks) {
  if (!spec.per_layer_inputs) return 0;
  return (ranks - 1) * spec.blocks.size() * 3 * spec.per_layer_inputs->size * spec.hidden_size;
}

// Every rank computes the streams of AltUp and of hyper-connections, and addends of low rank.
std::size_t replicated_streams(const ModelSpec& spec, std::size_t ranks) {
  if (const HyperConnectionSpec* const connection = hyper_connection_of(spec)) {
    const std::size_t weights = 2 * spec.blocks.size() * connection->weights() +
                                (connection->ends_in_mean || connection->lags ? 0 : connection->streams);
    return (ranks - 1) * weights * connection->streams * spec.hidden_size;
  }
  if (const LowRankConnectionSpec* const connection = low_rank_connection_of(spec)) {
    const std::size_t layers = 2 * spec.blocks.size();
    const std::size_t rows = (layers + 1) * 2 * connection->rank + layers * connection->streams;
    return (ranks - 1) * rows * connection->streams * spec.hidden_size;
  }
  const AltUpSpec* const altup = altup_of(spec);
  if (altup == nullptr) return 0;
  std::size_t rows = 2 * (altup->streams - 1) * spec.hidden_size;
  for (const BlockSpec& block : spec.blocks) rows += altup->streams + 2 * block.laurel->rank;
  return (ranks - 1) * rows * spec.hidden_size;
}

std::size_t replicated_parameters(const ModelSpec& spec, std::size_t ranks) {
  const auto of_part = [&]<class Part>(const Part& part) -> std::size_t {
    if constexpr (requires { replicated_parameters(part, spec.hidden_size, ranks); })
      return replicated_parameters(part, spec.hidden_size, ranks);
    return 0;
  };
  std::size_t total = replicated_inputs(spec, ranks) + replicated_streams(spec, ranks);
  for (const BlockSpec& block : spec.blocks) {
    total += std::visit(of_part, block.attention) + std::visit(of_part, block.feed_forward);
    if (block.parallel_experts) total += of_part(block.parallel_experts->experts);
    if (block.parallel_mixer) total += of_part(*block.parallel_mixer);
    if (block.hash_table) total += of_part(*block.hash_table);
  }
  return total;
}

// Bytes of the tables that give each token its experts. Every rank reads all of them.
std::size_t token_table_bytes(const ModelSpec& spec) {
  std::size_t bytes = 0;
  for (const BlockSpec& block : spec.blocks) {
    if (const MixtureOfExpertsSpec* const experts = experts_in(block))
      bytes += experts->router.token_table * experts->router.num_experts_per_tok * sizeof(std::int64_t);
  }
  return bytes;
}

// Returns the bytes of an element in the file. config.json may name a different type.
std::size_t element_size(const SafetensorsCheckpoint& source) {
  return size_of(source.dtype(source.names().front()));
}

TEST(Loading, ReadsLittleMoreThanTheFileOverAllRanks) {
  Communicator& comm = test::world();
  for (const reference::Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const CheckpointConfig config = load_config(fixture.folder);
    const ModelSpec spec = make_spec(config);
    if (comm.size() > config.num_attention_heads) continue;
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    const Model decoder(spec, *source, {comm.rank(), comm.size()});
    const std::vector<std::size_t> read = gather_values(comm, source->bytes_read());
    if (!comm.is_root()) continue;
    const std::size_t total = std::accumulate(read.begin(), read.end(), std::size_t{0});
    const std::size_t replicated = replicated_parameters(spec, comm.size()) * element_size(*source) +
                                   (comm.size() - 1) * token_table_bytes(spec);
    EXPECT_LE(static_cast<double>(total - replicated), 1.05 * static_cast<double>(source->stored_bytes()))
        << fixture.name << " on " << comm.size() << " ranks";
  }
}

// Together with LeavesNoTensorUnread: every element of every tensor is read exactly once.
TEST(Loading, ReadsOnlyTheRanksElements) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  for (const reference::Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const CheckpointConfig config = load_config(fixture.folder);
    const ModelSpec spec = make_spec(config);
    if (comm.size() > config.num_attention_heads) continue;
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    const Model decoder(spec, *source, tp);
    EXPECT_EQ(source->bytes_read(), decoder.parameters() * element_size(*source) + token_table_bytes(spec))
        << fixture.name;
  }
}

// Whether the tensor belongs to a vision tower, to tokens of images, or to multi-token prediction.
bool is_of_another_part(const CheckpointConfig& config, const std::string& tensor) {
  constexpr std::array kParts = {"vision_tower.",     "multi_modal_projector.",
                                 "mm_projector.",     "model.vision_",
                                 "model.visual.",     "model.embed_",
                                 "model.audio_",      "mtp.",
                                 "visual.",           "model.mtp.",
                                 "model.mtp_layers.", "vision.",
                                 "aligner.",          "image_"};
  const std::string behind = fmt::format(".layers.{}.", config.num_hidden_layers);
  return std::ranges::any_of(kParts, [&](const char* part) { return tensor.starts_with(part); }) ||
         tensor.ends_with(".gate.bias_vl") ||
         (config.num_nextn_predict_layers != 0 && tensor.find(behind) != std::string::npos);
}

// Whether the tensor belongs to keys and values in a layer that uses an earlier layer's.
bool is_of_shared_keys(const TensorNames& names, const std::string& tensor) {
  return std::ranges::any_of(names.ignored_layers, [&](const std::string& layer) {
    return tensor == fmt::format("{}{}.weight", names.blocks, layer);
  });
}

TEST(Loading, LeavesNoTensorUnread) {
  Communicator& comm = test::world();
  for (const reference::Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const CheckpointConfig config = load_config(fixture.folder);
    if (comm.size() > config.num_attention_heads) continue;
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    const Model decoder(make_spec(config), *source, {comm.rank(), comm.size()});
    const auto is_left_out = [&](const std::string& tensor) { return is_of_another_part(config, tensor); };
    EXPECT_TRUE(std::ranges::all_of(decoder.unused_tensors(), is_left_out)) << fixture.name;
    if (comm.size() > 1) continue;  // another rank may read a bias
    for (const std::string& tensor : source->unread()) {
      // GPT-2's files contain the causal mask.
      const bool is_mask = config.architecture == "GPT2LMHeadModel" && tensor.ends_with(".attn.bias");
      const TensorNames names = make_spec(config).names.as_stored_in(*source);
      EXPECT_TRUE(is_mask || is_left_out(tensor) || is_of_shared_keys(names, tensor)) << tensor;
    }
  }
}

TEST(Loading, ReportsProgressUpToEverythingThatThisRankHolds) {
  Communicator& comm = test::world();
  const reference::Fixture fixture = reference::fixture("llama-headdim-bias");
  const ModelSpec spec = make_spec(load_config(fixture.folder));
  const auto source = SafetensorsCheckpoint::open(fixture.folder);
  std::vector<std::size_t> reported;
  const TpRank tp{comm.rank(), comm.size()};
  const Model decoder(spec, *source, tp, WeightType::f32,
                      [&](std::size_t elements) { reported.push_back(elements); });
  ASSERT_FALSE(reported.empty());
  EXPECT_TRUE(std::is_sorted(reported.begin(), reported.end()));
  EXPECT_EQ(reported.back(), decoder.parameters());
}

}  // namespace
}  // namespace tp
