// Attention among tokens that a hash sorts next to each other. Source: Kitaev et al., Reformer, 2020, and its
// code.
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// Buckets, and the rotations that assign queries to them.
struct LshBuckets {
  std::span<const std::size_t> factors;  // even; their product is the number of buckets
  // [heads, num_hashes, sum of factors / 2, head_dim], for this rank's heads
  std::span<const float> rotations;

  std::size_t rotated_size() const;  // sum of factors / 2
};

// A whole sequence in a batch.
struct LshSequence {
  std::size_t first_token = 0;  // row in the batch
  std::size_t tokens = 0;
  std::size_t padded = 0;  // a multiple of the chunk length; the padding is never seen
  LshBuckets buckets{};    // unused if `padded` is at most one chunk
};

// Limits for which scratch must suffice.
struct LshLimits {
  std::size_t tokens = 0;  // tokens of a sequence
  std::size_t padded = 0;
  std::size_t rotated = 0;  // LshBuckets::rotated_size
  std::size_t buckets = 0;
};

struct LshAttention {
  TensorView<const float> query_key;  // [tokens, heads * head_dim]
  TensorView<const float> value;      // [tokens, heads * head_dim]
  std::span<const LshSequence> sequences;
  std::size_t head_dim = 0;
  std::size_t chunk_length = 0;
  std::size_t chunks_before = 0;
  std::size_t chunks_after = 0;
  std::size_t num_hashes = 1;
  LshLimits limits{};
  TensorView<float> scratch{};  // [threads, lsh_scratch(...)]
  TensorView<float> out;        // [tokens, heads * head_dim]
};

// Floats of scratch per thread, within args.limits.
std::size_t lsh_scratch(const LshAttention& args);

// For each head. Keys are the queries, scaled to length 1. Each hash sorts a sequence's tokens by buckets,
// and cuts the result into chunks of chunk_length. A token sees the tokens of its chunk and of neighbouring
// chunks that do not follow it in the sequence; it sees itself only if it sees no other token. The first
// chunk follows the last one. Results of several hashes are weighted by their sums of exponentials. Sequences
// of at most a chunk are not hashed. Work is proportional to tokens * num_hashes * chunk_length.
void lsh_attention(const LshAttention& args);

}  // namespace tp::kernels
