// Attention among tokens that a hash sorts next to each other. Source: Kitaev et al., Reformer, 2020, and its
// code.
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// What is hashed with how many buckets.
struct LshBuckets {
  std::span<const std::size_t> factors;  // even; their product is the number of buckets
  // [heads, num_hashes, sum of factors / 2, head_dim], of this rank's heads
  std::span<const float> rotations;

  std::size_t rotated_size() const;  // sum of factors / 2
};

// A whole sequence of a batch.
struct LshSequence {
  std::size_t first_token = 0;  // row in the batch
  std::size_t tokens = 0;
  std::size_t padded = 0;  // to a multiple of the chunk length; what is filled up is never seen
  LshBuckets buckets{};    // unless `padded` is no more than a chunk
};

// What scratch has to suffice for.
struct LshLimits {
  std::size_t tokens = 0;  // of a sequence
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

// For every head: keys are the queries, scaled to length 1. Every hash sorts a sequence's tokens by buckets
// and cuts what results into chunks of chunk_length; a token sees those of its chunk and its neighbours (of
// the last chunk the next one is the first) that do not follow it in the sequence, and itself only if it sees
// no other. Results of several hashes are weighted by the sums of their exponentials. Sequences of up to a
// chunk are not hashed. Work is proportional to tokens * num_hashes * chunk_length.
void lsh_attention(const LshAttention& args);

}  // namespace tp::kernels
