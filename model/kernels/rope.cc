#include "model/kernels/rope.h"

#include "model/kernels/simd/simd.h"
#include "model/threads.h"

#include <cassert>

namespace tp::kernels {

void rotate(TensorView<float> x, TensorView<const float> cosine, TensorView<const float> sine) {
  const std::size_t half = cosine.columns();
  assert(x.columns() % (2 * half) == 0 && cosine.rows() == x.rows() && sine.rows() == x.rows());
  const std::size_t heads = x.columns() / (2 * half);
#pragma omp parallel for schedule(static) if (x.rows() > 1 && x.size() >= kWorthThreads)
  for (std::size_t token = 0; token < x.rows(); ++token) {
    for (std::size_t head = 0; head < heads; ++head) {
      simd().rotate_halves(x.row(token) + head * 2 * half, cosine.row(token), sine.row(token), half);
    }
  }
}

void rotate_pairs(TensorView<float> x, TensorView<const float> cosine, TensorView<const float> sine) {
  const std::size_t half = cosine.columns();
  assert(x.columns() % (2 * half) == 0 && cosine.rows() == x.rows() && sine.rows() == x.rows());
#pragma omp parallel for schedule(static) if (x.rows() > 1 && x.size() >= kWorthThreads)
  for (std::size_t token = 0; token < x.rows(); ++token) {
    for (std::size_t pair = 0; pair < x.columns() / 2; ++pair) {
      float* elements = x.row(token) + 2 * pair;
      const float c = cosine(token, pair % half);
      const float s = sine(token, pair % half);
      const float first = elements[0];
      elements[0] = first * c - elements[1] * s;
      elements[1] = elements[1] * c + first * s;
    }
  }
}

}  // namespace tp::kernels
