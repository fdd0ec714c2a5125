// The random integers of numpy, which some models use as constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// numpy.random.default_rng(seed).integers(0, bound, count) with 64-bit integers. `bound` is more than 2^32,
// because numpy draws smaller numbers in another way. Sources: numpy's documentation of SeedSequence and
// PCG64; O'Neill, PCG, 2014; Lemire, Fast Random Integer Generation in an Interval, 2019.
std::vector<std::uint64_t> numpy_integers(std::uint64_t seed, std::uint64_t bound, std::size_t count);

}  // namespace tp
