// DeepSeek-V4 in GGUF files. Source of keys: llama.cpp, conversion/deepseek.py.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

// Names of expert_gating_func in config.json.
const char* scoring_func(std::uint64_t number) {
  constexpr std::uint64_t kSqrtSoftplus = 4;
  constexpr std::uint64_t kSigmoid = 2;
  return number == kSqrtSoftplus ? "sqrtsoftplus" : number == kSigmoid ? "sigmoid" : "softmax";
}

nlohmann::json experts_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = {{"n_routed_experts", model.whole("expert_count")},
                           {"num_experts_per_tok", model.whole("expert_used_count")},
                           {"n_shared_experts", model.whole_or("expert_shared_count", 0)},
                           {"moe_intermediate_size", model.whole("expert_feed_forward_length")},
                           {"routed_scaling_factor", model.number_or("expert_weights_scale", 1.0)},
                           {"norm_topk_prob", model.boolean_or("expert_weights_norm", false)},
                           {"scoring_func", scoring_func(model.whole("expert_gating_func"))},
                           {"num_hash_layers", model.whole_or("hash_layer_count", 0)},
                           {"swiglu_limits", std::vector<double>(model.whole("block_count"))}};  // if none
  config.update(gguf_activation_limits(model));
  return config;
}

}  // namespace

// All heads share a latent, which has the size of a head.
nlohmann::json deepseek_v4_config(const ModelMetadata& model) {
  nlohmann::json config = gguf_next_token_layers(model);
  config.update(numbers_in_gguf(kCompressedAttentionNumbers, model));
  config.update(numbers_in_gguf(kIndexerNumbers, model));
  config.update(numbers_in_gguf(kHyperConnectionNumbers, model));
  config.update(experts_in_gguf(model));
  config.update({{"num_key_value_heads", 1},
                 {"qk_rope_head_dim", model.whole("rope.dimension_count")},
                 {"sliding_window", model.whole("attention.sliding_window")},
                 {"compress_ratios", model.wholes("attention.compress_ratios")},
                 {"compress_rope_theta", model.number("attention.compress_rope_freq_base")},
                 {"hc_eps", model.number("hyper_connection.epsilon")},
                 {"hc_sinkhorn_iters", model.whole("hyper_connection.sinkhorn_iterations")}});
  return config;
}

}  // namespace tp::families
