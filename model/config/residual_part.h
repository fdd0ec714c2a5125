// Changes of residual connections: their tensors and numbers.
//
// AltUp: several residual streams, of which each block computes one and predicts the others. Source: Baykal
// et al., Alternating Updates for Efficient Transformers, 2023. Laurel: a learned addend of low rank. Source:
// Menghani et al., LAuReL: Learned Augmented Residual Layer, 2024.
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

}  // namespace tp
