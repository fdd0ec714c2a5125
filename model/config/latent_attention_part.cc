#include "model/config/latent_attention_part.h"

#include "model/config/checkpoint_config.h"
#include "model/config/config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <vector>

namespace tp {
namespace {

// From a list, from letters (F: full, S: shared), or from the distance between layers with an indexer.
std::vector<std::string> indexer_types(const JsonNode& fields, const CheckpointConfig& config) {
  std::vector<std::string> types = fields.list_or_empty("indexer_types", &JsonNode::string);
  if (!types.empty()) return types;
  for (const char letter : fields.string_or("index_topk_pattern", ""))
    types.emplace_back(letter == 'F' ? "full" : letter == 'S' ? "shared" : std::string(1, letter));
  const std::size_t distance = fields.count_or("index_topk_freq", config.indexer.topk_freq);
  if (!types.empty() || distance <= 1) return types;
  const std::size_t offset = fields.count_or("index_skip_topk_offset", 2);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::size_t after = layer + 1 - std::min(offset, layer + 1);
    types.emplace_back(after % distance == 0 ? "full" : "shared");
  }
  return types;
}

// From a list of numbers, which are 0 for layers without an indexer, or from the types of layers. `sparse`:
// sparse_attention_config.
std::vector<bool> layers_with_indexer(const JsonNode& fields, const JsonNode& sparse) {
  std::vector<bool> layers;
  for (const std::size_t frequency : sparse.list_or_empty("sparse_attention_freq", &JsonNode::count))
    layers.push_back(frequency != 0);
  if (!layers.empty()) return layers;
  for (const std::string& type : fields.list_or_empty("layer_types", &JsonNode::string))
    layers.push_back(type == "minimax_m3_sparse");
  return layers;
}

// Index values, which some layers of early checkpoints may have beside index keys.
bool has_index_values(const JsonNode& sparse, const std::vector<bool>& layers) {
  const std::vector<std::size_t> disabled =
      sparse.list_or_empty("sparse_disable_index_value", &JsonNode::count);
  for (std::size_t layer = 0; layer < std::min(disabled.size(), layers.size()); ++layer) {
    if (layers[layer] && disabled[layer] == 0) return true;
  }
  return false;
}

}  // namespace

void read_latent_attention(const JsonNode& fields, CheckpointConfig& config) {
  LatentAttentionConfig& latent = config.latent;
  if (!fields.has("kv_lora_rank")) return;
  latent.q_lora_rank = fields.count_or("q_lora_rank", 0);
  latent.kv_lora_rank = fields.at("kv_lora_rank").size();
  latent.qk_nope_head_dim = fields.at("qk_nope_head_dim").size();
  latent.qk_rope_head_dim = fields.at("qk_rope_head_dim").count();
  latent.v_head_dim = fields.size_or("v_head_dim", config.hidden_size / config.num_attention_heads);
  fields.update({"rope_interleave"}, latent.rope_interleave);
}

void read_indexer(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  constexpr std::size_t kMax = 65536;
  read_numbers(kIndexerNumbers, fields, config.indexer);
  fields.update({"indexer_rope_interleave"}, config.indexer.rope_interleave);
  if (config.indexer.pool > 1) fields.update_size({"index_kpool"}, config.indexer.pool);
  require<ConfigError>(config.indexer.pool == 1 || config.indexer.topk % config.indexer.pool == 0,
                       "{}: index_topk must be a multiple of index_kpool, found {} and {}; check config.json",
                       where, config.indexer.topk, config.indexer.pool);
  require<ConfigError>(
      config.indexer.topk <= (std::size_t{1} << 24) && config.indexer.n_heads <= kMax &&
          config.indexer.head_dim <= kMax && config.indexer.head_dim >= config.latent.qk_rope_head_dim,
      "{}: index_topk must be at most 16777216, index_n_heads at most 65536, and index_head_dim from "
      "qk_rope_head_dim, {}, to 65536, found {}, {} and {}; check config.json",
      where, config.latent.qk_rope_head_dim, config.indexer.topk, config.indexer.n_heads,
      config.indexer.head_dim);
  config.indexer.types = indexer_types(fields, config);
  if (config.indexer.types.empty()) return;
  const bool are_known = std::ranges::all_of(
      config.indexer.types, [](const std::string& type) { return type == "full" || type == "shared"; });
  require<ConfigError>(are_known && config.indexer.types.front() == "full" &&
                           config.indexer.types.size() >= config.num_hidden_layers,
                       "{}: indexers must be full in the first layer and full or shared (F or S) in all {} "
                       "others; check indexer_types and index_topk_pattern in config.json",
                       where, config.num_hidden_layers - 1);
  config.indexer.types.resize(config.num_hidden_layers);
}

void read_block_indexer(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  constexpr std::size_t kMaxPositions = std::size_t{1} << 24;
  BlockIndexerConfig& indexer = config.block_indexer;
  const JsonNode sparse =
      fields.has("sparse_attention_config") ? fields.at("sparse_attention_config") : fields;
  read_numbers(kBlockIndexerNumbers, sparse, indexer);
  indexer.layers = layers_with_indexer(fields, sparse);
  require<ConfigError>(indexer.n_heads == config.num_key_value_heads,
                       "{}: sparse_num_index_heads must be num_key_value_heads, {}, because a KV head has an "
                       "index head, found {}; check config.json",
                       where, config.num_key_value_heads, indexer.n_heads);
  require<ConfigError>(
      indexer.head_dim <= 65536 && indexer.head_dim >= rotary_dim(config),
      "{}: sparse_index_dim must be from the number of rotated elements, {}, to 65536, found "
      "{}; check config.json",
      where, rotary_dim(config), indexer.head_dim);
  require<ConfigError>(
      indexer.block_size <= kMaxPositions && indexer.topk_blocks <= kMaxPositions &&
          indexer.local_blocks <= indexer.topk_blocks,
      "{}: sparse_block_size and sparse_topk_blocks must be at most {}, and sparse_local_block at most "
      "sparse_topk_blocks, found {}, {} and {}; check config.json",
      where, kMaxPositions, indexer.block_size, indexer.topk_blocks, indexer.local_blocks);
  require<ConfigError>(indexer.layers.empty() || indexer.layers.size() >= config.num_hidden_layers,
                       "{}: sparse_attention_freq must have an entry for every layer, expected {} "
                       "(num_hidden_layers), found {}; check config.json",
                       where, config.num_hidden_layers, indexer.layers.size());
  require<ConfigError>(!has_index_values(sparse, indexer.layers),
                       "{}: sparse_disable_index_value must not be 0 for a layer with an indexer, because "
                       "index values are not supported, found 0; use a model without them",
                       where);
  if (!indexer.layers.empty()) indexer.layers.resize(config.num_hidden_layers);
}

void read_pooled_indexer(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  constexpr std::size_t kMax = 65536;
  PooledIndexerConfig& indexer = config.pooled_indexer;
  read_numbers(kPooledIndexerNumbers, fields, indexer);
  require<ConfigError>(
      indexer.n_heads <= kMax && indexer.head_dim <= kMax && indexer.head_dim >= rotary_dim(config),
      "{}: indexer_n_heads must be at most 65536, and indexer_head_dim from the number of rotated elements, "
      "{}, to 65536, found {} and {}; check config.json",
      where, rotary_dim(config), indexer.n_heads, indexer.head_dim);
  require<ConfigError>(
      indexer.budget <= std::size_t{1} << 24 && indexer.compress_ratio <= indexer.budget &&
          indexer.budget % indexer.compress_ratio == 0,
      "{}: indexer_budget must be a multiple of indexer_compress_ratio of at most 16777216, found {} and {}; "
      "check config.json",
      where, indexer.budget, indexer.compress_ratio);
}

}  // namespace tp
