#include "model/config/delta_net_part.h"

#include "model/config/checkpoint_config.h"
#include "model/config/config_limits.h"
#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "tp/internal/require.h"

#include <optional>
#include <vector>

namespace tp {
namespace {

// More taps than any known model has. A state has kMaxConvKernel - 1 rows at most.
constexpr std::size_t kMaxConvKernel = 256;

// The most floats in the matrices of RWKV-7's heads.
constexpr std::size_t kMaxInHeads = std::size_t{1} << 28;

// Kimi-Linear has one number of heads and one size for keys and values. It counts layers from 1, GLM-5.3 from
// 0.
void read_kimi_layers(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  require<ConfigError>(config.delta_net.decay_floor <= 0.0,
                       "{}: gate_lower_bound must be below 0, found {}; check config.json", where,
                       config.delta_net.decay_floor);
  config.delta_net.num_key_heads = config.delta_net.num_value_heads;
  config.delta_net.key_head_dim = config.delta_net.value_head_dim;
  config.layer_types.assign(config.num_hidden_layers, "linear_attention");
  const std::size_t first = config.delta_net.first_layer;
  std::vector<std::size_t> full = fields.list_or_empty("full_attn_layers", &JsonNode::count);
  const std::size_t interval = config.delta_net.full_attention_interval;
  for (std::size_t layer = interval;
       interval != 0 && layer <= config.num_hidden_layers && !fields.has("full_attn_layers");
       layer += interval)
    full.push_back(layer - 1 + first);
  for (const std::size_t layer : full) {
    require<ConfigError>(layer >= first && layer < config.num_hidden_layers + first,
                         "{}: full_attn_layers must be layers {} to {} (num_hidden_layers is {}), found {}; "
                         "check config.json",
                         where, first, config.num_hidden_layers + first - 1, config.num_hidden_layers, layer);
    config.layer_types[layer - first] = "full_attention";
  }
}

// Kimi-Linear has an object with these fields.
void read_kimi_recurrence(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update_size({"num_heads"}, config.delta_net.num_value_heads);
  fields.update_size({"head_dim"}, config.delta_net.value_head_dim);
  fields.update_size({"short_conv_kernel_size"}, config.delta_net.conv_kernel_dim);
  fields.update({"gate_lower_bound"}, config.delta_net.decay_floor);
  read_kimi_layers(fields, where, config);
}

// GLM-5.3's config may be one that transformers wrote, without the object and with the usual values left out.
void read_glm_recurrence(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update_size({"linear_num_heads"}, config.delta_net.num_value_heads);
  fields.update_size({"linear_head_dim"}, config.delta_net.value_head_dim);
  fields.update_size({"linear_conv_kernel_dim"}, config.delta_net.conv_kernel_dim);
  fields.update({"linear_lower_bound"}, config.delta_net.decay_floor);
  read_kimi_layers(fields, where, config);
}

// Ling lists no layers, unlike GGUF files: the last layer of each group, and those after the last whole
// group, have latent attention. All layers have as many heads of head_dim.
void read_ling_recurrence(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  DeltaNetConfig& net = config.delta_net;
  net.num_key_heads = net.num_value_heads = config.num_attention_heads;
  net.key_head_dim = net.value_head_dim = fields.at("head_dim").size();
  fields.update_size({"short_conv_kernel_size"}, net.conv_kernel_dim);
  fields.update({"kda_lower_bound"}, net.decay_floor);
  require<ConfigError>(net.decay_floor < 0.0,
                       "{}: kda_lower_bound must be below 0, found {}; check config.json", where,
                       net.decay_floor);
  if (fields.has("layer_types")) return;  // read with windows
  const std::size_t group = fields.at("layer_group_size").size();
  const std::size_t grouped = config.num_hidden_layers / group * group;
  config.layer_types.clear();
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer)
    config.layer_types.emplace_back((layer + 1) % group == 0 || layer >= grouped ? "full_attention"
                                                                                 : "linear_attention");
}

// Later versions have a number for each layer.
void require_usual_values(const JsonNode& fields, const std::string& where, const CheckpointConfig& config) {
  const std::optional<JsonNode> dims = fields.find("value_dim");
  if (!dims) return;
  const std::vector<JsonNode> all = dims->is_array() ? dims->elements() : std::vector{*dims};
  for (const JsonNode& dim : all) {
    require<ConfigError>(dim.size() == config.hidden_size,
                         "{}: value_dim must be hidden_size, {}, in all layers, found {}; use a model "
                         "without this variant",
                         where, config.hidden_size, dim.size());
  }
}

// The order of value heads with `head_dim` elements each, after `first` other elements.
GgufOrder value_heads(const GgufContext& context, std::size_t head_dim, std::size_t first = 0) {
  const GgufHeads& heads = context.heads;
  const std::size_t per_group = heads.delta_value_heads / heads.delta_key_heads;
  if (!context.gguf.tiled_value_heads || per_group <= 1) return {};
  return {.kind = GgufOrder::Kind::tiled,
          .head_dim = head_dim,
          .groups = heads.delta_key_heads,
          .per_group = per_group,
          .first = first};
}

}  // namespace

GgufPlace delta_value_rows(const GgufContext& context) {
  return {.rows = value_heads(context, context.heads.delta_value_dim)};
}

GgufPlace delta_rows_after_keys(const GgufContext& context) {
  const std::size_t keys = 2 * context.heads.delta_key_heads * context.heads.delta_key_dim;
  return {.rows = value_heads(context, context.heads.delta_value_dim, keys)};
}

GgufPlace delta_head_rows(const GgufContext& context) { return {.rows = value_heads(context, 1)}; }

GgufPlace delta_convolution(const GgufContext& context) {
  if (context.block.delta_net.decay_up.empty()) return delta_rows_after_keys(context);
  const GatedDeltaNetNames& stored = context.gguf.block.delta_net;
  return {.shares = {gguf_share(stored.q_conv), gguf_share(stored.k_conv), gguf_share(stored.v_conv)},
          .extents_of_1 = 1};
}

GgufPlace delta_value_columns(const GgufContext& context) {
  return {.columns = value_heads(context, context.heads.delta_value_dim)};
}

GgufPlace delta_decays(const GgufContext& context) {
  const bool is_positive = context.gguf.positive_decays;
  const bool is_column = is_positive || !context.block.delta_net.decay_up.empty();
  return {.rows = value_heads(context, 1),
          .vector_row = is_column ? 1U : 0U,
          .is_negative_exp = !is_positive,
          .is_exp = is_positive};
}

void read_delta_net(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  if (fields.has("linear_attn_config"))
    return read_kimi_recurrence(fields.at("linear_attn_config"), where, config);
  if (config.delta_net.decay_floor != 0.0)  // Ling's heads are as many as those of attention
    return config.delta_net.num_key_heads == 0 ? read_ling_recurrence(fields, where, config)
                                               : read_glm_recurrence(fields, where, config);
  fields.update({"linear_allow_neg_eigval"}, config.delta_net.allow_neg_eigval);
  fields.update({"output_gate_type"}, config.delta_net.output_gate);
  fields.update_count({"full_attention_interval"}, config.delta_net.full_attention_interval);
  read_numbers(kDeltaNetNumbers, fields, config.delta_net);
}

GatedDeltaNetSpec delta_net_of(const CheckpointConfig& config) {
  const DeltaNetConfig& net = config.delta_net;
  require<ConfigError>(net.num_value_heads % net.num_key_heads == 0,
                       "linear_num_value_heads must be a multiple of linear_num_key_heads, found {} and {}; "
                       "check config.json",
                       net.num_value_heads, net.num_key_heads);
  require<ConfigError>(net.conv_kernel_dim <= kMaxConvKernel,
                       "linear_conv_kernel_dim must be in 1..{} tokens, found {}; check config.json",
                       kMaxConvKernel, net.conv_kernel_dim);
  return {.num_key_heads = net.num_key_heads,
          .num_value_heads = net.num_value_heads,
          .key_head_dim = net.key_head_dim,
          .value_head_dim = net.value_head_dim,
          .conv_kernel = net.conv_kernel_dim,
          .norm = {.eps = static_cast<float>(config.rms_norm_eps)},
          .decay_floor = static_cast<float>(net.decay_floor),
          .strength_scale = net.allow_neg_eigval ? 2.0F : 1.0F};
}

nlohmann::json delta_net_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = numbers_in_gguf(kDeltaNetNumbers, model);
  config["linear_value_head_dim"] = model.recurrent_head_dim();
  return config;
}

GgufPlace rwkv7_heads(const GgufContext& context) { return {.matrix_row = context.heads.rwkv7_head_dim}; }

void read_rwkv7(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  Rwkv7Config& rwkv = config.rwkv7;
  read_numbers(kRwkv7Numbers, fields, rwkv);
  for (const auto& number : kRwkv7Numbers) {
    const std::size_t found = rwkv.*number.value;
    require<ConfigError>(found >= 1 && found <= kMaxParts,
                         "{}: {} must be 1 to {}, found {}; check config.json against the checkpoint's "
                         "tensors",
                         where, number.fields.front(), kMaxParts,
                         fields.has(number.fields.front()) ? std::to_string(found) : "none");
  }
  require<ConfigError>(config.hidden_size % rwkv.head_dim == 0,
                       "{}: hidden_size must be a multiple of head_dim, found {} and {}; check config.json",
                       where, config.hidden_size, rwkv.head_dim);
  require<ConfigError>(config.hidden_size * rwkv.head_dim <= kMaxInHeads,
                       "{}: hidden_size times head_dim must be at most {}, found {} x {}; check config.json",
                       where, kMaxInHeads, config.hidden_size, rwkv.head_dim);
  const std::size_t heads = config.hidden_size / rwkv.head_dim;
  require<ConfigError>(fields.count_or("num_heads", heads) == heads,
                       "{}: num_heads must be hidden_size / head_dim, {}, found {}; check config.json", where,
                       heads, fields.count_or("num_heads", heads));
  require_usual_values(fields, where, config);
  const double ratio = fields.number_or("hidden_ratio", 4.0);
  require<ConfigError>(ratio == 4.0 || fields.has("intermediate_size"),
                       "{}: hidden_ratio must be 4 without an intermediate_size, found {}; add the "
                       "intermediate_size, the number of rows of ffn.key, to config.json",
                       where, ratio);
  config.num_attention_heads = config.num_key_value_heads = heads;
  config.head_dim = rwkv.head_dim;
  // Only attention layers of hybrid models use it, and these are refused.
  config.max_position_embeddings = std::size_t{1} << 20;
}

Rwkv7Spec rwkv7_of(const CheckpointConfig& config, std::size_t layer) {
  const Rwkv7Config& rwkv = config.rwkv7;
  // A product of floats, because GGUF files have layer_norm_eps as a float.
  const float eps = static_cast<float>(rwkv.head_dim) * static_cast<float>(config.layer_norm_eps);
  return {.num_heads = config.num_attention_heads,
          .head_dim = rwkv.head_dim,
          .decay_rank = rwkv.decay_low_rank_dim,
          .strength_rank = rwkv.a_low_rank_dim,
          .value_rank = rwkv.v_low_rank_dim,
          .gate_rank = rwkv.gate_low_rank_dim,
          .is_first = layer == 0,
          .norm = {.kind = NormSpec::Kind::layer, .eps = eps}};
}

}  // namespace tp
