// Attention by random features. Sums over earlier tokens replace keys and values, and cost the same for each
// token. Source: Choromanski et al., Rethinking Attention with Performers, 2021 (FAVOR+).
#pragma once

#include "model/kernels/recurrent_run.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp::kernels {

// Random vectors. Each is normally distributed; groups of up to `size` vectors are orthogonal. -> [features,
// size]
std::vector<float> orthogonal_features(std::uint64_t seed, std::size_t features, std::size_t size);

// A feature of x is exp(w . x - |x|^2 / 2) for a random vector w. The mean of products of a query's and a
// key's features is an unbiased estimate of exp(query . key).
struct FavorAttention {
  TensorView<const float> query;            // [tokens, heads * head_dim]
  TensorView<const float> key;              // [tokens, kv_heads * head_dim]
  TensorView<const float> value;            // [tokens, kv_heads * head_dim]
  std::span<const std::size_t> kv_of_head;  // [heads] the KV head that each query head reads, sorted
  std::span<const float> features;          // [kv_heads, num_features, head_dim]
  std::size_t num_features = 0;
  std::size_t head_dim = 0;
  float scale = 1.0F;         // factor of query . key
  TensorView<float> scratch;  // [threads, favor_scratch(...)]
  TensorView<float> out;      // [tokens, heads * head_dim]
};

std::size_t favor_scratch(std::size_t heads, std::size_t num_features, std::size_t head_dim);

// Floats of a state. For each KV head, it contains a matrix with a row for each feature (sums of keys'
// features times values, and times 1), and the logarithm to which all sums are relative.
std::size_t favor_state_floats(std::size_t kv_heads, std::size_t num_features, std::size_t head_dim);

// Estimates softmax(scale * query . keys^T) . values over all tokens so far of the runs' sequences. Tokens
// are computed one by one in order, whatever else is in the batch.
void favor_attention(const FavorAttention& args, std::span<const RecurrentRun> runs);

}  // namespace tp::kernels
