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

// Limits of activations. Null and 0 mean that a layer has none.
std::vector<double> limits_of(const JsonNode& fields, std::initializer_list<std::string> names,
                              std::size_t layers) {
  const std::optional<JsonNode> list = fields.find(fields.name_of(names));
  if (!list) return {};
  bool are_limits = list->is_array() && list->value().size() >= layers;
  std::vector<double> limits;
  for (const auto& limit : list->value()) {
    limits.push_back(limit.is_number() ? limit.get<double>() : 0.0);
    are_limits =
        are_limits && (limit.is_null() || limit.is_number()) && limits.back() >= 0.0 && limits.back() <= 1e30;
  }
  if (!are_limits) list->fail_type("a list with a limit of at least 0, or null, for each layer");
  limits.resize(layers);
  return limits;
}

// Step: "3,4,5".
std::vector<std::size_t> layers_with_experts(const JsonNode& fields) {
  const std::string name = fields.name_of({"moe_layers", "moe_layers_enum"});
  if (!fields.has(name) || !fields.at(name).is_string()) return fields.list_or_empty(name, &JsonNode::count);
  std::string text = fields.at(name).string();
  std::erase(text, ' ');
  std::vector<std::size_t> layers;
  if (text.empty()) return layers;
  for (const std::string_view word : split_text(text, ',')) {
    const std::optional<std::size_t> layer = parse_number<std::size_t>(word);
    if (!layer) fields.at(name).fail_type("numbers of layers with commas between them");
    layers.push_back(*layer);
  }
  return layers;
}

// The layers with experts by their period; empty without one.
std::vector<std::size_t> layers_by_period(const CheckpointConfig& config) {
  const std::size_t period = config.experts.expert_layer_period;
  std::vector<std::size_t> layers;
  for (std::size_t layer = 0; period != 0 && layer < config.num_hidden_layers; ++layer) {
    if (layer % period == config.experts.expert_layer_offset) layers.push_back(layer);
  }
  return layers;
}

// Newer files list the layers with experts: by type, by booleans, or by numbers that are 0 for dense layers.
// The first list that a file has counts.
struct LayerList {
  std::string name;
  std::vector<bool> has_experts;
};
LayerList list_of_layers(const JsonNode& fields) {
  LayerList list{fields.name_of({"mlp_layer_types", "is_moe_layer", "moe_layer_freq"}), {}};
  if (!is_list(fields, list.name)) return list;
  if (list.name == "is_moe_layer") {
    list.has_experts = fields.list_or_empty(list.name, &JsonNode::boolean);
  } else if (list.name == "moe_layer_freq") {
    for (const std::size_t frequency : fields.list_or_empty(list.name, &JsonNode::count))
      list.has_experts.push_back(frequency != 0);
  } else {
    for (const std::string& type : fields.list_or_empty(list.name, &JsonNode::string)) {
      if (type != "dense" && type != "sparse") fields.at(list.name).fail_type("a list of dense and sparse");
      list.has_experts.push_back(type == "sparse");
    }
  }
  return list;
}

// The number of layers before the first layer with experts.
std::size_t dense_layers_at_start(const JsonNode& fields, std::size_t layers, std::size_t otherwise) {
  const auto& [name, has_experts] = list_of_layers(fields);
  if (has_experts.empty())
    return fields.count_or(fields.name_of({"first_k_dense_replace", "num_dense_layers"}), otherwise);
  const auto first = std::ranges::find(has_experts, true);
  if (has_experts.size() < layers || std::find(first, has_experts.end(), false) != has_experts.end())
    fields.at(name).fail_type("a list of dense layers and then of sparse ones, with an entry for each layer");
  return static_cast<std::size_t>(first - has_experts.begin());
}

// A number, or the number that all elements of a list with an entry for each layer are.
std::size_t number_of_all_layers(const JsonNode& fields, const std::string& name, std::size_t layers,
                                 std::size_t otherwise) {
  if (!is_list(fields, name)) return fields.count_or(name, otherwise);
  const std::vector<std::size_t> numbers = fields.list_or_empty(name, &JsonNode::count);
  if (numbers.size() < layers ||
      std::ranges::any_of(numbers, [&](std::size_t other) { return other != numbers.front(); }))
    fields.at(name).fail_type("a number, or a list with the same number for each layer");
  return numbers.front();
}

}  // namespace

void read_experts(const JsonNode& fields, CheckpointConfig& config) {
  fields.update_count({"num_nextn_predict_layers"}, config.num_nextn_predict_layers);
  fields.update_count({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"},
                      config.num_experts);
  fields.update_size({"expert_layer_period"}, config.experts.expert_layer_period);
  fields.update_count({"expert_layer_offset"}, config.experts.expert_layer_offset);
  fields.update({"activation_situ_beta"}, config.experts.situ_beta);
  fields.update({"activation_situ_linear_beta"}, config.experts.situ_linear_beta);
  // One expert is an MLP, under an MLP's names.
  if (config.experts.expert_layer_period != 0 && config.num_experts == 1) config.num_experts = 0;
  if (config.num_experts == 0) return;
  const std::string per_token = fields.name_of(
      {"num_experts_per_tok", "num_experts_per_token", "moe_k", "top_k_experts", "moe_topk", "moe_top_k"});
  const std::size_t layers = config.num_hidden_layers;
  const std::size_t usual_per_token = config.experts.num_experts_per_tok;
  config.experts.num_experts_per_tok = is_list(fields, per_token)
                                           ? number_of_all_layers(fields, per_token, layers, 0)
                                       : usual_per_token == 0 ? fields.at(per_token).size()
                                                              : fields.size_or(per_token, usual_per_token);
  // If all layers have experts, some families use intermediate_size for the experts.
  const std::size_t usual_width = config.experts.moe_intermediate_size == 0
                                      ? config.intermediate_size
                                      : config.experts.moe_intermediate_size;
  const char* const width = "moe_intermediate_size";
  config.experts.moe_intermediate_size = is_list(fields, width)
                                             ? number_of_all_layers(fields, width, layers, 0)
                                             : fields.size_or(width, usual_width);
  if (config.experts.num_experts_per_tok == 0 || config.experts.moe_intermediate_size == 0)
    fields.at(config.experts.moe_intermediate_size == 0 ? width : per_token).fail_type("numbers from 1");
  fields.update_count({"moe_latent_size", "routed_expert_hidden_size"}, config.experts.moe_latent_size);
  fields.update_count({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                       "share_expert_dim", "shared_intermediate_size"},
                      config.experts.shared_expert_intermediate_size);
  const std::string shared = fields.name_of(
      {"n_shared_experts", "moe_num_shared_experts", "num_shared_experts", "num_shared_expert"});
  config.experts.n_shared_experts =
      number_of_all_layers(fields, shared, layers, config.experts.n_shared_experts);
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
  config.experts.first_k_dense_replace =
      dense_layers_at_start(fields, layers, config.experts.first_k_dense_replace);
  fields.update_count({"num_hash_layers"}, config.experts.num_hash_layers);
  if (!is_list(fields, "moe_layer_freq"))
    fields.update_size({"moe_layer_freq"}, config.experts.moe_layer_freq);
  config.experts.swiglu_limits = limits_of(fields, {"swiglu_limits", "expert_swiglu_limit_list"}, layers);
  if (config.experts.swiglu_limit != 0.0) {
    config.experts.swiglu_limit = fields.limit_or("swiglu_limit", config.experts.swiglu_limit);
    if (config.experts.swiglu_limits.empty())
      config.experts.swiglu_limits.assign(layers, config.experts.swiglu_limit);
  }
  config.experts.shared_swiglu_limits =
      limits_of(fields, {"swiglu_limits_shared", "share_expert_swiglu_limit_list"}, layers);
  config.experts.moe_layers = layers_with_experts(fields);
  if (config.experts.moe_layers.empty()) config.experts.moe_layers = layers_by_period(config);
  fields.update_size({"interleave_moe_layer_step"}, config.experts.interleave_moe_layer_step);
  fields.update_count({"intermediate_size_mlp", "prefix_dense_intermediate_size", "dense_intermediate_size"},
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
