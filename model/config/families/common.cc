// Parts that several families share.
#include "model/config/families/common.h"

#include "model/config/config.h"
#include "model/config/gguf_config.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::families {

Activation activation_of(const CheckpointConfig& config) {
  static const std::map<std::string, Activation> names = {
      {"silu", Activation::silu},           {"swish", Activation::silu},
      {"gelu", Activation::gelu},           {"gelu_new", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"relu", Activation::relu},           {"relu2", Activation::relu_squared}};
  const auto found = names.find(config.hidden_act);
  require<ConfigError>(found != names.end(),
                       "hidden_act \"{}\" is not supported for {}; supported are silu, gelu, gelu_new, "
                       "gelu_pytorch_tanh, relu and relu2",
                       config.hidden_act, config.architecture);
  return found->second;
}

Family derived(Family family, const std::string& architecture,
               ModelSpec (*make_spec)(const CheckpointConfig& config),
               BlockNames (*names_of_block)(const std::string& prefix)) {
  family.architecture = architecture;
  if (make_spec != nullptr) family.make_spec = make_spec;
  if (names_of_block != nullptr) family.names.names_of_block = names_of_block;
  return family;
}

Family llama_like(const std::string& architecture, ModelSpec (*make_spec)(const CheckpointConfig& config),
                  BlockNames (*names_of_block)(const std::string& prefix)) {
  return derived({.architecture = {}, .names = llama_names()}, architecture, make_spec, names_of_block);
}

BlockNames post_norm_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.input_norm.clear();
  names.pre_feed_forward_norm.clear();
  names.post_attention_norm = prefix + "post_attention_layernorm";
  names.post_feed_forward_norm = prefix + "post_feedforward_layernorm";
  return names;
}

NormSpec layer_norm_of(const CheckpointConfig& config) {
  return {.kind = NormSpec::Kind::layer, .eps = static_cast<float>(config.layer_norm_eps)};
}

void set_norms(ModelSpec& spec, const NormSpec& norm) {
  spec.final_norm = norm;
  for (BlockSpec& block : spec.blocks) block.input_norm = norm;
  for (BlockSpec& block : spec.blocks) block.pre_feed_forward_norm = norm;
}

void share_input(ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    block.wiring = BlockSpec::Wiring::parallel;
    block.pre_feed_forward_norm.reset();
  }
}

void set_plain_mlps(const CheckpointConfig& config, ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    block.feed_forward = PlainMlpSpec{.intermediate_size = config.intermediate_size,
                                      .activation = activation_of(config),
                                      .bias = config.mlp_bias};
  }
}

// Slopes are powers of 2^(-8 / heads). If the number of heads is not a power of two, the slopes for the next
// lower power of two come first, then every second slope for the next higher power. Source: Press et al.,
// Train Short, Test Long, 2022.
std::vector<float> alibi_slopes(const CheckpointConfig& config) {
  const std::size_t heads = config.num_attention_heads;
  const std::size_t lower = std::bit_floor(heads);
  std::vector<float> slopes;
  const auto append = [&](std::size_t power, std::size_t of) {
    const double exponent = -config.alibi_bias_max * static_cast<double>(power) / static_cast<double>(of);
    slopes.push_back(static_cast<float>(std::exp2(exponent)));
  };
  for (std::size_t i = 1; i <= lower; ++i) append(i, lower);
  for (std::size_t i = 1; slopes.size() < heads; i += 2) append(i, 2 * lower);
  return slopes;
}

void set_alibi(const CheckpointConfig& config, ModelSpec& spec) {
  const std::vector<float> slopes = alibi_slopes(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).rope.reset();
    attention_of(block).alibi_slopes = slopes;
  }
}

void set_qkv(BlockNames& names, const std::string& name) {
  names.q_proj = names.k_proj = names.v_proj = name;
}

std::optional<QueryScalingSpec> query_scaling_of(const CheckpointConfig& config) {
  if (config.llama_4_scaling_beta == 0) return std::nullopt;
  const std::size_t step = config.rope_scaling.original_max_position_embeddings;
  require<ConfigError>(step != 0,
                       "llama_4_scaling_beta is {}, expected a scaled RoPE with "
                       "original_max_position_embeddings, found none; check config.json",
                       config.llama_4_scaling_beta);
  return QueryScalingSpec{.factor = config.llama_4_scaling_beta, .step = static_cast<double>(step)};
}

nlohmann::json gguf_next_token_layers(const ModelMetadata& model) {
  const std::uint64_t more = model.whole_or("nextn_predict_layers", 0);
  const std::uint64_t blocks = model.whole("block_count");
  if (more >= blocks) {
    throw_error<ConfigError>(
        "{}: expected fewer layers for the prediction of more tokens than all {}, found {}; "
        "convert the checkpoint to GGUF again",
        model.files().name(), blocks, more);
  }
  return {{"num_hidden_layers", blocks - more}, {"num_nextn_predict_layers", more}};
}

nlohmann::json gguf_windows(const ModelMetadata& model) {
  const std::uint64_t window = model.whole_or("attention.sliding_window", 0);
  nlohmann::json fields = {{"sliding_window", nullptr}};
  if (window == 0) return fields;
  fields["sliding_window"] = window;
  const char* const pattern = "attention.sliding_window_pattern";
  if (!model.has(pattern)) return fields;
  if (!model.is_list(pattern)) {
    fields["sliding_window_pattern"] = model.whole(pattern);
    return fields;
  }
  for (const bool slides : model.booleans(pattern))
    fields["layer_types"].push_back(slides ? "sliding_attention" : "full_attention");
  return fields;
}

// rope.dimension_count is for layers without a window, unless there is another number for the others.
nlohmann::json gguf_ropes_of_types(const ModelMetadata& model) {
  const nlohmann::json rope = gguf_rope(model);
  nlohmann::json full = rope["rope_scaling"].is_null() ? nlohmann::json::object() : rope["rope_scaling"];
  full["rope_theta"] = rope["rope_theta"];
  const std::uint64_t usual = model.whole_or("rope.dimension_count", model.head_dim());
  const std::uint64_t local = model.whole_or("rope.dimension_count_swa", usual);
  const double theta = model.number_or("rope.freq_base_swa", rope["rope_theta"].get<double>());
  return {
      {"rope_scaling", nullptr},
      {"rope_parameters",
       {{"full_attention", full},
        {"sliding_attention",
         {{"rope_theta", theta},
          {"partial_rotary_factor", static_cast<double>(local) / static_cast<double>(model.head_dim())}}}}}};
}

nlohmann::json gguf_heads_of_layers(const ModelMetadata& model) {
  nlohmann::json fields = {{"num_attention_heads", model.heads()}};
  const auto layers = gguf_next_token_layers(model).at("num_hidden_layers").get<std::size_t>();
  std::vector<std::uint64_t> heads = model.wholes("attention.head_count");
  if (heads.size() < layers) return fields;
  heads.resize(layers);
  fields["num_attention_heads_per_layer"] = heads;
  return fields;
}

nlohmann::json gguf_activation_limits(const ModelMetadata& model) {
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [key, field] : {std::pair("swiglu_clamp_exp", "swiglu_limits"),
                                   std::pair("swiglu_clamp_shexp", "swiglu_limits_shared")}) {
    if (!model.has(key)) continue;
    fields[field] = model.is_list(key) ? model.numbers(key)
                                       : std::vector<double>(model.whole("block_count"), model.number(key));
  }
  return fields;
}

void norm_results_only(ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    block.post_attention_norm = std::exchange(block.input_norm, std::nullopt);
    block.post_feed_forward_norm = std::exchange(block.pre_feed_forward_norm, std::nullopt);
  }
}

void remove_rope(const CheckpointConfig& config, ModelSpec& spec) {
  for (std::size_t layer = 0; layer < config.no_rope_layers.size(); ++layer) {
    auto* const attention = std::get_if<AttentionSpec>(&spec.blocks[layer].attention);
    if (config.no_rope_layers[layer] == 0 && attention != nullptr) attention->rope.reset();
  }
}

void set_local_rope(const CheckpointConfig& config, double theta, ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    AttentionSpec& attention = attention_of(block);
    if (attention.pattern.window)
      attention.rope = RopeSpec{.theta = theta, .scaling = {}, .rotary_dim = rotary_dim(config)};
  }
}

void require_window(const CheckpointConfig& config) {
  require<ConfigError>(std::ranges::find(config.layer_types, "sliding_attention") == config.layer_types.end(),
                       "layer_types has layers of sliding_attention, expected a `sliding_window` for them, "
                       "and found {}; check "
                       "config.json",
                       config.sliding_window == 0 ? "none" : "`use_sliding_window` false");
}

MixtureOfExpertsSpec experts_of(const CheckpointConfig& config) {
  MixtureOfExpertsSpec spec;
  spec.router.num_experts = config.num_experts;
  spec.router.num_experts_per_tok = config.experts.num_experts_per_tok;
  spec.router.normalize = config.experts.norm_topk_prob;
  spec.intermediate_size = config.experts.moe_intermediate_size;
  return spec;
}

RouterSpec router_with_correction_bias(const CheckpointConfig& config) {
  return {.num_experts = config.num_experts,
          .num_experts_per_tok = config.experts.num_experts_per_tok,
          .scoring = RouterSpec::Scoring::sigmoid,
          .correction_bias = true,
          .normalize = config.experts.norm_topk_prob,
          .scale = static_cast<float>(config.experts.routed_scaling_factor),
          .num_groups = config.experts.n_group,
          .groups_per_tok = config.experts.topk_group,
          .experts_scoring_group = 2};
}

void set_sigmoid_experts(const CheckpointConfig& config, ModelSpec& spec) {
  if (config.num_experts == 0) return;
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router = router_with_correction_bias(config);
  experts.shared_intermediate_size = config.experts.n_shared_experts * config.experts.moe_intermediate_size;
  set_experts(config, experts, spec,
              [&](std::size_t layer) { return layer >= config.experts.first_k_dense_replace; });
}

nlohmann::json sigmoid_experts_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = gguf_next_token_layers(model);
  config.update({{"n_routed_experts", model.whole("expert_count")},
                 {"num_experts_per_tok", model.whole("expert_used_count")},
                 {"n_shared_experts", model.whole_or("expert_shared_count", 0)},
                 {"moe_intermediate_size", model.whole("expert_feed_forward_length")},
                 {"first_k_dense_replace", model.whole_or("leading_dense_block_count", 0)},
                 {"routed_scaling_factor", model.number_or("expert_weights_scale", 1.0)},
                 {"norm_topk_prob", model.boolean_or("expert_weights_norm", false)},
                 {"n_group", model.whole_or("expert_group_count", 1)},
                 {"topk_group", model.whole_or("expert_group_used_count", 1)}});
  return config;
}

std::size_t rotated_elements(const CheckpointConfig& config, double part) {
  // A part that is a quotient of whole numbers may be rounded down.
  constexpr double kRounding = 1e-9;
  const double elements = std::floor(static_cast<double>(config.head_dim) * part + kRounding);
  require<ConfigError>(
      part > 0 && part <= 1 && elements >= 2 && std::fmod(elements, 2) == 0,
      "RoPE must rotate an even number of a head's {} elements, found a part of {} for {}; check "
      "config.json",
      config.head_dim, part, config.architecture);
  return static_cast<std::size_t>(elements);
}

GatedDeltaNetNames separate_delta_net(const std::string& prefix) {
  return {.in_proj_b = prefix + "b_proj",
          .q_proj = prefix + "q_proj",
          .k_proj = prefix + "k_proj",
          .v_proj = prefix + "v_proj",
          .q_conv = prefix + "q_conv1d",
          .k_conv = prefix + "k_conv1d",
          .v_conv = prefix + "v_conv1d",
          .decay = prefix + "A_log",
          .decay_bias = prefix + "dt_bias",
          .norm = prefix + "o_norm",
          .out_proj = prefix + "o_proj"};
}

ModelSpec next_token_spec(const CheckpointConfig& config,
                          ModelSpec (*make_spec)(const CheckpointConfig& config)) {
  CheckpointConfig longer = config;
  ++longer.num_hidden_layers;
  ModelSpec spec = make_spec(longer);
  spec.blocks = {spec.blocks.back()};
  spec.names.stored_blocks = {config.num_hidden_layers};
  spec.next_token = NextTokenSpec{.norm = *spec.final_norm};
  return spec;
}

NextTokenNames next_token_with_final_layernorm(const std::string& prefix) {
  NextTokenNames names = usual_names(kNextTokenTensors, prefix);
  names.final_norm = prefix + "final_layernorm";
  return names;
}

void ignore_next_token_layers(const CheckpointConfig& config, TensorNames& names) {
  for (std::size_t i = 0; i < config.num_nextn_predict_layers; ++i)
    names.ignored_blocks.push_back(config.num_hidden_layers + i);
}

void set_experts_by_step(const CheckpointConfig& config, const MixtureOfExpertsSpec& experts,
                         ModelSpec& spec) {
  set_experts(config, experts, spec, [&](std::size_t layer) {
    const auto& dense = config.experts.mlp_only_layers;
    const bool is_dense = std::ranges::find(dense, layer) != dense.end();
    return !is_dense && (layer + 1) % config.experts.decoder_sparse_step == 0;
  });
}

float limit_of(const std::vector<double>& limits, std::size_t layer) {
  return layer < limits.size() ? static_cast<float>(limits[layer]) : 0.0F;
}

float shared_limit_of(const ExpertsConfig& experts, std::size_t layer) {
  const bool has_own = !experts.shared_swiglu_limits.empty();
  return limit_of(has_own ? experts.shared_swiglu_limits : experts.swiglu_limits, layer);
}

void require_experts(const CheckpointConfig& config, const MixtureOfExpertsSpec& spec) {
  const RouterSpec& router = spec.router;
  require<ConfigError>(config.hidden_act == "silu" || spec.activation == activation_of(config),
                       "hidden_act \"{}\" is not supported for the experts of {}; expected \"silu\"",
                       config.hidden_act, config.architecture);
  require<ConfigError>(router.num_experts_per_tok <= router.num_experts,
                       "num_experts_per_tok must be at most the number of experts, {}, found {}",
                       router.num_experts, router.num_experts_per_tok);
  require<ConfigError>(router.num_experts % router.num_groups == 0,
                       "n_group must divide the number of experts, {}, found {}", router.num_experts,
                       router.num_groups);
  const std::size_t group_size = router.num_experts / router.num_groups;
  require<ConfigError>(
      router.experts_scoring_group <= group_size,
      "a group must have at least the {} experts that its score is the sum of, found {} (n_group {} "
      "for {} experts)",
      router.experts_scoring_group, group_size, router.num_groups, router.num_experts);
  require<ConfigError>(
      router.groups_per_tok <= router.num_groups &&
          router.num_experts_per_tok <= router.groups_per_tok * group_size,
      "topk_group must be at most n_group, {}, and its groups of {} experts must hold the {} of "
      "num_experts_per_tok; found {}",
      router.num_groups, group_size, router.num_experts_per_tok, router.groups_per_tok);
}

DiffusionSpec unmasked_by_blocks(const CheckpointConfig& config) {
  return {.mask_token = config.mask_token_id,
          .block_length = config.encoder.block_size,
          .filtered_confidence = true,
          .schedule = DiffusionSpec::Schedule::of_block,
          .above = DiffusionSpec::Above::no_fewer_than_schedule};
}

}  // namespace tp::families
