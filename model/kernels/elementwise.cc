#include "model/kernels/elementwise.h"

#include "model/kernels/simd/simd.h"
#include "model/threads.h"

#include <cassert>

namespace tp::kernels {
namespace {

template <class Body>
void for_rows(std::size_t rows, std::size_t columns, const Body& body) {
#pragma omp parallel for schedule(static) if (rows > 1 && rows * columns >= kWorthThreads)
  for (std::size_t row = 0; row < rows; ++row) body(row);
}

}  // namespace

void rms_norm(TensorView<const float> x, std::span<const float> gain, float eps, TensorView<float> out) {
  assert(x.columns() == gain.size() && out.columns() == gain.size() && x.rows() == out.rows());
  for_rows(x.rows(), x.columns(), [&](std::size_t row) {
    simd().rms_norm(x.row(row), gain.data(), gain.size(), eps, out.row(row));
  });
}

void silu_multiply(TensorView<const float> gate_up, TensorView<float> out) {
  assert(gate_up.columns() == 2 * out.columns() && gate_up.rows() == out.rows());
  for_rows(out.rows(), out.columns(), [&](std::size_t row) {
    const float* gate = gate_up.row(row);
    simd().silu_multiply(gate, gate + out.columns(), out.columns(), out.row(row));
  });
}

void add(TensorView<const float> x, TensorView<float> y) {
  assert(x.columns() == y.columns() && x.rows() == y.rows());
  for_rows(x.rows(), x.columns(), [&](std::size_t row) { simd().add(x.row(row), x.columns(), y.row(row)); });
}

void add_bias(std::span<const float> bias, TensorView<float> y) {
  assert(bias.size() == y.columns());
  for_rows(y.rows(), y.columns(), [&](std::size_t row) { simd().add(bias.data(), bias.size(), y.row(row)); });
}

}  // namespace tp::kernels
