#include "tests/reference/falcon.h"

#include "tests/reference/kernels.h"

#include <cmath>

namespace tp::reference {

std::vector<double> alibi_slopes(std::size_t heads) {
  const double closest_power_of_2 = std::pow(2.0, std::floor(std::log2(static_cast<double>(heads))));
  const double base = std::pow(2.0, -std::pow(2.0, -(std::log2(closest_power_of_2) - 3)));
  std::vector<double> slopes;
  for (double power = 1; power <= closest_power_of_2; ++power) slopes.push_back(std::pow(base, power));
  const double extra_base = std::pow(2.0, -std::pow(2.0, -(std::log2(2 * closest_power_of_2) - 3)));
  for (double power = 1; slopes.size() < heads; power += 2) slopes.push_back(std::pow(extra_base, power));
  return slopes;
}

Matrix Falcon::norm(const Matrix& x, const std::string& layer) {
  return layer_norm(x, weights_.vector(layer + ".weight", x.columns),
                    weights_.vector(layer + ".bias", x.columns), config_.layer_norm_eps);
}

// _split_heads: the fused projection is viewed as [KV heads, queries + 2, head_dim], and the last two of a
// group are its key and value.
Matrix Falcon::attention(const Matrix& x, const std::string& prefix) {
  const std::size_t dim = config_.head_dim;
  const std::size_t group = config_.num_attention_heads / config_.num_key_value_heads;
  const std::size_t width = config_.num_key_value_heads * (group + 2) * dim;
  Matrix fused = weights_.linear(x, prefix + "query_key_value", width, config_.attention_bias);
  if (!config_.alibi) {
    Matrix angles(x.rows, dim / 2);
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t i = 0; i < dim / 2; ++i)
        angles(t, i) = static_cast<double>(t) *
                       std::pow(config_.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    }
    const Matrix rotated = rotate(fused, dim, angles, 1.0);
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t i = 0; i < width; ++i) {
        const bool is_value = i / dim % (group + 2) == group + 1;
        if (!is_value) fused(t, i) = rotated(t, i);
      }
    }
  }
  const std::vector<double> slopes = alibi_slopes(config_.num_attention_heads);
  Matrix out(x.rows, config_.num_attention_heads * dim);
  for (std::size_t head = 0; head < config_.num_attention_heads; ++head) {
    const std::size_t first = head / group * (group + 2) * dim;  // first column of the KV head's part
    const std::size_t query = first + head % group * dim;
    const std::size_t key = first + group * dim;
    for (std::size_t t = 0; t < x.rows; ++t) {
      std::vector<double> weights;
      double sum = 0.0;
      for (std::size_t other = 0; other <= t; ++other) {
        double score = config_.alibi ? slopes[head] * static_cast<double>(other) : 0.0;
        for (std::size_t d = 0; d < dim; ++d) score += fused(t, query + d) * fused(other, key + d);
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
        sum += weights.back();
      }
      for (std::size_t other = 0; other <= t; ++other) {
        for (std::size_t d = 0; d < dim; ++d)
          out(t, head * dim + d) += weights[other] / sum * fused(other, key + dim + d);
      }
    }
  }
  return weights_.linear(out, prefix + "dense", config_.hidden_size, config_.attention_bias);
}

Matrix Falcon::mlp(const Matrix& x, const std::string& prefix) {
  const Matrix up = weights_.linear(x, prefix + "dense_h_to_4h", config_.intermediate_size, config_.mlp_bias);
  return weights_.linear(activate(kernels::Activation::gelu, up), prefix + "dense_4h_to_h",
                         config_.hidden_size, config_.mlp_bias);
}

Matrix Falcon::logits(std::span<const TokenId> tokens) {
  const std::string embedding = "transformer.word_embeddings.weight";
  const Matrix& table = weights_.matrix(embedding, config_.vocab_size, config_.hidden_size);
  Matrix x(tokens.size(), config_.hidden_size);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t i = 0; i < x.columns; ++i) x(t, i) = table(static_cast<std::size_t>(tokens[t]), i);
  }
  for (std::size_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const std::string block = "transformer.h." + std::to_string(layer) + ".";
    const bool two_norms = config_.new_decoder_architecture && config_.num_ln_in_parallel_attn != 1;
    const Matrix attention_in = norm(x, block + (two_norms ? "ln_attn" : "input_layernorm"));
    const Matrix attended = attention(attention_in, block + "self_attention.");
    Matrix mlp_in = two_norms ? norm(x, block + "ln_mlp") : attention_in;
    add(attended, x);
    if (!config_.new_decoder_architecture && !config_.parallel_attn)
      mlp_in = norm(x, block + "post_attention_layernorm");
    add(mlp(mlp_in, block + "mlp."), x);
  }
  const std::string head = config_.tie_word_embeddings ? embedding : "lm_head.weight";
  return matmul(norm(x, "transformer.ln_f"), weights_.matrix(head, config_.vocab_size, config_.hidden_size));
}

}  // namespace tp::reference
