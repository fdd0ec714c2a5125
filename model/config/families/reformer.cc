// Reformer: reversible blocks that alternate between LSH attention and attention within chunks. Source:
// Kitaev et al., Reformer: The Efficient Transformer, 2020.
#include "model/config/families/common.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tp::families {
namespace {

void require_layers(const CheckpointConfig& config) {
  const auto is_known = [](const std::string& type) { return type == "local" || type == "lsh"; };
  require<ConfigError>(config.reformer.attn_layers.size() == config.num_hidden_layers &&
                           std::ranges::all_of(config.reformer.attn_layers, is_known),
                       "attn_layers must be local or lsh for each of the {} layers (num_hidden_layers), "
                       "found {} entries; check "
                       "config.json",
                       config.num_hidden_layers, config.reformer.attn_layers.size());
  const std::size_t chunks =
      std::max({config.reformer.local_num_chunks_before, config.reformer.lsh_num_chunks_before,
                config.reformer.lsh_num_chunks_after});
  const std::size_t length =
      std::max(config.reformer.local_attn_chunk_length, config.reformer.lsh_attn_chunk_length);
  require<ConfigError>(
      chunks <= 64 && length <= 65536 && config.reformer.num_hashes <= 64,
      "at most 64 neighbours of a chunk, 65536 tokens in it and 64 hashes are supported, found "
      "{}, {} and {} (num_chunks_before and so on, attn_chunk_length, num_hashes); check "
      "config.json",
      chunks, length, config.reformer.num_hashes);
}

// How the original code pads sequences that are longer than the shortest chunk.
struct Padding {
  std::size_t multiple = 1;
  std::size_t shortest = SIZE_MAX;
};

Padding padding_of(const CheckpointConfig& config) {
  Padding padding;
  for (const std::string& type : config.reformer.attn_layers) {
    const std::size_t length =
        type == "lsh" ? config.reformer.lsh_attn_chunk_length : config.reformer.local_attn_chunk_length;
    padding.multiple = std::lcm(padding.multiple, length);
    padding.shortest = std::min(padding.shortest, length);
  }
  return padding;
}

std::vector<std::size_t> buckets_of(const CheckpointConfig& config) {
  for (const std::size_t factor : config.reformer.num_buckets) {
    require<ConfigError>(
        factor % 2 == 0 && factor <= 4096,
        "num_buckets must be even, as a random direction gives two buckets, and have factors "
        "of at most 4096, found {}; check config.json",
        factor);
  }
  require<ConfigError>(
      config.reformer.num_buckets.size() <= 2,
      "num_buckets must be a number or two factors of it, found {} factors; check config.json",
      config.reformer.num_buckets.size());
  return config.reformer.num_buckets;
}

LshAttentionSpec lsh_of(const CheckpointConfig& config) {
  const Padding padding = padding_of(config);
  const auto longest =
      static_cast<double>(config.max_position_embeddings / config.reformer.lsh_attn_chunk_length);
  return {.num_attention_heads = config.num_attention_heads,
          .head_dim = config.head_dim,
          .chunk_length = config.reformer.lsh_attn_chunk_length,
          .chunks_before = config.reformer.lsh_num_chunks_before,
          .chunks_after = config.reformer.lsh_num_chunks_after,
          .num_hashes = config.reformer.num_hashes,
          .num_buckets = buckets_of(config),
          .max_buckets = 2 * std::max(static_cast<std::size_t>(std::sqrt(longest)),
                                      config.reformer.lsh_attn_chunk_length),
          .hash_seed = config.reformer.hash_seed,
          .padded_to = padding.multiple,
          .unpadded = padding.shortest};
}

AxialPositionsSpec axial_of(const CheckpointConfig& config) {
  const std::vector<std::size_t>& shape = config.reformer.axial_pos_shape;
  const std::vector<std::size_t>& sizes = config.reformer.axial_pos_embds_dim;
  require<ConfigError>(
      shape.size() == 2 && sizes.size() == 2 && sizes[0] + sizes[1] == config.hidden_size &&
          shape[0] <= config.max_position_embeddings && shape[1] <= config.max_position_embeddings &&
          shape[0] * shape[1] >= config.max_position_embeddings,
      "axial_pos_shape must be rows and columns for max_position_embeddings, and "
      "axial_pos_embds_dim two sizes that add up to hidden_size, found {} and {} numbers for "
      "{} positions and a hidden_size of {}; check config.json",
      shape.size(), sizes.size(), config.max_position_embeddings, config.hidden_size);
  return {.rows = shape[0], .columns = shape[1], .row_size = sizes[0], .column_size = sizes[1]};
}

ModelSpec reformer_spec(const CheckpointConfig& config) {
  require_layers(config);
  ModelSpec spec = llama_spec(config);
  const NormSpec norm = layer_norm_of(config);
  set_norms(spec, norm);
  set_plain_mlps(config, spec);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    block.wiring = BlockSpec::Wiring::reversible;
    attention_of(block).rope.reset();
    attention_of(block).pattern.chunk = config.reformer.local_attn_chunk_length;
    attention_of(block).pattern.chunks_before = config.reformer.local_num_chunks_before;
    if (config.reformer.attn_layers[layer] == "lsh") block.attention = lsh_of(config);
  }
  if (config.reformer.axial_pos_shape.empty())
    spec.learned_positions = config.max_position_embeddings;
  else
    spec.axial_positions = axial_of(config);
  spec.lm_head_bias = true;
  spec.recomputes = true;
  return spec;
}

BlockNames reformer_block(const std::string& prefix) {
  const std::string attention = prefix + "attention.";
  BlockNames names;
  names.input_norm = attention + "layer_norm";
  names.q_proj = attention + "self_attention.query";
  names.k_proj = attention + "self_attention.key";
  names.v_proj = attention + "self_attention.value";
  names.query_key_proj = attention + "self_attention.query_key";
  names.o_proj = attention + "output.dense";
  names.pre_feed_forward_norm = prefix + "feed_forward.layer_norm";
  names.up_proj = prefix + "feed_forward.dense.dense";
  names.down_proj = prefix + "feed_forward.output.dense";
  return names;
}

}  // namespace

// The LM head reads two streams, so it cannot be tied to the embedding of one stream.
Family reformer() {
  Family family{.architecture = "ReformerModelWithLMHead",
                .fixed_fields = {{"is_decoder", "true"}, {"tie_word_embeddings", "false"}},
                .make_spec = reformer_spec};
  family.defaults.hidden_act = "relu";
  family.defaults.layer_norm_eps = 1e-12;
  family.defaults.mlp_bias = true;
  family.defaults.hidden_size = 256;
  family.defaults.intermediate_size = 512;
  family.defaults.num_attention_heads = 12;
  family.defaults.head_dim = 64;
  family.defaults.vocab_size = 320;
  family.defaults.max_position_embeddings = 4096;
  family.names = {.prefix = "reformer.",
                  .embed_tokens = "embeddings.word_embeddings",
                  .embed_positions = "embeddings.position_embeddings.embedding",
                  .axial_positions = "embeddings.position_embeddings.weights.",
                  .final_norm = "encoder.layer_norm",
                  .lm_head = "lm_head.decoder",
                  .lm_head_bias = "lm_head",
                  .blocks = "encoder.layers.",
                  .names_of_block = reformer_block,
                  .buffers = {"lm_head.decoder.bias", "self_mask_value_float16", "self_mask_value_float32",
                              "mask_value_float16", "mask_value_float32"}};
  return family;
}

}  // namespace tp::families
