// DeepSeek-V2, V3 and V3.2: latent attention and experts, including shared experts. V3.2 has indexers.
// GLM-4.7-Flash is a V3, and GLM-5 a V3.2, with different sizes.
#include "model/config/config.h"
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

std::optional<IndexerSpec> indexer(const CheckpointConfig& config, std::size_t layer) {
  if (config.indexer.topk == 0) return std::nullopt;
  require<ConfigError>(config.latent.q_lora_rank != 0,
                       "q_lora_rank is not given, which the indexers of {} need", config.architecture);
  return IndexerSpec{
      .num_heads = config.indexer.n_heads,
      .head_dim = config.indexer.head_dim,
      .top_k = config.indexer.topk,
      .interleaved_rope = config.indexer.rope_interleave,
      // Layers for multi-token prediction are not listed.
      .is_shared = layer < config.indexer.types.size() && config.indexer.types[layer] == "shared",
      .pool = config.indexer.pool};
}

LatentAttentionSpec latent_attention(const CheckpointConfig& config, std::size_t layer) {
  require<ConfigError>(!config.attention_bias, "attention_bias is not supported for {}; expected false",
                       config.architecture);
  require<ConfigError>(config.latent.kv_lora_rank != 0, "kv_lora_rank is not given, which {} needs",
                       config.architecture);
  LatentAttentionSpec spec;
  spec.num_attention_heads = config.num_attention_heads;
  if (config.latent.q_lora_rank != 0) spec.q_lora_rank = config.latent.q_lora_rank;
  spec.kv_lora_rank = config.latent.kv_lora_rank;
  spec.qk_nope_head_dim = config.latent.qk_nope_head_dim;
  spec.qk_rope_head_dim = config.latent.qk_rope_head_dim;
  spec.v_head_dim = config.latent.v_head_dim;
  const double mscale = config.rope_scaling.score_factor;
  spec.scale = static_cast<float>(
      mscale * mscale / std::sqrt(static_cast<double>(spec.qk_nope_head_dim + spec.qk_rope_head_dim)));
  if (spec.qk_rope_head_dim != 0) spec.rope = {config.rope_theta, config.rope_scaling, rotary_dim(config)};
  spec.interleaved_rope = config.latent.rope_interleave;
  spec.query_scaling = query_scaling_of(config);
  spec.indexer = indexer(config, layer);
  return spec;
}

RouterSpec router(const CheckpointConfig& config) {
  require<ConfigError>(config.experts.scoring_func == "softmax" || config.experts.scoring_func == "sigmoid",
                       "scoring_func must be softmax or sigmoid, found \"{}\"", config.experts.scoring_func);
  RouterSpec spec;
  spec.num_experts = config.num_experts;
  spec.num_experts_per_tok = config.experts.num_experts_per_tok;
  spec.scoring =
      config.experts.scoring_func == "softmax" ? RouterSpec::Scoring::softmax : RouterSpec::Scoring::sigmoid;
  spec.normalize = config.experts.norm_topk_prob;
  spec.scale = static_cast<float>(config.experts.routed_scaling_factor);
  if (config.experts.topk_method == "greedy") return spec;
  require<ConfigError>(
      config.experts.topk_method == "group_limited_greedy" || config.experts.topk_method == "noaux_tc",
      "topk_method must be greedy, group_limited_greedy or noaux_tc, found \"{}\"",
      config.experts.topk_method);
  spec.num_groups = config.experts.n_group;
  spec.groups_per_tok = config.experts.topk_group;
  if (config.experts.topk_method == "noaux_tc") {
    spec.correction_bias = true;
    spec.experts_scoring_group = 2;
  }
  return spec;
}

}  // namespace

ModelSpec deepseek_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  MixtureOfExpertsSpec experts;
  experts.router = router(config);
  experts.intermediate_size = config.experts.moe_intermediate_size;
  experts.shared_intermediate_size = config.experts.n_shared_experts * config.experts.moe_intermediate_size;
  ignore_next_token_layers(config, spec.names);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer)
    spec.blocks[layer].attention = latent_attention(config, layer);
  if (config.num_experts == 0) return spec;
  set_experts(config, experts, spec, [&](std::size_t layer) {
    return layer >= config.experts.first_k_dense_replace && layer % config.experts.moe_layer_freq == 0;
  });
  return spec;
}

namespace {

ModelSpec deepseek_next_token_spec(const CheckpointConfig& config) {
  return next_token_spec(config, deepseek_spec);
}

}  // namespace

BlockNames deepseek_block(const std::string& prefix) {
  BlockNames names = llama_block(prefix);
  names.latent_attention = usual_names(kLatentAttentionTensors, prefix + "self_attn.");
  names.latent_attention.indexer = usual_names(kIndexerTensors, prefix + "self_attn.indexer.");
  names.experts.shared_expert = usual_names(kSharedExpertTensors, prefix + "mlp.shared_experts.");
  names.next_token = usual_names(kNextTokenTensors, prefix);
  return names;
}

namespace {

// Version 3 chooses experts by a sigmoid (2 in the file). Early files of version 3 may lack this number, but
// have a bias.
bool is_version_3(const ModelMetadata& model) {
  const std::uint64_t dense = model.whole_or("leading_dense_block_count", 0);
  const bool has_bias = model.has_tensor(fmt::format("blk.{}.exp_probs_b.bias", dense));
  return model.whole_or("expert_gating_func", has_bias ? 2 : 1) == 2;
}

}  // namespace

// In newer files, keys that end in _mla describe the model's heads; keys without _mla describe the compressed
// cache.
nlohmann::json latent_attention_in_gguf(const ModelMetadata& model, std::uint64_t value_dim) {
  const std::uint64_t rotary = model.whole("rope.dimension_count");
  const std::uint64_t key = model.whole_or("attention.key_length_mla", model.head_dim());
  const std::uint64_t value =
      model.whole_or("attention.value_length_mla", model.whole_or("attention.value_length", value_dim));
  if (key <= rotary) {
    throw_error<ConfigError>("{}: heads of {} elements have no room for {} rotary ones and others",
                             model.files().name(), key, rotary);
  }
  const bool has_q_lora = model.has("attention.q_lora_rank");
  return {{"num_key_value_heads", model.heads()},
          {"q_lora_rank",
           has_q_lora ? nlohmann::json(model.whole("attention.q_lora_rank")) : nlohmann::json(nullptr)},
          {"kv_lora_rank", model.whole("attention.kv_lora_rank")},
          {"qk_rope_head_dim", rotary},
          {"qk_nope_head_dim", key - rotary},
          {"v_head_dim", value}};
}

nlohmann::json deepseek_config(const ModelMetadata& model) {
  const std::uint64_t groups = std::max<std::uint64_t>(1, model.whole_or("expert_group_count", 1));
  nlohmann::json config = gguf_next_token_layers(model);
  config.update(
      latent_attention_in_gguf(model, model.whole_or("attention.key_length_mla", model.head_dim())));
  config.update({{"n_routed_experts", model.whole_or("expert_count", 0)},
                 {"num_experts_per_tok", model.whole_or("expert_used_count", 0)},
                 {"n_shared_experts", model.whole_or("expert_shared_count", 0)},
                 {"moe_intermediate_size", model.whole("expert_feed_forward_length")},
                 {"moe_layer_freq", 1},
                 {"first_k_dense_replace", model.whole_or("leading_dense_block_count", 0)},
                 {"routed_scaling_factor", model.number_or("expert_weights_scale", 1.0)},
                 {"norm_topk_prob", model.boolean_or("expert_weights_norm", false)},
                 {"topk_method", is_version_3(model) ? "noaux_tc"
                                 : groups > 1        ? "group_limited_greedy"
                                                     : "greedy"},
                 {"n_group", groups},
                 {"topk_group", model.whole_or("expert_group_used_count", groups)}});
  return config;
}

namespace {

nlohmann::json indexer_config(const ModelMetadata& model) {
  nlohmann::json config = deepseek_config(model);
  config.update(numbers_in_gguf(kIndexerNumbers, model));
  config["topk_method"] = "noaux_tc";
  return config;
}

}  // namespace

// attention.indexer.types tells whether a layer has an indexer. Files without it have tensors of those that
// exist.
nlohmann::json deepseek_config_with_indexers(const ModelMetadata& model) {
  nlohmann::json config = indexer_config(model);
  const char* const key = "attention.indexer.types";
  const std::vector<bool> types = model.has(key) ? model.booleans(key) : std::vector<bool>();
  for (std::size_t layer = 0; layer < config.at("num_hidden_layers").get<std::size_t>(); ++layer) {
    const bool has_indexer = layer < types.size()
                                 ? types[layer]
                                 : model.has_tensor(fmt::format("blk.{}.indexer.attn_k.weight", layer));
    config["indexer_types"].push_back(has_indexer ? "full" : "shared");
  }
  return config;
}

Family deepseek2() {
  Family family = llama_like("DeepseekV2ForCausalLM", deepseek_spec, deepseek_block);
  family.make_next_token_spec = deepseek_next_token_spec;
  // Factors of F8 elements, part of their tensors.
  family.names.buffers.emplace_back(".weight_scale_inv");
  family.gguf = {.architecture = "deepseek2",
                 .is_of = [](const ModelMetadata& model) { return !is_version_3(model); },
                 .config = deepseek_config};
  family.defaults.experts.scoring_func = "softmax";
  family.defaults.experts.topk_method = "greedy";
  return family;
}

Family deepseek3() {
  Family family = derived(deepseek2(), "DeepseekV3ForCausalLM");
  family.gguf.is_of = is_version_3;
  family.defaults.max_position_embeddings = 4096;
  family.defaults.experts.norm_topk_prob = true;
  family.defaults.experts.scoring_func = "sigmoid";
  family.defaults.experts.topk_method = "noaux_tc";
  family.defaults.experts.routed_scaling_factor = 2.5;
  return family;
}

// Its GGUF files are read as DeepSeek-V3.
Family glm4_moe_lite() {
  Family family = derived(deepseek3(), "Glm4MoeLiteForCausalLM");
  family.gguf.is_of = [](const ModelMetadata&) { return false; };
  family.defaults.max_position_embeddings = 202752;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.experts.n_shared_experts = 1;
  family.defaults.experts.first_k_dense_replace = 1;
  family.defaults.experts.routed_scaling_factor = 1.8;
  return family;
}

Family deepseek_v32() {
  Family family = derived(deepseek3(), "DeepseekV32ForCausalLM");
  family.layer_types = {{"deepseek_sparse_attention", "full_attention"}};
  family.gguf = {.architecture = "deepseek32", .config = indexer_config};
  family.defaults.max_position_embeddings = 163840;
  family.defaults.indexer.topk = 2048;
  family.defaults.indexer.n_heads = 64;
  family.defaults.indexer.head_dim = 128;
  return family;
}

Family glm_moe_dsa() {
  Family family = derived(deepseek_v32(), "GlmMoeDsaForCausalLM");
  family.gguf = {.architecture = "glm-dsa", .config = deepseek_config_with_indexers};
  family.defaults.max_position_embeddings = 202752;
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.experts.n_shared_experts = 1;
  family.defaults.experts.first_k_dense_replace = 3;
  family.defaults.indexer.n_heads = 32;
  family.defaults.indexer.rope_interleave = true;
  return family;
}

}  // namespace tp::families
