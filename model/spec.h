// What parts a decoder has, as data. A family of models is a function from its config to this
// (architectures.h).
#pragma once

#include "tp/model_config.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

struct NormSpec {
  float eps = 1e-6F;
};

struct RopeSpec {
  double theta = 10000.0;
  RopeScaling scaling;
};

struct AttentionSpec {
  std::size_t num_attention_heads = 0;
  std::size_t num_key_value_heads = 0;
  std::size_t head_dim = 0;
  float scale = 1.0F;  // of query . key
  bool qkv_bias = false;
  bool o_bias = false;
  std::optional<std::size_t> sliding_window;
};

// down(silu(gate(x)) * up(x))
struct GatedMlpSpec {
  std::size_t intermediate_size = 0;
  bool bias = false;
};

struct BlockSpec {
  NormSpec input_norm;
  AttentionSpec attention;
  NormSpec post_attention_norm;  // before the feed-forward half, in the checkpoints' naming
  GatedMlpSpec mlp;
};

struct DecoderSpec {
  std::size_t vocab_size = 0;
  std::size_t hidden_size = 0;
  std::size_t max_position_embeddings = 0;
  RopeSpec rope;
  std::vector<BlockSpec> blocks;
  NormSpec final_norm;
  bool tied_embeddings = false;
};

}  // namespace tp
