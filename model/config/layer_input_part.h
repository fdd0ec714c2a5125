// Inputs per layer: their tensors, and their sizes in config.json. The tensors of self-conditioning, an input
// of the first layer.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <cstddef>
#include <string>

namespace tp {

struct LayerInputNames {
  std::string gate;
  std::string projection;
  std::string norm;
};

// Tensors that compute the inputs of all layers.
struct PerLayerInputNames {
  std::string embed_tokens;
  std::string projection;
  std::string norm;
};

// Tensors that add soft embeddings to a canvas's token vectors.
struct SelfConditioningNames {
  std::string norm;
  std::string gate_proj;
  std::string up_proj;
  std::string down_proj;
};

inline constexpr std::array kLayerInputTensors = std::to_array<PartTensor<LayerInputNames>>({
    {&LayerInputNames::gate, "per_layer_input_gate", "inp_gate"},
    {&LayerInputNames::projection, "per_layer_projection", "proj"},
    {&LayerInputNames::norm, "post_per_layer_input_norm", "post_norm", nullptr, false},
});

inline constexpr std::array kPerLayerInputTensors = std::to_array<PartTensor<PerLayerInputNames>>({
    {&PerLayerInputNames::embed_tokens, "embed_tokens_per_layer", "per_layer_token_embd"},
    {&PerLayerInputNames::projection, "per_layer_model_projection", "per_layer_model_proj"},
    {&PerLayerInputNames::norm, "per_layer_projection_norm", "per_layer_proj_norm"},
});

inline constexpr std::array kSelfConditioningTensors = std::to_array<PartTensor<SelfConditioningNames>>({
    {&SelfConditioningNames::norm, "pre_norm"},
    {&SelfConditioningNames::gate_proj, "gate_proj"},
    {&SelfConditioningNames::up_proj, "up_proj"},
    {&SelfConditioningNames::down_proj, "down_proj"},
});

struct LayerInputConfig {
  std::size_t hidden_size = 0;  // 0: no inputs per layer
  std::size_t vocab_size = 0;

  bool operator==(const LayerInputConfig&) const = default;
};

}  // namespace tp
