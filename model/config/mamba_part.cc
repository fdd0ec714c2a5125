#include "model/config/mamba_part.h"

#include "model/config/checkpoint_config.h"
#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "tp/internal/require.h"

#include <map>
#include <vector>

namespace tp {
namespace {

// The types of layers that have one part, from hybrid_override_pattern or layers_block_type.
std::vector<std::string> single_parts(const JsonNode& fields, const std::string& where) {
  static const std::map<std::string, std::string> names = {{"M", "mamba"},
                                                           {"mamba", "mamba"},
                                                           {"linear_attention", "mamba"},
                                                           {"*", "full_attention"},
                                                           {"-", "mlp"},
                                                           {"E", "moe"},
                                                           {"mlp", "mlp"},
                                                           {"moe", "moe"},
                                                           {"attention", "full_attention"},
                                                           {"full_attention", "full_attention"}};
  std::vector<std::string> parts = fields.list_or_empty("layers_block_type", &JsonNode::string);
  if (parts.empty()) {
    for (const char letter : fields.string_or("hybrid_override_pattern", "")) parts.emplace_back(1, letter);
  }
  for (std::string& part : parts) {
    const auto name = names.find(part);
    require<ConfigError>(
        name != names.end(),
        "{}: layers must be mamba (M), attention (*), mlp (-) or moe (E), found \"{}\"; use a "
        "model without such layers",
        where, part);
    part = name->second;
  }
  return parts;
}

// The layers that attn_layer_indices lists have attention, all others have mixers.
std::vector<std::string> types_by_attention(const JsonNode& fields, const std::string& where,
                                            const CheckpointConfig& config) {
  std::vector<std::string> types(config.num_hidden_layers, "mamba");
  for (const std::size_t layer : fields.list_or_empty("attn_layer_indices", &JsonNode::count)) {
    require<ConfigError>(layer < types.size(),
                         "{}: attn_layer_indices must be layers below num_hidden_layers, {}, found {}; check "
                         "config.json",
                         where, types.size(), layer);
    types[layer] = "full_attention";
  }
  return types;
}

// The mixer's whole width; 0 if the file has no field for it.
std::size_t mamba_width(const JsonNode& fields, const CheckpointConfig& config) {
  if (fields.has("mamba_d_ssm")) return fields.at("mamba_d_ssm").size();
  return fields.count_or("mamba_expand", 0) * config.hidden_size;
}

// A head's size may be "auto", or missing: the width divided by the number of heads.
std::size_t head_size(const JsonNode& fields, const std::string& where, const CheckpointConfig& config) {
  const std::size_t heads = config.mamba.n_heads;
  const std::string name =
      fields.has("mamba_n_heads") ? "mamba_d_head" : fields.name_of({"mamba_head_dim", "head_dim"});
  const std::optional<JsonNode> size = fields.find(name);
  const std::size_t inner = mamba_width(fields, config);
  const std::size_t head = size && !size->is_string() ? size->size() : inner / heads;
  require<ConfigError>(
      head != 0 && (inner == 0 || inner == heads * head),
      "{}: the mixer's width must be mamba_n_heads x mamba_d_head, found {} and {} x {}; check config.json",
      where, inner, heads, head);
  return head;
}

// Reads a list of factors that has `size` elements, unless it is missing.
void read_multiplier_list(const JsonNode& fields, const std::string& where, const std::string& name,
                          std::size_t size, std::vector<double>& factors) {
  if (fields.has(name)) factors = fields.list_or_empty(name, &JsonNode::number);
  require<ConfigError>(factors.empty() || factors.size() == size,
                       "{}: {} must be a list of {} numbers, found {}; check config.json", where, name, size,
                       factors.size());
}

void read_part_multipliers(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update({"ssm_in_multiplier"}, config.mamba.in_multiplier);
  fields.update({"ssm_out_multiplier"}, config.mamba.out_multiplier);
  fields.update({"attention_in_multiplier"}, config.attention_in_multiplier);
  fields.update({"attention_out_multiplier"}, config.attention_out_multiplier);
  fields.update({"key_multiplier"}, config.key_multiplier);
  read_multiplier_list(fields, where, "ssm_multipliers", 5, config.mamba.multipliers);
  read_multiplier_list(fields, where, "mlp_multipliers", 2, config.mlp_multipliers);
}

}  // namespace

void read_mamba(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  MambaConfig& mamba = config.mamba;
  read_numbers(kMambaNumbers, fields, mamba);
  require<ConfigError>(mamba.n_heads != 0 && mamba.n_heads <= 65536,
                       "{}: mamba_n_heads must be in 1..65536, found {}; check config.json", where,
                       mamba.n_heads);
  mamba.d_head = head_size(fields, where, config);
  require<ConfigError>(mamba.n_heads % mamba.n_groups == 0,
                       "{}: mamba_n_heads must be a multiple of mamba_n_groups, found {} and {}; check "
                       "config.json",
                       where, mamba.n_heads, mamba.n_groups);
  require<ConfigError>(
      mamba.d_head <= 65536 && mamba.d_state <= 65536 && mamba.d_conv <= 256,
      "{}: mamba_d_head and mamba_d_state must be at most 65536, mamba_d_conv at most 256, found {}, {} and "
      "{}; check config.json",
      where, mamba.d_head, mamba.d_state, mamba.d_conv);
  fields.update({"mamba_rms_norm"}, mamba.rms_norm);
  require<ConfigError>(
      !fields.has("mamba_rms_norm") || !mamba.rms_norm || !fields.boolean_or("mamba_norm_before_gate", true),
      "{}: mamba_norm_before_gate must be false with mamba_rms_norm, found true: this variant "
      "is not supported; use a model without it",
      where);
  read_part_multipliers(fields, where, config);
  fields.update_count({"shared_intermediate_size", "moe_shared_expert_intermediate_size"},
                      config.experts.shared_expert_intermediate_size);
  if (fields.has("attn_layer_indices")) config.layer_types = types_by_attention(fields, where, config);
  if (std::vector<std::string> parts = single_parts(fields, where); !parts.empty())
    config.layer_types = std::move(parts);
}

MambaSpec mamba_of(const CheckpointConfig& config, double norm_eps, bool norms_groups) {
  const MambaConfig& mamba = config.mamba;
  MambaSpec spec{.num_heads = mamba.n_heads,
                 .head_dim = mamba.d_head,
                 .num_groups = mamba.n_groups,
                 .state_size = mamba.d_state,
                 .conv_kernel = mamba.d_conv,
                 .norm = std::nullopt,
                 .norm_groups = norms_groups ? mamba.n_groups : 1,
                 .output_scale = static_cast<float>(mamba.out_multiplier)};
  if (mamba.rms_norm) spec.norm = NormSpec{.eps = static_cast<float>(norm_eps)};
  spec.scales.fill(static_cast<float>(mamba.in_multiplier));
  for (std::size_t i = 0; i < mamba.multipliers.size(); ++i)
    spec.scales[i] *= static_cast<float>(mamba.multipliers[i]);
  return spec;
}

nlohmann::json mamba_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = numbers_in_gguf(kMambaNumbers, model);
  config["mamba_d_head"] = model.recurrent_head_dim();
  return config;
}

GgufPlace row_per_mamba_group(const GgufContext& context) {
  return {.vector_row = context.heads.mamba_group};
}

}  // namespace tp
