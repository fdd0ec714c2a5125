#include "model/config/layer_config.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

namespace tp {
namespace {

// Converts layer_rope_theta to no_rope_layers: layers with theta 0 have no RoPE. Other values must equal the
// model's theta, unless the family has RoPE for each layer.
std::vector<std::size_t> layers_with_theta(const JsonNode& fields, const Family& family,
                                           const std::string& where, CheckpointConfig& config) {
  std::vector<std::size_t> layers;
  config.layer_rope_theta = fields.list_or_empty("layer_rope_theta", &JsonNode::number);
  for (const double theta : config.layer_rope_theta) {
    require<ConfigError>(
        family.has_theta_per_layer ? theta >= 0.0 : theta == 0.0 || theta == config.rope_theta,
        "{}: layer_rope_theta must be 0 or rope_theta, {}, for every layer, found {}; use a "
        "model whose layers have the same RoPE",
        where, config.rope_theta, theta);
    layers.push_back(theta == 0.0 ? 0 : 1);
  }
  return layers;
}

// Reads which layers have RoPE: from a list, or all layers except every n-th.
void read_layers_without_rope(const JsonNode& fields, const Family& family, const std::string& where,
                              CheckpointConfig& config) {
  config.no_rope_layers = fields.has("layer_rope_theta")
                              ? layers_with_theta(fields, family, where, config)
                              : fields.list_or_empty("no_rope_layers", &JsonNode::count);
  if (fields.string_or("position_embedding_type", "") == "nope")
    config.no_rope_layers.assign(config.num_hidden_layers, 0);
  fields.update_count({"no_rope_layer_interval"}, config.no_rope_layer_interval);
  if (config.no_rope_layers.empty() && config.no_rope_layer_interval != 0) {
    for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer)
      config.no_rope_layers.push_back((layer + 1) % config.no_rope_layer_interval == 0 ? 0 : 1);
  }
  require<ConfigError>(
      config.no_rope_layers.empty() || config.no_rope_layers.size() == config.num_hidden_layers,
      "{}: no_rope_layers must have an entry for every layer, expected {} (num_hidden_layers), found {}",
      where, config.num_hidden_layers, config.no_rope_layers.size());
}

// Sets layer_types from sliding_window_pattern: a number n makes every n-th layer full_attention. Letters,
// repeated over all layers, give each layer's type: L is local, G is global.
void read_window_pattern(const JsonNode& fields, const Family& family, CheckpointConfig& config) {
  std::string name = fields.name_of({"sliding_window_pattern", "_sliding_window_pattern"});
  // An encoder's number of this name counts from another layer.
  if (family.kind == ModelKind::decoder && fields.has("global_attn_every_n_layers"))
    name = "global_attn_every_n_layers";
  std::string letters;
  if (const std::optional<JsonNode> pattern = fields.find(name); pattern && pattern->is_string()) {
    letters = pattern->string();
    if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos)
      pattern->fail_type("a number, or letters L and G");
  } else {
    config.sliding_window_pattern = fields.count_or(name, config.sliding_window_pattern);
  }
  const std::size_t period = letters.empty() ? config.sliding_window_pattern : letters.size();
  const bool has_windows = config.sliding_window != 0 && config.use_sliding_window;
  if (period == 0 || !has_windows || !config.layer_types.empty()) return;
  // Dense layers of Cohere 2 have a pattern of their own, and the count begins after them.
  const std::size_t prefix_pattern = fields.count_or("prefix_dense_sliding_window_pattern",
                                                     config.experts.prefix_dense_sliding_window_pattern);
  const std::size_t dense = prefix_pattern == 0 ? 0 : fields.count_or("first_k_dense_replace", 0);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const bool is_local = layer < dense     ? (layer + 1) % prefix_pattern != 0
                          : letters.empty() ? (layer - dense + 1) % period != 0
                                            : letters[layer % period] == 'L';
    config.layer_types.push_back(is_local ? "sliding_attention" : "full_attention");
  }
}

void require_every_layer(std::size_t types, const std::string& where, const CheckpointConfig& config) {
  require<ConfigError>(
      types == config.num_hidden_layers,
      "{}: layer_types must have an entry for every layer, expected {} (num_hidden_layers), found {}", where,
      config.num_hidden_layers, types);
}

// GPT-Neo has other names for types, and may have lists with repeat counts instead of one list. "attention"
// is a name of earlier versions of transformers.
std::vector<std::string> read_layer_types(const JsonNode& fields, const Family& family,
                                          const std::string& where, const CheckpointConfig& config) {
  std::vector<std::string> types =
      fields.list_or_empty(fields.name_of({"layer_types", "attention_layers"}), &JsonNode::string);
  if (types.empty() && fields.has("attention_types")) {
    for (const JsonNode& entry : fields.at("attention_types").elements()) {
      const std::vector<JsonNode> list_and_count = entry.elements();
      if (list_and_count.size() != 2) entry.fail_type("a list of types and how often it is repeated");
      const std::vector<JsonNode> list = list_and_count.front().elements();
      const std::size_t total = types.size() + list.size() * list_and_count.back().size();
      if (total > config.num_hidden_layers) require_every_layer(total, where, config);
      while (types.size() < total) {
        for (const JsonNode& type : list) types.push_back(type.string());
      }
    }
  }
  const bool has_types = !types.empty();
  for (const std::size_t is_local : fields.list_or_empty("hybrid_layer_pattern", &JsonNode::count))
    if (!has_types) types.emplace_back(is_local != 0 ? "sliding_attention" : "full_attention");
  for (std::string& type : types) {
    if (type == "global" || type == "attention") type = "full_attention";
    if (type == "local") type = "sliding_attention";
    const auto own = std::ranges::find(family.layer_types, type, &std::pair<std::string, std::string>::first);
    if (own != family.layer_types.end()) type = own->second;
  }
  return types;
}

// Throws ConfigError for a type of layers that the family lacks.
void require_known_types(const Family& family, const std::string& where, const CheckpointConfig& config) {
  std::vector<std::string> known = {"full_attention", "sliding_attention"};
  if (config.attention_chunk_size != 0) known.push_back("chunked_attention");
  if (config.delta_net.num_value_heads != 0) known.push_back("linear_attention");
  if (config.short_convolution.l_cache != 0) known.push_back("conv");
  if (config.mamba.n_heads != 0) known.insert(known.end(), {"mamba", "mlp", "moe"});
  if (config.mamba1.d_conv != 0) known.emplace_back("mamba");
  if (config.rwkv7.head_dim != 0) known = {"linear_attention"};
  for (const std::string& type : config.layer_types) {
    require<ConfigError>(
        std::ranges::find(known, type) != known.end(),
        "{}: layer_types must be {}{} for {} (chunked_attention with an attention_chunk_size), found \"{}\"; "
        "use a model without such layers",
        where, fmt::join(known, ", "), family.layer_types.empty() ? "" : " or the family's other names",
        family.architecture, type);
  }
}

void read_windows(const JsonNode& fields, const Family& family, const std::string& where,
                  CheckpointConfig& config) {
  const std::string window = fields.name_of({"sliding_window", "window_size", "local_attention"});
  config.sliding_window = fields.size_limit_or(window, config.sliding_window);
  fields.update({"use_sliding_window"}, config.use_sliding_window);
  fields.update_count({"max_window_layers"}, config.max_window_layers);
  if (std::vector<std::string> types = read_layer_types(fields, family, where, config); !types.empty())
    config.layer_types = std::move(types);
  // Lists may go on for layers of multi-token prediction.
  if (config.layer_types.size() == config.num_hidden_layers + fields.count_or("num_nextn_predict_layers", 0))
    config.layer_types.resize(config.num_hidden_layers);
  read_window_pattern(fields, family, config);
  if (!config.layer_types.empty()) require_every_layer(config.layer_types.size(), where, config);
  config.attention_chunk_size = fields.size_limit_or("attention_chunk_size", config.attention_chunk_size);
  require_known_types(family, where, config);
}

}  // namespace

void read_layers(const JsonNode& fields, const Family& family, const std::string& where,
                 CheckpointConfig& config) {
  read_layers_without_rope(fields, family, where, config);
  if (config.delta_net.num_value_heads != 0) read_delta_net(fields, where, config);
  read_windows(fields, family, where, config);
}

}  // namespace tp
