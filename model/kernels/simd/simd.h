// The inner loops that are compiled once per instruction set.
//
// simd_kernels.cc is compiled several times, each time with other machine flags and another namespace. It
// must not use inline functions of the standard library: the linker would keep one copy, possibly one that an
// older machine cannot run. Therefore these signatures use plain pointers. Other code calls the typed kernels
// outside of this folder.
#pragma once

#include <cstddef>

namespace tp::kernels {

// Rows of vectors or keys are padded with zeros to whole vectors of 16. `..._stride`: floats from one row to
// the next. See kernels/README.md for the recurrence.

// out = left right, or out += left right, for `columns`, a multiple of 16.
struct ScanProducts {
  const float* left;  // [rows, inner]
  std::size_t left_stride;
  std::size_t rows;
  std::size_t inner;
  const float* right;  // [inner, columns]
  std::size_t right_stride;
  std::size_t columns;
  float* out;  // [rows, columns]
  std::size_t out_stride;
  bool adds;
};

// out[r][k] = rows[r] . keys[k]
struct ScanDots {
  const float* const* keys;  // [count], of `size` floats, a multiple of 16
  std::size_t count;
  std::size_t size;
  float* rows;  // [num_rows, size]
  std::size_t stride;
  std::size_t num_rows;
  float* out;  // [num_rows, count]
  std::size_t out_stride;
};

// A token of a block in some columns of a head's values: addition = strength * (value - known - sum of
// known_weights[i]
// * additions[i]); out = seen + sum of seen_weights[i] * additions[i], this token's included.
struct ScanToken {
  const float* known;          // [whole vectors], or null without corrections
  const float* seen;           // [whole vectors]
  const float* known_weights;  // [tokens]
  const float* seen_weights;   // [tokens + 1]
  float* const* additions;     // [tokens + 1], of whole vectors; the last one is written
  std::size_t tokens;          // earlier ones of the block
  const float* value;          // [columns]
  float strength;
  std::size_t columns;
  float* out;  // [columns]
};

// matrix[r] = decay[r] * matrix[r] + sum over i of keys[i][r] * additions[i]
struct ScanAnchor {
  float* matrix;  // [rows, columns]
  std::size_t stride;
  std::size_t rows;
  std::size_t columns;  // whole vectors
  const float* decay;   // [rows]
  const float* keys;    // [tokens, rows]
  std::size_t key_stride;
  float* const* additions;  // [tokens]
  std::size_t tokens;
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
  void (*scan_products)(const ScanProducts& products);
  void (*scan_dots)(const ScanDots& dots);
  // Two rows. After the product with a key, beginning with the last one, the rows are multiplied by the key's
  // decays, [count] of `size` floats.
  void (*scan_faded_dots)(const ScanDots& dots, const float* const* decays);
  void (*scan_token)(const ScanToken& token);
  void (*scan_anchor)(const ScanAnchor& anchor);
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
