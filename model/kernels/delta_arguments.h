// The state and the arguments of the delta rule (delta_rule.h), for the function and the scans of its heads.
#pragma once

#include "model/kernels/recurrent_run.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// Positions from one anchor to the next.
inline constexpr std::size_t kAnchorTokens = 16;

// Most tokens between two anchors that a state keeps.
inline constexpr std::size_t kKeptTokens = kAnchorTokens - 1;

// The floats of a state: the matrices of all value heads at the last anchor, then what has come since. Rows
// are padded to whole vectors.
struct DeltaShape {
  std::size_t key_heads = 0;
  std::size_t value_heads = 0;
  std::size_t key_dim = 0;
  std::size_t value_dim = 0;
  bool decays_rows = false;  // each row of a matrix has its own decay

  std::size_t decays() const { return decays_rows ? key_dim : 1; }             // per value head
  std::size_t key_stride() const { return padded(key_dim); }                   // floats of a key
  std::size_t value_stride() const { return padded(value_dim); }               // floats of a row of a matrix
  std::size_t decay_stride() const { return decays_rows ? key_stride() : 1; }  // floats of a token's decays
  std::size_t matrix_floats() const { return key_dim * value_stride(); }
  // Floats that a head keeps of all tokens since the anchor.
  std::size_t keys_floats() const { return kKeptTokens * key_stride(); }
  std::size_t decays_floats() const { return padded(kKeptTokens * decay_stride()); }
  std::size_t additions_floats() const { return kKeptTokens * value_stride(); }
  // The first float of a head.
  std::size_t matrix(std::size_t head) const { return head * matrix_floats(); }
  std::size_t keys(std::size_t key_head) const { return matrix(value_heads) + key_head * keys_floats(); }
  std::size_t decays_of(std::size_t head) const { return keys(key_heads) + head * decays_floats(); }
  std::size_t additions(std::size_t head) const { return decays_of(value_heads) + head * additions_floats(); }
  std::size_t floats() const { return additions(value_heads); }
};

struct DeltaRule {
  TensorView<const float> query;             // [tokens, key heads * key_dim]
  TensorView<const float> key;               // [tokens, key heads * key_dim]
  TensorView<const float> value;             // [tokens, value heads * value_dim]
  TensorView<const float> decay;             // [tokens, value heads * shape.decays()]
  TensorView<const float> strength;          // [tokens, value heads]
  std::span<const std::size_t> key_of_head;  // [value heads]
  DeltaShape shape{};
  bool corrects = true;       // false: values are added without a correction, as in Mamba-2
  TensorView<float> scratch;  // [threads, delta_scratch(shape)]
  TensorView<float> dots;     // [tokens, delta_dots(shape, corrects)]
  TensorView<float> out;      // [tokens, value heads * value_dim]
};

}  // namespace tp::kernels
