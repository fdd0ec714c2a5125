#include "model/config/compressed_attention_part.h"

#include "model/config/checkpoint_config.h"
#include "model/config/config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>

#include <fmt/ranges.h>

namespace tp {
namespace {

constexpr std::size_t kMax = 65536;

void require_sizes(const std::string& where, const CheckpointConfig& config) {
  const CompressedAttentionConfig& compressed = config.compressed;
  require<ConfigError>(
      config.num_key_value_heads == 1,
      "{}: num_key_value_heads must be 1, because all heads share one latent, found {}; check "
      "config.json",
      where, config.num_key_value_heads);
  require<ConfigError>(
      compressed.head_dim <= kMax && compressed.q_lora_rank <= kMax && compressed.o_lora_rank <= kMax &&
          compressed.head_dim >= rotary_dim(config) && config.indexer.head_dim >= rotary_dim(config),
      "{}: q_lora_rank and o_lora_rank must be at most {}, and head_dim and index_head_dim from "
      "qk_rope_head_dim, {}, to {}, found {}, {}, {} and {}; check config.json",
      where, kMax, rotary_dim(config), kMax, compressed.q_lora_rank, compressed.o_lora_rank,
      compressed.head_dim, config.indexer.head_dim);
  const RopeScaling::Kind scaling = config.rope_scaling.kind;
  require<ConfigError>(
      scaling == RopeScaling::Kind::none || scaling == RopeScaling::Kind::yarn,
      "{}: rope_scaling must be yarn or absent in layers with compress_ratios, found another "
      "type; check config.json",
      where);
  require<ConfigError>(config.num_attention_heads % compressed.o_groups == 0,
                       "{}: num_attention_heads must be a multiple of o_groups, found {} and {}; check "
                       "config.json",
                       where, config.num_attention_heads, compressed.o_groups);
  require<ConfigError>(
      config.sliding_window != 0 && config.sliding_window <= kMax && compressed.rope_theta > 0,
      "{}: sliding_window must be 1 to {}, and compress_rope_theta above 0, found {} and {}; "
      "check config.json",
      where, kMax, config.sliding_window, compressed.rope_theta);
}

// The layers that a list names, ascending. They must have pools.
std::vector<std::size_t> layers_with_pools(const JsonNode& fields, const char* name, const std::string& where,
                                           const CheckpointConfig& config) {
  const std::vector<std::size_t>& ratios = config.compressed.ratios;
  const std::vector<std::size_t> layers = fields.list_or_empty(name, &JsonNode::count);
  const auto is_possible = [&](std::size_t layer) { return layer < ratios.size() && ratios[layer] != 0; };
  require<ConfigError>(std::ranges::all_of(layers, is_possible) &&
                           std::ranges::adjacent_find(layers, std::greater_equal<>()) == layers.end(),
                       "{}: {} must be layers with compress_ratios above 0, in ascending order, found [{}]; "
                       "check config.json",
                       where, name, fmt::join(layers, ", "));
  return layers;
}

// The last of these layers up to `layer`; nullopt if all are later.
std::optional<std::size_t> last_source(const std::vector<std::size_t>& layers, std::size_t layer) {
  const auto next = std::ranges::upper_bound(layers, layer);
  return next == layers.begin() ? std::nullopt : std::optional(*std::prev(next));
}

void require_candidates(const std::string& where, const CheckpointConfig& config) {
  const CompressedAttentionConfig& compressed = config.compressed;
  require<ConfigError>(
      std::ranges::binary_search(compressed.index_sources, compressed.candidate_source) &&
          compressed.candidate_source >= compressed.pool_sources.back(),
      "{}: candidate_source_layer_id must be one of index_source_layer_ids, [{}], and at "
      "least the last of kv_source_layer_ids, {}, found {}; use a model without this variant",
      where, fmt::join(compressed.index_sources, ", "), compressed.pool_sources.back(),
      compressed.candidate_source);
  require<ConfigError>(
      compressed.candidate_block_size <= kMax && compressed.candidate_blocks <= kMax,
      "{}: candidate_block_size and candidate_topk_blocks must be at most {}, found {} and {}; check "
      "config.json",
      where, kMax, compressed.candidate_block_size, compressed.candidate_blocks);
}

void read_sources(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  CompressedAttentionConfig& compressed = config.compressed;
  compressed.pool_sources = layers_with_pools(fields, "kv_source_layer_ids", where, config);
  compressed.index_sources = layers_with_pools(fields, "index_source_layer_ids", where, config);
  require<ConfigError>(std::ranges::includes(compressed.index_sources, compressed.pool_sources),
                       "{}: index_source_layer_ids must contain kv_source_layer_ids, because a choice refers "
                       "to the entries of "
                       "one of these layers, found [{}] and [{}]; use a model without this variant",
                       where, fmt::join(compressed.index_sources, ", "),
                       fmt::join(compressed.pool_sources, ", "));
  for (std::size_t layer = 0; layer < compressed.ratios.size(); ++layer) {
    if (compressed.ratios[layer] == 0) continue;
    const std::optional<std::size_t> source = last_source(compressed.pool_sources, layer);
    require<ConfigError>(
        source && compressed.ratios[*source] == compressed.ratios[layer],
        "{}: the last of kv_source_layer_ids up to layer {} must have the compress_ratios of "
        "this layer, {}, found {}; use a model without this variant",
        where, layer, compressed.ratios[layer],
        source ? fmt::format("{} in layer {}", compressed.ratios[*source], *source)
               : std::string("no such layer"));
  }
  if (compressed.pool_sources.empty()) return;
  compressed.candidate_source = compressed.pool_sources.back();
  fields.update_count({"candidate_source_layer_id"}, compressed.candidate_source);
  require_candidates(where, config);
}

}  // namespace

std::optional<std::size_t> pool_source_of(const CompressedAttentionConfig& config, std::size_t layer) {
  const std::optional<std::size_t> source = last_source(config.pool_sources, layer);
  return source == layer ? std::nullopt : source;
}

std::size_t index_source_of(const CompressedAttentionConfig& config, std::size_t layer) {
  return last_source(config.index_sources, layer).value();
}

void read_compressed_attention(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  CompressedAttentionConfig& compressed = config.compressed;
  // Without this field, whole heads would be rotated.
  fields.at("qk_rope_head_dim").size();
  read_numbers(kCompressedAttentionNumbers, fields, compressed);
  fields.update({"compress_rope_theta"}, compressed.rope_theta);
  // The list goes on for layers of multi-token prediction.
  compressed.ratios = fields.list_or_empty("compress_ratios", &JsonNode::count);
  const std::size_t min = compressed.has_sources ? 1 : 4;
  const auto is_possible = [&](std::size_t ratio) { return ratio == 0 || (ratio >= min && ratio <= kMax); };
  require<ConfigError>(
      compressed.ratios.size() >= config.num_hidden_layers &&
          std::ranges::all_of(compressed.ratios, is_possible),
      "{}: compress_ratios must have 0 or a number from {} to {} for each of {} layers, found "
      "[{}]; check config.json",
      where, min, kMax, config.num_hidden_layers, fmt::join(compressed.ratios, ", "));
  compressed.ratios.resize(config.num_hidden_layers);
  require_sizes(where, config);
  if (compressed.has_sources) read_sources(fields, where, config);
  // All MLPs are experts, so files have no other width.
  config.intermediate_size = config.experts.moe_intermediate_size;
}

}  // namespace tp
