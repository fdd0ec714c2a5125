// What a checkpoint's config.json says, in its own names.
#pragma once

#include "tp/tensor.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp {

// How rotary positions are stretched beyond the length that a model was first trained for (config:
// rope_scaling).
struct RopeScaling {
  enum class Kind : std::uint8_t { none, linear, llama3, yarn };

  Kind kind = Kind::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  std::size_t original_max_position_embeddings = 0;
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;         // yarn
  double attention_factor = 1.0;  // yarn: what cosines and sines are multiplied by

  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::size_t hidden_size = 0;
  std::size_t intermediate_size = 0;
  std::size_t num_hidden_layers = 0;
  std::size_t num_attention_heads = 0;
  std::size_t num_key_value_heads = 0;
  std::size_t head_dim = 0;
  std::size_t vocab_size = 0;
  std::size_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  std::string hidden_act = "silu";
  DType torch_dtype = DType::f32;
  std::vector<TokenId> eos_token_ids;  // may be empty

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace tp
