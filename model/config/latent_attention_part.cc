#include "model/config/latent_attention_part.h"

#include "model/config/checkpoint_config.h"
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
  const std::size_t distance = fields.count_or("index_topk_freq", 1);
  if (!types.empty() || distance <= 1) return types;
  const std::size_t offset = fields.count_or("index_skip_topk_offset", 2);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::size_t after = layer + 1 - std::min(offset, layer + 1);
    types.emplace_back(after % distance == 0 ? "full" : "shared");
  }
  return types;
}

}  // namespace

void read_latent_attention(const JsonNode& fields, CheckpointConfig& config) {
  LatentAttentionConfig& latent = config.latent;
  if (!fields.has("kv_lora_rank")) return;
  latent.q_lora_rank = fields.count_or("q_lora_rank", 0);
  latent.kv_lora_rank = fields.at("kv_lora_rank").size();
  latent.qk_nope_head_dim = fields.at("qk_nope_head_dim").size();
  latent.qk_rope_head_dim = fields.at("qk_rope_head_dim").size();
  latent.v_head_dim = fields.size_or("v_head_dim", config.hidden_size / config.num_attention_heads);
  fields.update({"rope_interleave"}, latent.rope_interleave);
}

void read_indexer(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  constexpr std::size_t kMost = 65536;
  read_numbers(kIndexerNumbers, fields, config.indexer);
  fields.update({"indexer_rope_interleave"}, config.indexer.rope_interleave);
  require<ConfigError>(
      config.indexer.topk <= (std::size_t{1} << 24) && config.indexer.n_heads <= kMost &&
          config.indexer.head_dim <= kMost && config.indexer.head_dim >= config.latent.qk_rope_head_dim,
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

}  // namespace tp
