#include "model/kernels/rope.h"

#include "model/kernels/simd/simd.h"
#include "tp/internal/threads.h"

#include <cassert>

namespace tp::kernels {

void rotate(TensorView<float> x, std::size_t head_dim, TensorView<const float> cosine,
            TensorView<const float> sine) {
  const std::size_t half = cosine.columns();
  assert(x.columns() % head_dim == 0 && 2 * half <= head_dim && cosine.rows() == x.rows() &&
         sine.rows() == x.rows());
  if (half == 0 || x.empty()) return;
  const std::size_t heads = x.columns() / head_dim;
#pragma omp parallel for schedule(static) if (x.rows() > 1 && x.size() >= kMinParallelWork)
  for (std::size_t token = 0; token < x.rows(); ++token) {
    for (std::size_t head = 0; head < heads; ++head) {
      simd().rotate_halves(x.row(token) + head * head_dim, cosine.row(token), sine.row(token), half);
    }
  }
}

void rotate_pairs(TensorView<float> x, std::size_t head_dim, TensorView<const float> cosine,
                  TensorView<const float> sine) {
  const std::size_t half = cosine.columns();
  assert(x.columns() % head_dim == 0 && 2 * half <= head_dim && cosine.rows() == x.rows() &&
         sine.rows() == x.rows());
  if (x.empty()) return;
#pragma omp parallel for schedule(static) if (x.rows() > 1 && x.size() >= kMinParallelWork)
  for (std::size_t token = 0; token < x.rows(); ++token) {
    for (std::size_t head = 0; head < x.columns(); head += head_dim) {
      for (std::size_t i = 0; i < half; ++i) {
        float* elements = x.row(token) + head + 2 * i;
        const float c = cosine(token, i);
        const float s = sine(token, i);
        const float first = elements[0];
        elements[0] = first * c - elements[1] * s;
        elements[1] = elements[1] * c + first * s;
      }
    }
  }
}

}  // namespace tp::kernels
