// Inner loops of attention by random features, for simd_kernels.cc.
#pragma once

#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector/exp.h"
#include "model/kernels/simd/vector/vector.h"

#include <math.h>

namespace tp::kernels {
namespace {

// Added to features, so that their sum is never 0.
constexpr float kMinFeature = 1e-30F;

float largest_of(const float* x, std::size_t size) {
  Vector highest = broadcast(-INFINITY);
  for (std::size_t i = 0; i < size; i += kLanes) highest = larger(highest, load(x + i));
  return largest_element(highest);
}

void exponentials(float* x, std::size_t size, float less) {
  for (std::size_t i = 0; i < size; i += kLanes) {
    Vector features = load(x + i);
    for (FloatRegister& part : features.part) part = fast_exp(part - less) + kMinFeature;
    store(features, x + i);
  }
}

// out = sums of the state's rows, weighted with features. Computes several heads at a time, with several
// partial sums each, because additions to one sum would wait for each other. The order of addition is the
// same for any number of heads.
template <std::size_t kHeads, std::size_t kSums>
void read_column(const FavorStep& step, std::size_t first_head, std::size_t column) {
  Vector sums[kHeads][kSums] = {};
  const float* const state = step.state + column;
  for (std::size_t i = 0; i < step.features; i += kSums) {
    for (std::size_t s = 0; s < kSums && i + s < step.features; ++s) {
      const Vector row = load(state + (i + s) * step.columns);
      for (std::size_t h = 0; h < kHeads; ++h)
        multiply_add(row, step.query[(first_head + h) * step.query_stride + i + s], sums[h][s]);
    }
  }
  for (std::size_t h = 0; h < kHeads; ++h) {
    for (std::size_t s = 1; s < kSums; ++s) sums[h][0] += sums[h][s];
    store(sums[h][0], step.out + (first_head + h) * step.columns + column);
  }
}

void favor_step(const FavorStep& step) {
  constexpr std::size_t kSums = 4;
  for (std::size_t column = 0; column < step.columns; column += kLanes) {
    const Vector value = load(step.value + column);
    for (std::size_t i = 0; i < step.features; ++i) {
      float* const place = step.state + i * step.columns + column;
      Vector row = load(place);
      if (step.kept != 1.0F) {
        for (FloatRegister& part : row.part) part *= step.kept;
      }
      multiply_add(value, step.key[i], row);
      store(row, place);
    }
    std::size_t head = 0;
    for (; head + 2 <= step.heads; head += 2) read_column<2, kSums>(step, head, column);
    for (; head < step.heads; ++head) read_column<1, kSums>(step, head, column);
  }
}

}  // namespace
}  // namespace tp::kernels
