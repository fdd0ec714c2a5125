// Changes of residual connections: their tensors and numbers.
//
// AltUp: several residual streams, of which each block computes one and predicts the others. Source: Baykal
// et al., Alternating Updates for Efficient Transformers, 2023. Laurel: a learned addend of low rank. Source:
// Menghani et al., LAuReL: Learned Augmented Residual Layer, 2024. Hyper-connections: several streams, of
// which each half of a block reads a weighted sum, and which it may mix. Source: Zhu et al.,
// Hyper-Connections, 2024. Those of low rank also replace norms. Source: Qwen Team, Qwen3.8-Flash-Next, 2026.
// Attention residuals: each half of a block attends to the sums that earlier blocks have left. Source:
// Moonshot AI, Kimi-K3, 2026.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <string>

namespace tp {

// AltUp in a block.
struct AltUpNames {
  std::string correct_output_scale;  // a tensor, not a layer
  std::string correction_coefs;
  std::string modality_router;
  std::string prediction_coefs;
  std::string router_norm;
};

// Layers before the first block and after the last one, for each stream but the first: followed by the
// stream's number less 1.
struct AltUpStreamNames {
  std::string projections;
  std::string unembed_projections;
};

inline constexpr std::array kAltUpTensors = std::to_array<PartTensor<AltUpNames>>({
    {&AltUpNames::correct_output_scale, "correct_output_scale", "altup_correct_scale.weight", nullptr, false},
    {&AltUpNames::correction_coefs, "correction_coefs", "altup_correct_coef", nullptr, false},
    {&AltUpNames::modality_router, "modality_router", "altup_router", nullptr, false},
    {&AltUpNames::prediction_coefs, "prediction_coefs", "altup_predict_coef", nullptr, false},
    {&AltUpNames::router_norm, "router_norm", "altup_router_norm", nullptr, false},
});

// GGUF files have a stack of each kind.
inline constexpr std::array kAltUpStreamTensors = std::to_array<PartTensor<AltUpStreamNames>>({
    {&AltUpStreamNames::projections, "altup_projections", "altup_proj", nullptr, false},
    {&AltUpStreamNames::unembed_projections, "altup_unembed_projections", "altup_unembd_proj", nullptr,
     false},
});

struct AltUpConfig {
  std::size_t num_inputs = 0;  // streams; 0: no AltUp

  bool operator==(const AltUpConfig&) const = default;
};

inline constexpr std::array kAltUpNumbers = std::to_array<PartNumber<AltUpConfig>>({
    {&AltUpConfig::num_inputs, {"altup_num_inputs"}, "altup.num_inputs"},
});

struct LaurelNames {
  std::string left;
  std::string right;
  std::string norm;
};

inline constexpr std::array kLaurelTensors = std::to_array<PartTensor<LaurelNames>>({
    {&LaurelNames::left, "linear_left", "laurel_l", nullptr, false},
    {&LaurelNames::right, "linear_right", "laurel_r", nullptr, false},
    {&LaurelNames::norm, "post_laurel_norm", "laurel_post_norm", nullptr, false},
});

struct LaurelConfig {
  std::size_t rank = 0;  // 0: no Laurel

  bool operator==(const LaurelConfig&) const = default;
};

// GGUF files have no key for the rank, which is a size of laurel_l.
inline constexpr std::array kLaurelNumbers = std::to_array<PartNumber<LaurelConfig>>({
    {&LaurelConfig::rank, {"laurel_rank"}},
});

// Weights of streams. These are tensors, not layers. There are such tensors before each half of a block, and
// after the last block.
struct HyperConnectionNames {
  std::string fn;
  std::string base;
  std::string scale;
};

inline constexpr std::array kAttentionConnectionTensors = std::to_array<PartTensor<HyperConnectionNames>>({
    {&HyperConnectionNames::fn, "fn", "hc_attn_fn.weight", nullptr, false},
    {&HyperConnectionNames::base, "base", "hc_attn_base.weight", nullptr, false},
    {&HyperConnectionNames::scale, "scale", "hc_attn_scale.weight", nullptr, false},
});

inline constexpr std::array kFeedForwardConnectionTensors = std::to_array<PartTensor<HyperConnectionNames>>({
    {&HyperConnectionNames::fn, "fn", "hc_ffn_fn.weight", nullptr, false},
    {&HyperConnectionNames::base, "base", "hc_ffn_base.weight", nullptr, false},
    {&HyperConnectionNames::scale, "scale", "hc_ffn_scale.weight", nullptr, false},
});

inline constexpr std::array kLastConnectionTensors = std::to_array<PartTensor<HyperConnectionNames>>({
    {&HyperConnectionNames::fn, "fn", "output_hc_fn.weight", nullptr, false},
    {&HyperConnectionNames::base, "base", "output_hc_base.weight", nullptr, false},
    {&HyperConnectionNames::scale, "scale", "output_hc_scale.weight", nullptr, false},
});

struct HyperConnectionConfig {
  std::size_t mult = 0;  // streams; 0: no hyper-connections
  double eps = 1e-6;     // added to weights
  double magnitude = 2.0;
  std::size_t sinkhorn_iters = 0;  // 0: the family's connections do not mix streams

  bool operator==(const HyperConnectionConfig&) const = default;
};

inline constexpr std::array kHyperConnectionNumbers = std::to_array<PartNumber<HyperConnectionConfig>>({
    {&HyperConnectionConfig::mult, {"hc_mult"}, "hyper_connection.count"},
});

// `values` has the functions whole(key, number) and number(key, number).
template <class Values>
void write_hyper_connections(const HyperConnectionConfig& config, Values& values) {
  if (config.mult == 0) return;
  write_numbers(kHyperConnectionNumbers, config, values);
  values.number("hyper_connection.epsilon", config.eps);
  if (config.sinkhorn_iters != 0)
    values.whole("hyper_connection.sinkhorn_iterations", config.sinkhorn_iters);
  else
    values.number("hyper_connection.magnitude", config.magnitude);
}

// Instead of the norm before each half of a block, and instead of the final norm, where nothing is injected.
struct LowRankConnectionNames {
  std::string norm;
  std::string down;
  std::string up;
  std::string inject;
};

inline constexpr std::array kAttentionLowRankTensors = std::to_array<PartTensor<LowRankConnectionNames>>({
    {&LowRankConnectionNames::norm, "hc_norm", "hc_attn_norm", gguf_norm, false},
    {&LowRankConnectionNames::down, "input_mix_weight_down", "hc_attn_down"},
    {&LowRankConnectionNames::up, "input_mix_weight_up", "hc_attn_up"},
    {&LowRankConnectionNames::inject, "block_inject_weight", "hc_attn_inject", nullptr, false},
});

inline constexpr std::array kFeedForwardLowRankTensors = std::to_array<PartTensor<LowRankConnectionNames>>({
    {&LowRankConnectionNames::norm, "hc_norm", "hc_ffn_norm", gguf_norm, false},
    {&LowRankConnectionNames::down, "input_mix_weight_down", "hc_ffn_down"},
    {&LowRankConnectionNames::up, "input_mix_weight_up", "hc_ffn_up"},
    {&LowRankConnectionNames::inject, "block_inject_weight", "hc_ffn_inject", nullptr, false},
});

inline constexpr std::array kLastLowRankTensors = std::to_array<PartTensor<LowRankConnectionNames>>({
    {&LowRankConnectionNames::norm, "hc_norm", "output_hc_norm", gguf_norm, false},
    {&LowRankConnectionNames::down, "input_mix_weight_down", "output_hc_down"},
    {&LowRankConnectionNames::up, "input_mix_weight_up", "output_hc_up"},
});

struct LowRankConnectionConfig {
  std::size_t count = 0;  // streams; 0: no such connections
  std::size_t rank = 0;

  bool operator==(const LowRankConnectionConfig&) const = default;
};

inline constexpr std::array kLowRankConnectionNumbers = std::to_array<PartNumber<LowRankConnectionConfig>>({
    {&LowRankConnectionConfig::count, {"hc_count"}, "hyper_connection.count"},
    {&LowRankConnectionConfig::rank, {"hc_lowrank"}, "hyper_connection.low_rank"},
});

// Before a half of a block, and before the final norm. GGUF files have the product of both.
struct DepthAttentionNames {
  std::string norm;  // absent in GGUF files, whose proj contains its gain
  std::string proj;
};

inline constexpr std::array kAttentionResidualTensors = std::to_array<PartTensor<DepthAttentionNames>>({
    {&DepthAttentionNames::norm, "self_attention_res_norm", "", nullptr, false},
    {&DepthAttentionNames::proj, "self_attention_res_proj", "attn_res_score", nullptr, false},
});

inline constexpr std::array kFeedForwardResidualTensors = std::to_array<PartTensor<DepthAttentionNames>>({
    {&DepthAttentionNames::norm, "mlp_res_norm", "", nullptr, false},
    {&DepthAttentionNames::proj, "mlp_res_proj", "ffn_res_score", nullptr, false},
});

inline constexpr std::array kLastResidualTensors = std::to_array<PartTensor<DepthAttentionNames>>({
    {&DepthAttentionNames::norm, "output_attn_res_norm", "", nullptr, false},
    {&DepthAttentionNames::proj, "output_attn_res_proj", "output_res_score", nullptr, false},
});

}  // namespace tp
