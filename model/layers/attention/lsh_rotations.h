// The random rotations of LSH attention.
#pragma once

#include "model/config/spec.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// Normally distributed numbers. If `count` is at least 16, they are the numbers that PyTorch returns on a CPU
// (torch.manual_seed(seed); torch.randn(count)).
std::vector<float> torch_randn(std::uint64_t seed, std::size_t count);

// Even factors whose product is the number of buckets for a sequence of `padded` tokens.
std::vector<std::size_t> bucket_factors(const LshAttentionSpec& spec, std::size_t padded);

// Rotations for `heads`: [heads, num_hashes, sum of factors / 2, head_dim]. Like the original code, this
// draws [all heads, head_dim, num_hashes, sum of factors / 2] numbers, with the same seed in every layer and
// call.
std::vector<float> lsh_rotations(const LshAttentionSpec& spec, std::span<const std::size_t> factors,
                                 Range heads);

}  // namespace tp
