#include "model/config/expert_config.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tp {
namespace {

// The number of layers before the first layer with experts. transformers 5 writes a list of layer types
// instead of this number.
std::size_t dense_layers_at_start(const JsonNode& fields, std::size_t otherwise) {
  const std::vector<std::string> types = fields.list_or_empty("mlp_layer_types", &JsonNode::string);
  if (types.empty())
    return fields.count_or(fields.name_of({"first_k_dense_replace", "num_dense_layers"}), otherwise);
  const auto first = std::ranges::find(types, "sparse");
  if (std::any_of(first, types.end(), [](const std::string& type) { return type != "sparse"; }))
    fields.at("mlp_layer_types").fail_type("a list of dense layers and then of sparse ones");
  return static_cast<std::size_t>(first - types.begin());
}

}  // namespace

void read_experts(const JsonNode& fields, ModelConfig& config) {
  config.num_nextn_predict_layers =
      fields.count_or("num_nextn_predict_layers", config.num_nextn_predict_layers);
  config.num_experts = fields.count_or(
      fields.name_of({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}),
      config.num_experts);
  if (config.num_experts == 0) return;
  const std::string per_token = fields.name_of({"num_experts_per_tok", "moe_k"});
  config.num_experts_per_tok = config.num_experts_per_tok == 0
                                   ? fields.at(per_token).size()
                                   : fields.size_or(per_token, config.num_experts_per_tok);
  // If all layers have experts, some families use intermediate_size for the experts.
  config.moe_intermediate_size = fields.size_or("moe_intermediate_size", config.moe_intermediate_size == 0
                                                                             ? config.intermediate_size
                                                                             : config.moe_intermediate_size);
  config.shared_expert_intermediate_size =
      fields.count_or("shared_expert_intermediate_size", config.shared_expert_intermediate_size);
  config.n_shared_experts = fields.count_or(fields.name_of({"n_shared_experts", "moe_num_shared_experts"}),
                                            config.n_shared_experts);
  config.norm_topk_prob = fields.boolean_or("norm_topk_prob", config.norm_topk_prob);
  config.routed_scaling_factor = fields.number_or("routed_scaling_factor", config.routed_scaling_factor);
  config.scoring_func = fields.string_or("scoring_func", config.scoring_func);
  config.topk_method = fields.string_or("topk_method", config.topk_method);
  config.n_group = fields.size_or("n_group", config.n_group);
  config.topk_group = fields.size_or("topk_group", config.topk_group);
  config.decoder_sparse_step = fields.size_or("decoder_sparse_step", config.decoder_sparse_step);
  config.mlp_only_layers = fields.list_or_empty("mlp_only_layers", &JsonNode::count);
  config.first_k_dense_replace = dense_layers_at_start(fields, config.first_k_dense_replace);
  config.moe_layer_freq = fields.size_or("moe_layer_freq", config.moe_layer_freq);
  config.moe_layers = fields.list_or_empty("moe_layers", &JsonNode::count);
  config.interleave_moe_layer_step =
      fields.size_or("interleave_moe_layer_step", config.interleave_moe_layer_step);
  config.intermediate_size_mlp = fields.count_or("intermediate_size_mlp", config.intermediate_size_mlp);
  config.moe_layer_start_index = fields.count_or("moe_layer_start_index", config.moe_layer_start_index);
  config.moe_layer_interval = fields.size_or("moe_layer_interval", config.moe_layer_interval);
  config.moe_norm_min = fields.number_or("moe_norm_min", config.moe_norm_min);
  config.router_jitter_noise = fields.number_or("router_jitter_noise", config.router_jitter_noise);
  // -1 means the last layer.
  if (fields.number_or("moe_layer_end_index", -1) != -1)
    config.moe_layer_end_index = fields.at("moe_layer_end_index").count();
}

}  // namespace tp
