// The inner loops that are compiled once per instruction set.
//
// simd_kernels.cc is compiled several times, each time with other machine flags and another namespace. It
// must not use inline functions of the standard library: the linker would keep one copy, possibly one that an
// older machine cannot run. Therefore these signatures use plain pointers. Other code calls the typed kernels
// outside of this folder.
#pragma once

#include <cstddef>

namespace tp::kernels {

// With this many columns, a matrix of 128 rows stays in the first-level cache.
constexpr std::size_t kDeltaColumns = 32;

// Consecutive tokens of one sequence in one head of a gated delta rule. `..._stride`: floats from one token's
// row to the next.
struct DeltaTokens {
  const float* query;  // [tokens, key_dim]
  const float* key;    // [tokens, key_dim]
  std::size_t key_stride;
  const float* value;  // [tokens, value_dim]
  std::size_t value_stride;
  const float* decay;  // [tokens], or [tokens, key_dim]
  std::size_t decay_stride;
  const float* strength;  // [tokens]
  std::size_t strength_stride;
  float* out;  // [tokens, value_dim]
  std::size_t out_stride;
  std::size_t tokens;
  std::size_t key_dim;
  bool corrects;
  bool decays_channels;  // each element of a key has its own decay
};

// Queries of consecutive tokens, and the index keys of a block.
struct IndexTile {
  const unsigned char* keys;  // [panels, dim, 16], floats or bf16
  std::size_t panels;
  std::size_t dim;
  bool is_bf16;
  const float* query;  // [tokens, heads, dim]
  std::size_t query_stride;
  const float* weight;  // [tokens, heads]
  std::size_t weight_stride;
  std::size_t tokens;
  std::size_t heads;
  float* widened;  // scratch: [index_panels, dim, 16]
  float* scores;   // [tokens, panels, 16]
};

// One token in one KV head of attention by random features.
struct FavorStep {
  float* state;        // [features, columns]
  const float* key;    // [features] of the key
  const float* value;  // [columns]
  float kept;          // the state is first multiplied by this factor
  const float* query;  // [heads, query_stride] features of the queries
  std::size_t query_stride;
  std::size_t heads;
  std::size_t features;
  std::size_t columns;  // whole vectors
  float* out;           // [heads, columns]
};

struct SimdKernels {
  // y[o] = sum over i of x[i] * weight[o * w_stride + i].
  void (*matvec)(const float* weight, std::size_t w_stride, std::size_t out_features, std::size_t in_features,
                 const float* x, float* y);
  // Rotates the pairs (x[i], x[i + half]) by angles with these cosines and sines.
  void (*rotate_halves)(float* x, const float* cosine, const float* sine, std::size_t half);
  // For each token in order: S *= decay; S += k (strength (v - S^T k))^T; out = S^T q, in the columns [first,
  // first + columns) of the values. Without corrections: S += k (strength v)^T. columns <= kDeltaColumns.
  // state: these columns of S, [key_dim, whole vectors].
  void (*delta_rule)(const DeltaTokens& tokens, std::size_t first, std::size_t columns, float* state,
                     std::size_t state_stride);
  // largest: the largest element of x, [whole vectors]. exponentials: x = exp(x - less) plus a very small
  // number.
  float (*largest)(const float* x, std::size_t size);
  void (*exponentials)(float* x, std::size_t size, float less);
  // state = kept * state + key value^T; out = query state.
  void (*favor)(const FavorStep& step);
  void (*index_scores)(const IndexTile& tile);
  std::size_t index_panels;  // largest number of panels that index_scores widens at a time
};

// The kernels of the active instruction set.
const SimdKernels& simd();

}  // namespace tp::kernels
