// Sums of vectors in a fixed order.
#pragma once

#include <cstddef>
#include <span>

namespace tp {

// out[i] = addends[0][i] + addends[1][i] + ... for i in [0, size). Each addend is [size]; there must be at
// least one. `out` may be one of the addends.
void sum_of(std::span<const float* const> addends, std::size_t size, float* out);
void sum_of(std::span<const double* const> addends, std::size_t size, double* out);

inline void copy(const float* from, std::size_t size, float* to) { sum_of({&from, 1}, size, to); }
inline void copy(const double* from, std::size_t size, double* to) { sum_of({&from, 1}, size, to); }

// y += x, on this thread.
void add_row(const float* x, std::size_t size, float* y);
void add_row(const double* x, std::size_t size, double* y);

// The destination of a sum. The sum is added to the floats if `adds` is true; otherwise, it replaces them.
struct SumTarget {
  float* floats;
  bool adds;

  SumTarget from(std::size_t begin) const { return {floats + begin, adds}; }
};

// Writes the sum of the addends to a target, after rounding a sum of doubles to float. If the target adds,
// its floats are added last. A single thread computes sums of up to kSerialSum doubles, so the target of such
// a sum may overlap the beginning of an addend.
void sum_to(std::span<const float* const> addends, std::size_t size, const SumTarget& target);
void sum_to(std::span<const double* const> addends, std::size_t size, const SumTarget& target);
inline constexpr std::size_t kSerialSum = std::size_t{1} << 14;

// The largest |value|, or 0 if `values` is empty.
double largest_magnitude(std::span<const double> values);

}  // namespace tp
