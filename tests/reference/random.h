// Seeded data, equal on every rank and machine.
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tp::reference {

// std::mt19937_64 is specified to the bit, but the standard's distributions are not, so these are our own.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // In [low, high].
  std::size_t integer(std::size_t low, std::size_t high) { return low + engine_() % (high - low + 1); }
  // In [-1, 1).
  float number() { return static_cast<float>(engine_() >> 40) / static_cast<float>(1U << 23) - 1.0F; }
  bool coin() { return integer(0, 1) == 1; }
  std::vector<float> numbers(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = number();
    return values;
  }

 private:
  std::mt19937_64 engine_;
};

// A [rows, columns] tensor of random numbers. The distance between rows exceeds their width by `padding`
// elements.
class RandomTensor {
 public:
  RandomTensor(Random& random, std::size_t rows, std::size_t columns, std::size_t padding = 0)
      : memory_(random.numbers(rows * (columns + padding))),
        view_(memory_.data(), rows, columns, columns + padding) {}
  RandomTensor(const RandomTensor&) = delete;
  RandomTensor& operator=(const RandomTensor&) = delete;

  TensorView<float> view() const { return view_; }
  // Returns all elements including padding, to check that a kernel doesn't write there.
  const std::vector<float>& memory() const { return memory_; }

 private:
  std::vector<float> memory_;
  TensorView<float> view_;
};

}  // namespace tp::reference
