#include "model/kernels/favor.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace tp::kernels {
namespace {

// Normally distributed numbers, equal on every machine.
class NormalNumbers {
 public:
  explicit NormalNumbers(std::uint64_t seed) : random_(seed) {}

  double operator()() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  std::mt19937_64 random_;
};

using Direction = std::vector<double>;

double dot(const Direction& a, const Direction& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// A random direction of length 1 that is orthogonal to the others.
Direction next_direction(NormalNumbers& normal, const std::vector<Direction>& others, std::size_t size) {
  Direction direction(size);
  std::ranges::generate(direction, std::ref(normal));
  for (const Direction& other : others) {
    const double along = dot(direction, other);
    for (std::size_t i = 0; i < size; ++i) direction[i] -= along * other[i];
  }
  const double length = std::sqrt(dot(direction, direction));
  for (double& element : direction) element /= length;
  return direction;
}

// The length of a normally distributed vector.
double random_length(NormalNumbers& normal, std::size_t size) {
  Direction vector(size);
  std::ranges::generate(vector, std::ref(normal));
  return std::sqrt(dot(vector, vector));
}

}  // namespace

std::vector<float> orthogonal_features(std::uint64_t seed, std::size_t features, std::size_t size) {
  NormalNumbers normal(seed);
  std::vector<float> all;
  all.reserve(features * size);
  std::vector<Direction> block;
  for (std::size_t feature = 0; feature < features; ++feature) {
    if (block.size() == size) block.clear();
    block.push_back(next_direction(normal, block, size));
    const double length = random_length(normal, size);
    for (const double element : block.back()) all.push_back(static_cast<float>(element * length));
  }
  return all;
}

}  // namespace tp::kernels
