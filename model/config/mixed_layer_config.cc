#include "model/config/mixed_layer_config.h"

#include "tp/internal/require.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {
namespace {

// Newer files list the sizes of each layer that differs from head_dim and num_key_value_heads.
void read_listed_sizes(const JsonNode& list, const std::string& where, CheckpointConfig& config) {
  bool is_first = true;
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::optional<JsonNode> sizes = list.find(fmt::to_string(layer));
    const std::size_t head_dim = sizes ? sizes->size_or("head_dim", config.head_dim) : config.head_dim;
    const std::size_t kv_heads = sizes ? sizes->size_or("num_key_value_heads", config.num_key_value_heads)
                                       : config.num_key_value_heads;
    const bool is_global = !config.layer_types.empty() && config.layer_types[layer] == "full_attention";
    if (is_global && is_first) {
      config.global_head_dim = head_dim;
      config.num_global_key_value_heads = kv_heads;
      is_first = false;
    }
    const std::size_t expected_dim = is_global ? config.global_head_dim : config.head_dim;
    const std::size_t expected_heads =
        is_global ? config.num_global_key_value_heads : config.num_key_value_heads;
    require<ConfigError>(head_dim == expected_dim && kv_heads == expected_heads,
                         "{}: per_layer_config must give layers of the same type the same sizes, expected "
                         "head_dim {} and num_key_value_heads {} for layer {}, found {} and {}; use another "
                         "model",
                         where, expected_dim, expected_heads, layer, head_dim, kv_heads);
  }
}

}  // namespace

void read_mixed_layers(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update({"attention_k_eq_v"}, config.attention_k_eq_v);
  fields.update_size({"global_head_dim"}, config.global_head_dim);
  if (config.attention_k_eq_v)
    fields.update_size({"num_global_key_value_heads"}, config.num_global_key_value_heads);
  if (const auto list = fields.find("per_layer_config")) read_listed_sizes(*list, where, config);
  fields.update_count({"num_kv_shared_layers"}, config.num_kv_shared_layers);
  require<ConfigError>(config.num_kv_shared_layers < std::max<std::size_t>(1, config.num_hidden_layers),
                       "{}: num_kv_shared_layers must be less than num_hidden_layers, {}, found {}; check "
                       "config.json",
                       where, config.num_hidden_layers, config.num_kv_shared_layers);
  fields.update({"use_double_wide_mlp"}, config.use_double_wide_mlp);
  if (fields.is_null("hidden_size_per_layer_input")) config.layer_input.hidden_size = 0;
  fields.update_count({"hidden_size_per_layer_input"}, config.layer_input.hidden_size);
  fields.update_count({"vocab_size_per_layer_input"}, config.layer_input.vocab_size);
  fields.update({"enable_moe_block"}, config.enable_moe_block);
}

}  // namespace tp
