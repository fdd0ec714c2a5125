// Sums of vectors in a fixed order.
#pragma once

#include <cstddef>
#include <span>

namespace tp {

// At least one addend, [size] each:
// out[i] = addends[0][i] + addends[1][i] + ... for i in [0, size). `out` may be one of the addends.
void sum_of(std::span<const float* const> addends, std::size_t size, float* out);
void sum_of(std::span<const double* const> addends, std::size_t size, double* out);

inline void copy(const float* from, std::size_t size, float* to) { sum_of({&from, 1}, size, to); }
inline void copy(const double* from, std::size_t size, double* to) { sum_of({&from, 1}, size, to); }

// y += x, on this thread.
void add_row(const float* x, std::size_t size, float* y);
void add_row(const double* x, std::size_t size, double* y);

// The destination of a sum, which overwrites the floats there or is added to them.
struct SumTarget {
  float* floats;
  bool adds;

  SumTarget from(std::size_t begin) const { return {floats + begin, adds}; }
};

// Adds the sum to a target, to which it is added last; a sum of doubles is rounded first. A sum of at most
// kSerialSum doubles, which one thread computes, may overwrite the beginning of an addend.
void sum_to(std::span<const float* const> addends, std::size_t size, const SumTarget& target);
void sum_to(std::span<const double* const> addends, std::size_t size, const SumTarget& target);
inline constexpr std::size_t kSerialSum = std::size_t{1} << 14;

// The largest |value|; 0 if there is none.
double largest_magnitude(std::span<const double> values);

}  // namespace tp
