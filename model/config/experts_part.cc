#include "model/config/experts_part.h"

#include "model/config/checkpoint_config.h"
#include "model/files/parse_number.h"
#include "model/files/split_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

bool is_list(const JsonNode& fields, const std::string& name) {
  return fields.has(name) && fields.at(name).is_array();
}

// Limits of activations, of which null means none.
std::vector<double> limits_of(const JsonNode& fields, std::initializer_list<std::string> names,
                              std::size_t layers) {
  const std::optional<JsonNode> list = fields.find(fields.name_of(names));
  if (!list || !list->is_array()) return {};
  std::vector<double> limits;
  for (const auto& limit : list->value()) limits.push_back(limit.is_number() ? limit.get<double>() : 0.0);
  if (limits.size() < layers ||
      std::ranges::any_of(limits, [](double limit) { return limit < 0.0 || limit > 1e30; }))
    list->fail_type("a list with a limit of at least 0, or null, for each layer");
  limits.resize(layers);
  return limits;
}

// Step: "3,4,5".
std::vector<std::size_t> layers_with_experts(const JsonNode& fields) {
  const std::string name = fields.name_of({"moe_layers", "moe_layers_enum"});
  if (!fields.has(name) || !fields.at(name).is_string()) return fields.list_or_empty(name, &JsonNode::count);
  std::vector<std::size_t> layers;
  for (const std::string_view word : split_text(fields.at(name).string(), ',')) {
    const std::optional<std::size_t> layer = parse_number<std::size_t>(word);
    if (!layer) fields.at(name).fail_type("numbers of layers with commas between them");
    layers.push_back(*layer);
  }
  return layers;
}

// The number of layers before the first layer with experts. transformers 5 writes a list of layer types
// instead of this number.
std::size_t dense_layers_at_start(const JsonNode& fields, std::size_t otherwise) {
  std::vector<std::string> types = fields.list_or_empty("mlp_layer_types", &JsonNode::string);
  const auto add = [&](bool has_experts) { types.emplace_back(has_experts ? "sparse" : "dense"); };
  for (const bool has_experts : fields.list_or_empty("is_moe_layer", &JsonNode::boolean)) add(has_experts);
  if (is_list(fields, "moe_layer_freq"))
    for (const std::size_t frequency : fields.list_or_empty("moe_layer_freq", &JsonNode::count))
      add(frequency != 0);
  if (types.empty())
    return fields.count_or(fields.name_of({"first_k_dense_replace", "num_dense_layers"}), otherwise);
  const auto first = std::ranges::find(types, "sparse");
  if (std::any_of(first, types.end(), [](const std::string& type) { return type != "sparse"; }))
    fields.at(fields.name_of({"mlp_layer_types", "is_moe_layer", "moe_layer_freq"}))
        .fail_type("a list of dense layers and then of sparse ones");
  return static_cast<std::size_t>(first - types.begin());
}

// A number, or the number that all elements of a list with an entry for each layer are.
std::size_t number_of_all_layers(const JsonNode& fields, const std::string& name, std::size_t otherwise) {
  if (!fields.has(name) || !fields.at(name).is_array()) return fields.size_or(name, otherwise);
  const std::vector<std::size_t> numbers = fields.list_or_empty(name, &JsonNode::size);
  if (numbers.empty() ||
      std::ranges::any_of(numbers, [&](std::size_t other) { return other != numbers.front(); }))
    fields.at(name).fail_type("a number, or a list with the same number for each layer");
  return numbers.front();
}

}  // namespace

void read_experts(const JsonNode& fields, CheckpointConfig& config) {
  fields.update_count({"num_nextn_predict_layers"}, config.num_nextn_predict_layers);
  fields.update_count({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"},
                      config.num_experts);
  if (config.num_experts == 0) return;
  const std::string per_token = fields.name_of(
      {"num_experts_per_tok", "num_experts_per_token", "moe_k", "top_k_experts", "moe_topk", "moe_top_k"});
  if (config.experts.num_experts_per_tok == 0) fields.at(per_token);  // required
  config.experts.num_experts_per_tok =
      number_of_all_layers(fields, per_token, config.experts.num_experts_per_tok);
  // If all layers have experts, some families use intermediate_size for the experts.
  config.experts.moe_intermediate_size =
      number_of_all_layers(fields, "moe_intermediate_size",
                           config.experts.moe_intermediate_size == 0 ? config.intermediate_size
                                                                     : config.experts.moe_intermediate_size);
  fields.update_count({"moe_latent_size"}, config.experts.moe_latent_size);
  fields.update_count(
      {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim"},
      config.experts.shared_expert_intermediate_size);
  const std::string shared = fields.name_of(
      {"n_shared_experts", "moe_num_shared_experts", "num_shared_experts", "num_shared_expert"});
  config.experts.n_shared_experts = fields.has(shared) && fields.at(shared).is_array()
                                        ? number_of_all_layers(fields, shared, 0)
                                        : fields.count_or(shared, config.experts.n_shared_experts);
  fields.update({"norm_topk_prob", "moe_renormalize", "route_norm", "norm_expert_weight"},
                config.experts.norm_topk_prob);
  fields.update({"routed_scaling_factor", "router_scaling_factor", "route_scale", "moe_routed_scaling_factor",
                 "moe_router_scaling_factor"},
                config.experts.routed_scaling_factor);
  fields.update({"scoring_func", "moe_router_activation_func"}, config.experts.scoring_func);
  fields.update({"topk_method"}, config.experts.topk_method);
  fields.update_size({"n_group", "num_expert_group"}, config.experts.n_group);
  fields.update_size({"topk_group"}, config.experts.topk_group);
  fields.update_size({"decoder_sparse_step"}, config.experts.decoder_sparse_step);
  config.experts.mlp_only_layers = fields.list_or_empty("mlp_only_layers", &JsonNode::count);
  config.experts.first_k_dense_replace = dense_layers_at_start(fields, config.experts.first_k_dense_replace);
  if (!is_list(fields, "moe_layer_freq"))
    fields.update_size({"moe_layer_freq"}, config.experts.moe_layer_freq);
  const std::size_t layers = config.num_hidden_layers;
  config.experts.swiglu_limits = limits_of(fields, {"swiglu_limits", "expert_swiglu_limit_list"}, layers);
  config.experts.shared_swiglu_limits =
      limits_of(fields, {"swiglu_limits_shared", "share_expert_swiglu_limit_list"}, layers);
  config.experts.moe_layers = layers_with_experts(fields);
  fields.update_size({"interleave_moe_layer_step"}, config.experts.interleave_moe_layer_step);
  fields.update_count({"intermediate_size_mlp", "prefix_dense_intermediate_size"},
                      config.experts.intermediate_size_mlp);
  fields.update_count({"prefix_dense_sliding_window_pattern"},
                      config.experts.prefix_dense_sliding_window_pattern);
  fields.update({"expert_selection_fn"}, config.experts.expert_selection_fn);
  fields.update({"shared_expert_combination_strategy"}, config.experts.shared_expert_combination_strategy);
  fields.update_count({"moe_layer_start_index"}, config.experts.moe_layer_start_index);
  fields.update_size({"moe_layer_interval"}, config.experts.moe_layer_interval);
  fields.update({"moe_norm_min"}, config.experts.moe_norm_min);
  fields.update({"router_jitter_noise"}, config.experts.router_jitter_noise);
  // -1 means the last layer.
  if (fields.number_or("moe_layer_end_index", -1) != -1)
    config.experts.moe_layer_end_index = fields.at("moe_layer_end_index").count();
}

}  // namespace tp
