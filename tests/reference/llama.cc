#include "tests/reference/llama.h"

#include "tests/reference/kernels.h"
#include "tests/reference/rope.h"

#include <algorithm>
#include <cmath>

namespace tp::reference {

Matrix Llama::norm(const Matrix& x, const std::string& layer) {
  return rms_norm(x, weights_.vector(layer + ".weight", x.columns), config_.rms_norm_eps);
}

Matrix Llama::attention(const Matrix& x, const std::string& prefix, const LayerAttention& layer) {
  const Frequencies frequencies = rope_frequencies(layer.rope_theta, config_.rope_scaling, config_.head_dim);
  Matrix angles(x.rows, layer.rope_theta == 0.0 ? 0 : config_.head_dim / 2);
  for (std::size_t t = 0; t < angles.rows; ++t) {
    for (std::size_t i = 0; i < angles.columns; ++i)
      angles(t, i) = static_cast<double>(t) * frequencies.per_position[i];
  }
  const double magnitude = frequencies.magnitude;
  const std::size_t heads = config_.num_attention_heads;
  const std::size_t kv_heads = config_.num_key_value_heads;
  const bool bias = config_.attention_bias;
  const Matrix query = rotate(weights_.linear(x, prefix + "q_proj", heads * config_.head_dim, bias),
                              config_.head_dim, angles, magnitude);
  const Matrix key = rotate(weights_.linear(x, prefix + "k_proj", kv_heads * config_.head_dim, bias),
                            config_.head_dim, angles, magnitude);
  const Matrix value = weights_.linear(x, prefix + "v_proj", kv_heads * config_.head_dim, bias);
  std::vector<std::size_t> kv_of_head;
  for (std::size_t head = 0; head < heads; ++head) kv_of_head.push_back(head / (heads / kv_heads));
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  const Matrix attended =
      reference::attention(query, key, value, kv_of_head, config_.head_dim, layer.pattern, scale);
  return weights_.linear(attended, prefix + "o_proj", config_.hidden_size, bias);
}

Matrix Llama::mlp(const Matrix& x, const std::string& prefix) {
  const Matrix gate = weights_.linear(x, prefix + "gate_proj", config_.intermediate_size, config_.mlp_bias);
  const Matrix up = weights_.linear(x, prefix + "up_proj", config_.intermediate_size, config_.mlp_bias);
  Matrix gate_up(x.rows, 2 * config_.intermediate_size);
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t i = 0; i < config_.intermediate_size; ++i) {
      gate_up(t, i) = gate(t, i);
      gate_up(t, config_.intermediate_size + i) = up(t, i);
    }
  }
  return weights_.linear(activate_and_multiply(kernels::Activation::silu, gate_up), prefix + "down_proj",
                         config_.hidden_size, config_.mlp_bias);
}

Matrix Llama::logits(std::span<const TokenId> tokens) {
  const std::string embedding = "model.embed_tokens.weight";
  const Matrix& table = weights_.matrix(embedding, config_.vocab_size, config_.hidden_size);
  Matrix x(tokens.size(), config_.hidden_size);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t i = 0; i < x.columns; ++i) x(t, i) = table(static_cast<std::size_t>(tokens[t]), i);
  }
  for (std::size_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".";
    add(attention(norm(x, block + "input_layernorm"), block + "self_attn.", layers_[layer]), x);
    add(mlp(norm(x, block + "post_attention_layernorm"), block + "mlp."), x);
  }
  const std::string head = config_.tie_word_embeddings ? embedding : "lm_head.weight";
  return matmul(norm(x, "model.norm"), weights_.matrix(head, config_.vocab_size, config_.hidden_size));
}

std::vector<TokenId> Llama::greedy(std::vector<TokenId> tokens, std::size_t count) {
  std::vector<TokenId> chosen;
  for (std::size_t i = 0; i < count; ++i) {
    const Matrix all = logits(tokens);
    const auto last = all.values.end() - static_cast<std::ptrdiff_t>(all.columns);
    chosen.push_back(static_cast<TokenId>(std::max_element(last, all.values.end()) - last));
    tokens.push_back(chosen.back());
  }
  return chosen;
}

}  // namespace tp::reference
