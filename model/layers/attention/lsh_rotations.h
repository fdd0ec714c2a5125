// The random rotations of LSH attention.
#pragma once

#include "model/config/spec.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// Normally distributed numbers, the same as PyTorch's on a CPU (torch.manual_seed(seed); torch.randn(count))
// if `count` is at least 16.
std::vector<float> torch_randn(std::uint64_t seed, std::size_t count);

// Even factors of the number of buckets for a sequence of `padded` tokens.
std::vector<std::size_t> bucket_factors(const LshAttentionSpec& spec, std::size_t padded);

// Rotations of `heads`, [heads, num_hashes, sum of factors / 2, head_dim]. Like the original code, the
// function draws [all heads, head_dim, num_hashes, sum of factors / 2] with the same seed in every layer and
// call.
std::vector<float> lsh_rotations(const LshAttentionSpec& spec, std::span<const std::size_t> factors,
                                 Range heads);

}  // namespace tp
