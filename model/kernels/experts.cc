#include "model/kernels/experts.h"

#include "model/kernels/simd/simd.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>

namespace tp::kernels {
namespace {

template <class Body>
void for_rows(TensorView<const float> x, const Body& body) {
  if (x.empty()) return;
  for_thread_parts(x.rows(), x.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(row);
  });
}

}  // namespace

void router_logits(TensorView<const float> x, TensorView<const float> weight, TensorView<float> logits) {
  assert(x.columns() == weight.columns() && logits.rows() == x.rows() && logits.columns() == weight.rows());
  if (x.empty()) return;
  const std::size_t experts = weight.rows();
  for_thread_parts(x.rows() * experts, x.rows() * weight.size(), [&](std::size_t begin, std::size_t end) {
    while (begin < end) {
      const std::size_t token = begin / experts;
      const std::size_t expert = begin % experts;
      const std::size_t count = std::min(experts - expert, end - begin);
      simd().matvec(weight.row(expert), weight.stride(), count, weight.columns(), x.row(token),
                    logits.row(token) + expert);
      begin += count;
    }
  });
}

void gather_rows(TensorView<const float> x, std::span<const std::size_t> rows, TensorView<float> out) {
  assert(out.rows() == rows.size() && out.columns() == x.columns());
  for_rows(out, [&](std::size_t i) { std::copy_n(x.row(rows[i]), x.columns(), out.row(i)); });
}

void scatter_rows(TensorView<const float> x, std::span<const std::size_t> rows, TensorView<float> out) {
  assert(x.rows() == rows.size() && out.columns() == x.columns());
  if (x.empty()) return;
  for_rows(TensorView<const float>(x),
           [&](std::size_t i) { std::copy_n(x.row(i), x.columns(), out.row(rows[i])); });
}

void scale_rows(std::span<const float> factors, TensorView<float> x) {
  assert(factors.size() == x.rows());
  for_rows(x, [&](std::size_t row) {
    for (std::size_t i = 0; i < x.columns(); ++i) x(row, i) *= factors[row];
  });
}

}  // namespace tp::kernels
