#include "model/kernels/matmul.h"

#include "model/kernels/simd/simd.h"
#include "model/threads.h"

#include <cassert>

#include <cblas.h>

namespace tp::kernels {
namespace {

// Up to here a pass over the weights costs memory bandwidth only, so that a product of one's own, which reads
// them once in order, beats a general one, which copies them into panels.
constexpr std::size_t kFewTokens = 8;

}  // namespace

void matmul(TensorView<const float> x, TensorView<const float> weight, TensorView<float> y) {
  assert(x.columns() == weight.columns() && x.rows() == y.rows() && weight.rows() == y.columns());
  if (y.empty()) return;
  // A rank may own no input feature (more ranks than columns): its addend is zero, and sgemm refuses a width
  // of 0.
  if (x.rows() <= kFewTokens || x.columns() == 0) {
    for_thread_parts(weight.rows(), weight.size() * x.rows(), [&](std::size_t begin, std::size_t end) {
      simd().matvec(weight.row(begin), weight.stride(), end - begin, weight.columns(), x.data(), x.stride(),
                    x.rows(), y.data() + begin, y.stride());
    });
    return;
  }
  const auto blas_size = [](std::size_t size) { return static_cast<blasint>(size); };
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas_size(x.rows()), blas_size(weight.rows()),
              blas_size(x.columns()), 1.0F, x.data(), blas_size(x.stride()), weight.data(),
              blas_size(weight.stride()), 0.0F, y.data(), blas_size(y.stride()));
}

}  // namespace tp::kernels
