// MiniMax-M2: Llama with one norm over all query heads and one over all key heads, Mixtral's tensor names,
// and DeepSeek-V3's choice of experts. MiniMax-M3: norms of single heads, indexers that choose blocks in most
// layers, GPT-OSS's activation, dense layers before those with experts, and a shared expert.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

ModelSpec minimax_m2_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) {
    attention_of(block).query_key_norm = block.input_norm;
    attention_of(block).norms_whole_projections = true;
  }
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router = router_with_correction_bias(config);
  set_experts(config, experts, spec, [](std::size_t) { return true; });
  return spec;
}

BlockNames minimax_m2_block(const std::string& prefix) {
  BlockNames names = mixtral_block(prefix);
  names.experts.correction_bias = prefix + "block_sparse_moe.e_score_correction_bias";
  return names;
}

nlohmann::json minimax_m2_config(const ModelMetadata& model) {
  return {{"num_local_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"intermediate_size", model.whole("expert_feed_forward_length")}};
}

std::optional<BlockIndexerSpec> block_indexer(const CheckpointConfig& config, std::size_t layer,
                                              const NormSpec& norm) {
  const BlockIndexerConfig& indexer = config.block_indexer;
  if (indexer.layers.empty() || !indexer.layers[layer]) return std::nullopt;
  return BlockIndexerSpec{.head_dim = indexer.head_dim,
                          .block_size = indexer.block_size,
                          .top_k = indexer.topk_blocks,
                          .local = indexer.local_blocks,
                          .norm = norm};
}

ModelSpec minimax_m3_spec(const CheckpointConfig& config) {
  CheckpointConfig plain = config;
  plain.hidden_act = "silu";  // replaced below
  if (config.experts.intermediate_size_mlp != 0)
    plain.intermediate_size = config.experts.intermediate_size_mlp;
  ModelSpec spec = llama_spec(plain);
  const NormSpec norm{.eps = static_cast<float>(config.rms_norm_eps), .gain_offset = 1.0F};
  set_norms(spec, norm);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    AttentionSpec& attention = attention_of(spec.blocks[layer]);
    attention.query_key_norm = norm;
    attention.block_indexer = block_indexer(config, layer, norm);
    std::get<GatedMlpSpec>(spec.blocks[layer].feed_forward).activation = Activation::clamped_swiglu;
  }
  MixtureOfExpertsSpec experts = experts_of(config);
  experts.router = router_with_correction_bias(config);
  experts.activation = Activation::clamped_swiglu;
  experts.shared_intermediate_size =
      config.experts.n_shared_experts * config.experts.shared_expert_intermediate_size;
  set_experts(plain, experts, spec,
              [&](std::size_t layer) { return layer >= config.experts.first_k_dense_replace; });
  return spec;
}

BlockNames minimax_m3_block(const std::string& prefix) {
  BlockNames names = minimax_m2_block(prefix);
  names.block_indexer = usual_names(kBlockIndexerTensors, prefix + "self_attn.");
  names.experts.shared_expert =
      usual_names(kSharedExpertTensors, prefix + "block_sparse_moe.shared_experts.");
  return names;
}

// Layers with an indexer are not listed, but have its tensors.
nlohmann::json minimax_m3_config(const ModelMetadata& model) {
  const std::uint64_t width = model.whole("expert_feed_forward_length");
  nlohmann::json config = minimax_m2_config(model);
  nlohmann::json sparse = numbers_in_gguf(kBlockIndexerNumbers, model);
  for (std::uint64_t layer = 0; layer < model.whole("block_count"); ++layer)
    sparse["sparse_attention_freq"].push_back(
        model.has_tensor(fmt::format("blk.{}.indexer.q_proj.weight", layer)) ? 1 : 0);
  config.update({{"dense_intermediate_size", model.whole("feed_forward_length")},
                 {"shared_intermediate_size", model.whole_or("expert_shared_feed_forward_length", width)},
                 {"n_shared_experts", model.whole_or("expert_shared_count", 1)},
                 {"first_k_dense_replace", model.whole_or("leading_dense_block_count", 0)},
                 {"routed_scaling_factor", model.number_or("expert_weights_scale", 1.0)},
                 {"norm_topk_prob", model.boolean_or("expert_weights_norm", true)},
                 {"hidden_act", "swigluoai"},
                 {"sparse_attention_config", std::move(sparse)}});
  return config;
}

}  // namespace

Family minimax_m2() {
  Family family = llama_like("MiniMaxM2ForCausalLM", minimax_m2_spec, minimax_m2_block);
  family.names.buffers.emplace_back(".weight_scale_inv");  // factors of F8 elements, part of their tensors
  family.gguf = {.architecture = "minimax-m2", .config = minimax_m2_config};
  family.fixed_fields = {{"scoring_func", R"("sigmoid")"},
                         {"use_routing_bias", "true"},
                         {"use_qk_norm", "true"},
                         {"qk_norm_type", R"("per_layer")"},
                         {"shared_intermediate_size", "0"}};
  family.defaults.head_dim = 128;
  family.defaults.max_position_embeddings = 196608;
  family.defaults.rope_theta = 5e6;
  family.defaults.experts.norm_topk_prob = true;
  return family;
}

// Checkpoints that transformers 5 has written list layers by type.
Family minimax_m3() {
  Family family =
      derived(minimax_m2(), "MiniMaxM3SparseForConditionalGeneration", minimax_m3_spec, minimax_m3_block);
  family.aliases = {"MiniMaxM3SparseForCausalLM", "MiniMaxM3VLForConditionalGeneration"};
  family.layer_types = {{"minimax_m3_sparse", "full_attention"}};
  family.names.part_prefix = "language_model.";
  family.names.gguf.norm_offset = 1.0F;
  family.gguf = {.architecture = "minimax-m3", .config = minimax_m3_config};
  family.fixed_fields = {{"hidden_act", R"("swigluoai")"},
                         {"swiglu_alpha", "1.702"},
                         {"swiglu_limit", "7"},
                         {"scoring_func", R"("sigmoid")"},
                         {"use_routing_bias", "true"},
                         {"use_qk_norm", "true"},
                         {"qk_norm_type", R"("per_head")"},
                         {"use_gemma_norm", "true"},
                         {"attention_output_gate", "false"},
                         {"sparse_attention_config.use_sparse_attention", "true"},
                         {"sparse_attention_config.sparse_score_type", R"("max")"},
                         {"sparse_attention_config.sparse_init_block", "0"}};
  family.defaults.max_position_embeddings = 524288;
  family.defaults.experts.intermediate_size_mlp = 12288;
  family.defaults.experts.shared_expert_intermediate_size = 3072;
  family.defaults.experts.n_shared_experts = 1;
  family.defaults.experts.routed_scaling_factor = 2.0;
  family.defaults.block_indexer = {
      .n_heads = 4, .head_dim = 128, .block_size = 128, .topk_blocks = 16, .local_blocks = 1};
  return family;
}

}  // namespace tp::families
