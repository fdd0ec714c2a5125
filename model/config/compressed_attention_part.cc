#include "model/config/compressed_attention_part.h"

#include "model/config/checkpoint_config.h"
#include "model/config/config.h"
#include "tp/internal/require.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace tp {
namespace {

constexpr std::size_t kMinRatio = 4;
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

}  // namespace

void read_compressed_attention(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  CompressedAttentionConfig& compressed = config.compressed;
  // Without this field, whole heads would be rotated.
  fields.at("qk_rope_head_dim").size();
  read_numbers(kCompressedAttentionNumbers, fields, compressed);
  fields.update({"compress_rope_theta"}, compressed.rope_theta);
  // The list goes on for layers of multi-token prediction.
  compressed.ratios = fields.list_or_empty("compress_ratios", &JsonNode::count);
  const auto is_possible = [](std::size_t ratio) {
    return ratio == 0 || (ratio >= kMinRatio && ratio <= kMax);
  };
  require<ConfigError>(
      compressed.ratios.size() >= config.num_hidden_layers &&
          std::ranges::all_of(compressed.ratios, is_possible),
      "{}: compress_ratios must have 0 or a number from {} to {} for each of {} layers, found "
      "[{}]; check config.json",
      where, kMinRatio, kMax, config.num_hidden_layers, fmt::join(compressed.ratios, ", "));
  compressed.ratios.resize(config.num_hidden_layers);
  require_sizes(where, config);
  // All MLPs are experts, so files have no other width.
  config.intermediate_size = config.experts.moe_intermediate_size;
}

}  // namespace tp
