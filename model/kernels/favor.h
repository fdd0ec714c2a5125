// Attention by random features: sums over the tokens before stand in for keys and values, and cost the same
// for every token. Source: Choromanski et al., Rethinking Attention with Performers, 2021 (FAVOR+).
#pragma once

#include "model/kernels/delta_rule.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp::kernels {

// Random vectors of which as many as they have elements are orthogonal to each other; each by itself is
// normally distributed. -> [features, size]
std::vector<float> orthogonal_features(std::uint64_t seed, std::size_t features, std::size_t size);

// A feature of x is exp(w . x - |x|^2 / 2) for a random vector w; the mean of a query's times a key's is an
// unbiased estimate of exp(query . key).
struct FavorAttention {
  TensorView<const float> query;            // [tokens, heads * head_dim]
  TensorView<const float> key;              // [tokens, kv_heads * head_dim]
  TensorView<const float> value;            // [tokens, kv_heads * head_dim]
  std::span<const std::size_t> kv_of_head;  // [heads] the KV head that each reads, not descending
  std::span<const float> features;          // [kv_heads, num_features, head_dim]
  std::size_t num_features = 0;
  std::size_t head_dim = 0;
  float scale = 1.0F;         // of query . key
  TensorView<float> scratch;  // [threads, favor_scratch(...)]
  TensorView<float> out;      // [tokens, heads * head_dim]
};

std::size_t favor_scratch(std::size_t heads, std::size_t num_features, std::size_t head_dim);

// Floats of a state: for every KV head a matrix with a row for every feature, which holds the sum of keys'
// features times values, and times 1; and the logarithm that all of it is relative to.
std::size_t favor_state_floats(std::size_t kv_heads, std::size_t num_features, std::size_t head_dim);

// Estimates softmax(scale * query . keys^T) . values over the tokens of the runs' sequences so far. Tokens
// are computed one by one in their order, whatever else is in the batch.
void favor_attention(const FavorAttention& args, std::span<const RecurrentRun> runs);

}  // namespace tp::kernels
