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

// Positions from one anchor to the next.
inline constexpr std::size_t kScanTokens = 16;

// out[r][k] = rows[r] . keys[k]
struct ScanDots {
  const float* const* keys;  // [count], of `size` floats, a multiple of 16
  std::size_t count;         // keys of the last row
  std::size_t rows_per_key;  // after as many rows, a row has one key more
  std::size_t size;
  const float* const* rows;  // [num_rows], of `size` floats
  std::size_t num_rows;
  float* const* out;  // [num_rows], of `count` floats
};

// Two rows. After the product with a key, beginning with the last one, the rows are multiplied by the key's
// decays.
struct ScanFadedDots {
  const float* const* keys;    // [count], of `size` floats, a multiple of 16
  const float* const* decays;  // [count], of `size` floats
  std::size_t count;
  std::size_t size;
  float* rows;  // [2, size]
  std::size_t stride;
  float* out;  // [2, count]
  std::size_t out_stride;
};

// out[k] = keys[k] * decays[k + 1] * ... * decays[count - 1], and the product of all decays.
struct ScanFadedKeys {
  const float* const* keys;    // [count], of `size` floats, a multiple of 16
  const float* const* decays;  // [count], of `size` floats
  std::size_t count;
  std::size_t size;
  float* out;  // [count, size]
  std::size_t stride;
  float* all_decays;  // [size]
};

// The weights of additions for a token: weights[r][k] = dots[r][k] * (decays of k + 1 to the token). Its rows
// fade by all decays since the anchor.
struct ScanWeights {
  std::size_t token;    // since the anchor
  const float* decays;  // [token + 1]
  std::size_t num_rows;
  const float* dots;         // [num_rows, kScanTokens]
  float* weights;            // [num_rows, kScanTokens]
  const float* const* rows;  // [num_rows], of `size` floats
  std::size_t size;
  float* faded_rows;  // [num_rows, size]
  std::size_t stride;
};

// A row that is prefetched.
struct ScanRow {
  const float* begin;
  std::size_t size;
};

// Consecutive tokens in some columns of a head's values. For each, known = key . matrix + sum of weights *
// additions, and seen alike with the query; addition = strength * (value - known), or strength * value
// without corrections; out = seen, this token's addition included.
struct ScanTokens {
  const float* rows;  // [tokens, 2, inner]: key and query; [tokens, inner] without corrections
  std::size_t row_stride;
  std::size_t inner;
  const float* matrix;  // [inner, stored_columns]
  std::size_t stride;
  std::size_t stored_columns;  // a multiple of 16
  const float* weights;        // [tokens, 2, kScanTokens], or [tokens, kScanTokens]
  std::size_t since;           // tokens between the anchor and the first token
  float* const* additions;     // [since + tokens], of stored_columns; the tokens' are written
  std::size_t tokens;
  const float* const* values;  // [tokens], of `columns` floats
  const float* strengths;      // [tokens]
  std::size_t columns;
  float* const* out;  // [tokens], of `columns` floats
  bool corrects;
  const ScanRow* next;  // [num_next]: rows that later calls need. A batch's rows are far apart.
  std::size_t num_next;
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
  bool rectified;  // see IndexQueries
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

// Up to 16 channels through consecutive tokens of a selective scan.
struct ChannelScan {
  float* state;       // [state_size, 16]
  const float* rate;  // [state_size, 16]
  std::size_t state_size;
  const float* direct;   // [16]
  std::size_t channels;  // 1 to 16
  std::size_t tokens;
  const float* x;  // [tokens, channels]
  std::size_t x_stride;
  const float* step;  // [tokens, channels], before softplus
  std::size_t step_stride;
  const float* b;  // [tokens, state_size]
  const float* c;  // [tokens, state_size]
  std::size_t b_stride;
  std::size_t c_stride;
  float* out;  // [tokens, channels]; may be x
  std::size_t out_stride;
};

// The rows of consecutive tokens.
struct WkvRows {
  const float* first;
  std::size_t stride;
};

// Columns of a head's matrix through consecutive tokens of RWKV-7's recurrence.
struct WkvColumnScan {
  float* state;  // [blocks of 16 columns, head_dim, 16]
  std::size_t head_dim;
  std::size_t columns;  // the last block may not be whole
  std::size_t tokens;
  WkvRows receptance;  // [tokens, head_dim], as the next four
  WkvRows decay;
  WkvRows key;
  WkvRows removal;
  WkvRows correction;
  WkvRows value;  // [tokens, columns]
  float* out;     // [tokens, columns]
  std::size_t out_stride;
};

struct SimdKernels {
  // y[o] = sum over i of x[i] * weight[o * w_stride + i].
  void (*matvec)(const float* weight, std::size_t w_stride, std::size_t out_features, std::size_t in_features,
                 const float* x, float* y);
  // Rotates the pairs (x[i], x[i + half]) by angles with these cosines and sines.
  void (*rotate_halves)(float* x, const float* cosine, const float* sine, std::size_t half);
  void (*scan_dots)(const ScanDots& dots);
  void (*scan_faded_dots)(const ScanFadedDots& dots);
  void (*scan_faded_keys)(const ScanFadedKeys& keys);
  void (*scan_weights)(const ScanWeights& weights);
  void (*scan_tokens)(const ScanTokens& tokens);
  void (*scan_anchor)(const ScanAnchor& anchor);
  // largest: the largest element of x, [whole vectors]. exponentials: x = exp(x - less) plus a very small
  // number.
  float (*largest)(const float* x, std::size_t size);
  void (*exponentials)(float* x, std::size_t size, float less);
  // state = kept * state + key value^T; out = query state.
  void (*favor)(const FavorStep& step);
  void (*scan_channels)(const ChannelScan& scan);
  void (*scan_wkv)(const WkvColumnScan& scan);
  void (*index_scores)(const IndexTile& tile);
  std::size_t index_panels;  // largest number of panels that index_scores widens at a time
};

// The kernels of the active instruction set.
const SimdKernels& simd();

}  // namespace tp::kernels
