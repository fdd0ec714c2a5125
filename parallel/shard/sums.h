// Adds vectors in a fixed order.
#pragma once

#include <cstddef>
#include <span>

namespace tp {

// out[i] = addends[0][i] + addends[1][i] + ... for i in [0, size). There must be at least one addend; each is
// [size]. `out` may be one of the addends.
void sum_of(std::span<const float* const> addends, std::size_t size, float* out);
void sum_of(std::span<const double* const> addends, std::size_t size, double* out);

inline void copy(const float* from, std::size_t size, float* to) { sum_of({&from, 1}, size, to); }
inline void copy(const double* from, std::size_t size, double* to) { sum_of({&from, 1}, size, to); }

// y += x, without starting other threads.
void add_row(const float* x, std::size_t size, float* y);
void add_row(const double* x, std::size_t size, double* y);

// The destination of a sum. If `adds` is true, the sum is added to the floats; otherwise, it replaces them.
struct SumTarget {
  float* floats;
  bool adds;

  SumTarget from(std::size_t begin) const { return {floats + begin, adds}; }
};

// Writes the sum of the addends to a target. A sum of doubles is rounded to float first. With
// SumTarget::adds, the target's previous values are added last. If `size` is at most kSerialSum, a single
// thread computes the sum, so the target may overlap the beginning of an addend.
void sum_to(std::span<const float* const> addends, std::size_t size, const SumTarget& target);
void sum_to(std::span<const double* const> addends, std::size_t size, const SumTarget& target);
inline constexpr std::size_t kSerialSum = std::size_t{1} << 14;

// The largest absolute value, or 0 if `values` is empty.
double largest_magnitude(std::span<const double> values);

}  // namespace tp
