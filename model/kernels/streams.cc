#include "model/kernels/streams.h"

#include "tp/internal/threads.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

namespace tp::kernels {
namespace {

// Elements of a stream that are mixed at a time: all streams' old values fit into the first-level cache.
constexpr std::size_t kTile = 128;

void mix(const float* coefficients, std::size_t streams, std::size_t size, std::size_t tile, float* x) {
  std::array<std::array<float, kTile>, kMaxStreams> old;
  for (std::size_t j = 0; j < streams; ++j) std::copy_n(x + j * size, tile, old[j].data());
  for (std::size_t k = 0; k < streams; ++k) {
    std::array<float, kTile> sum{};
    for (std::size_t j = 0; j < streams; ++j) {
      const float coefficient = coefficients[k * streams + j];
      for (std::size_t i = 0; i < tile; ++i) sum[i] += coefficient * old[j][i];
    }
    float* const to = x + k * size;
    for (std::size_t i = 0; i < tile; ++i) to[i] = old[k][i] + sum[i];
  }
}

// The new streams k are the sums over j of matrix[j, k] * x[j] + weights[k] * y.
void combine(const float* matrix, const float* weights, std::size_t streams, std::size_t size,
             std::size_t tile, const float* y, float* x) {
  std::array<std::array<float, kTile>, kMaxStreams> old;
  for (std::size_t j = 0; j < streams; ++j) std::copy_n(x + j * size, tile, old[j].data());
  for (std::size_t k = 0; k < streams; ++k) {
    std::array<float, kTile> sum{};
    for (std::size_t i = 0; i < tile; ++i) sum[i] = weights[k] * y[i];
    for (std::size_t j = 0; j < streams; ++j) {
      const float coefficient = matrix[j * streams + k];
      for (std::size_t i = 0; i < tile; ++i) sum[i] += coefficient * old[j][i];
    }
    std::copy_n(sum.data(), tile, x + k * size);
  }
}

// Divides `count` numbers, `stride` apart, by their sum plus eps.
void divide_by_sum(float* x, std::size_t count, std::size_t stride, float eps) {
  float sum = eps;
  for (std::size_t i = 0; i < count; ++i) sum += x[i * stride];
  for (std::size_t i = 0; i < count; ++i) x[i * stride] /= sum;
}

void softmax(std::span<float> x) {
  const float highest = *std::ranges::max_element(x);
  float sum = 0.0F;
  for (float& element : x) sum += element = std::exp(element - highest);
  for (float& element : x) element /= sum;
}

float mean_square(const float* x, std::size_t size) {
  float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < size; ++i) squares += x[i] * x[i];
  return squares / static_cast<float>(size);
}

float product(const float* a, const float* b, std::size_t size) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void mix_streams(TensorView<const float> coefficients, std::size_t size, TensorView<float> streams) {
  if (streams.empty()) return;
  const std::size_t count = streams.columns() / size;
  assert(count * count == coefficients.columns() && count <= kMaxStreams);
  assert(count * size == streams.columns() && coefficients.rows() == streams.rows());
  for_thread_parts(streams.rows(), count * streams.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      for (std::size_t i = 0; i < size; i += kTile)
        mix(coefficients.row(token), count, size, std::min(kTile, size - i), streams.row(token) + i);
    }
  });
}

void correct_streams(TensorView<const float> coefficients, TensorView<const float> y,
                     TensorView<float> streams) {
  if (streams.empty()) return;
  const std::size_t count = coefficients.columns();
  const std::size_t size = y.columns();
  assert(streams.columns() == count * size && y.rows() == streams.rows());
  for_thread_parts(streams.rows(), streams.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      const float* const result = y.row(token);
      float* const first = streams.row(token);
      for (std::size_t k = count; k-- > 0;) {  // the first stream is needed until the end
        const float factor = 1.0F + coefficients(token, k);
        float* const stream = first + k * size;
        for (std::size_t i = 0; i < size; ++i) stream[i] += factor * (result[i] - first[i]);
      }
    }
  });
}

void match_magnitude(TensorView<const float> target, float min, TensorView<float> x) {
  assert(target.rows() == x.rows() && target.columns() == x.columns());
  if (x.empty()) return;
  for_thread_parts(x.rows(), x.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      float* const row = x.row(token);
      const float wanted = std::sqrt(mean_square(target.row(token), x.columns()));
      const float factor = wanted / std::sqrt(std::max(mean_square(row, x.columns()), min));
      for (std::size_t i = 0; i < x.columns(); ++i) row[i] *= factor;
    }
  });
}

void normalize_weights(TensorView<const float> streams, float eps, std::span<const float> scale,
                       std::span<const float> base, TensorView<float> weights) {
  assert(streams.rows() == weights.rows() && scale.size() == weights.columns() &&
         base.size() == weights.columns());
  if (weights.empty()) return;
  for_thread_parts(streams.rows(), streams.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      const float inverse = 1.0F / std::sqrt(mean_square(streams.row(token), streams.columns()) + eps);
      float* const row = weights.row(token);
      for (std::size_t i = 0; i < scale.size(); ++i) row[i] = row[i] * inverse * scale[i] + base[i];
    }
  });
}

void attend_to_streams(TensorView<const float> streams, std::span<const float> weight, float eps,
                       TensorView<float> weights) {
  if (weights.empty()) return;
  const std::size_t size = weight.size();
  assert(streams.columns() == weights.columns() * size && streams.rows() == weights.rows());
  for_thread_parts(streams.rows(), streams.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      const std::span<float> scores(weights.row(token), weights.columns());
      for (std::size_t s = 0; s < scores.size(); ++s) {
        const float* const x = streams.row(token) + s * size;
        scores[s] = product(weight.data(), x, size) / std::sqrt(mean_square(x, size) + eps);
      }
      softmax(scores);
    }
  });
}

void sinkhorn(std::size_t size, std::size_t steps, float eps, TensorView<float> matrices) {
  assert(matrices.columns() == size * size && steps > 0);
  if (matrices.empty()) return;
  for_thread_parts(matrices.rows(), steps * matrices.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      float* const matrix = matrices.row(token);
      for (std::size_t j = 0; j < size; ++j) {
        const std::span<float> row(matrix + j * size, size);
        softmax(row);
        for (float& element : row) element += eps;
      }
      for (std::size_t step = 0; step < steps; ++step) {
        for (std::size_t j = 0; j < size && step > 0; ++j) divide_by_sum(matrix + j * size, size, 1, eps);
        for (std::size_t k = 0; k < size; ++k) divide_by_sum(matrix + k, size, size, eps);
      }
    }
  });
}

void combine_streams(TensorView<const float> matrices, TensorView<const float> weights,
                     TensorView<const float> y, TensorView<float> streams) {
  if (streams.empty()) return;
  const std::size_t count = weights.columns();
  const std::size_t size = y.columns();
  assert(count <= kMaxStreams && matrices.columns() == count * count && streams.columns() == count * size);
  for_thread_parts(streams.rows(), count * streams.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      for (std::size_t i = 0; i < size; i += kTile)
        combine(matrices.row(token), weights.row(token), count, size, std::min(kTile, size - i),
                y.row(token) + i, streams.row(token) + i);
    }
  });
}

void sigmoid_gates(float factor, float addend, TensorView<float> x) {
  if (x.empty()) return;
  for (std::size_t token = 0; token < x.rows(); ++token) {
    for (float& element : std::span(x.row(token), x.columns()))
      element = factor / (1.0F + std::exp(-element)) + addend;
  }
}

void sum_streams(TensorView<const float> weights, TensorView<const float> streams, TensorView<float> out) {
  if (out.empty()) return;
  const std::size_t size = out.columns();
  assert(streams.columns() == weights.columns() * size && streams.rows() == out.rows());
  for_thread_parts(streams.rows(), streams.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      float* const sum = out.row(token);
      std::fill_n(sum, size, 0.0F);
      for (std::size_t s = 0; s < weights.columns(); ++s) {
        const float weight = weights(token, s);
        const float* const stream = streams.row(token) + s * size;
        for (std::size_t i = 0; i < size; ++i) sum[i] += weight * stream[i];
      }
    }
  });
}

void gate_by_agreement(TensorView<const float> keys, TensorView<const float> queries,
                       TensorView<const float> value, bool zero_has_sign, TensorView<float> out) {
  if (out.empty()) return;
  const std::size_t size = value.columns();
  assert(keys.columns() == out.columns() && queries.columns() == out.columns());
  for_thread_parts(out.rows(), 2 * out.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      for (std::size_t first = 0; first < out.columns(); first += size) {
        const float d = product(keys.row(token) + first, queries.row(token) + first, size) /
                        std::sqrt(static_cast<float>(size));
        const bool is_zero = d == 0.0F && !zero_has_sign;
        const float root = is_zero ? 0.0F : std::copysign(std::sqrt(std::max(std::abs(d), 1e-6F)), d);
        const float gate = 1.0F / (1.0F + std::exp(-root));
        for (std::size_t i = 0; i < size; ++i) out.row(token)[first + i] = gate * value.row(token)[i];
      }
    }
  });
}

void copy_rows(TensorView<const float> from, TensorView<float> to) {
  if (to.empty()) return;
  for_thread_parts(to.rows(), to.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) std::copy_n(from.row(row), to.columns(), to.row(row));
  });
}

void mean_of_streams(TensorView<const float> streams, TensorView<float> out) {
  if (out.empty()) return;
  const std::size_t size = out.columns();
  const std::size_t count = streams.columns() / size;
  assert(streams.columns() == count * size && streams.rows() == out.rows());
  const float part = 1.0F / static_cast<float>(count);
  for_thread_parts(streams.rows(), streams.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      float* const sum = out.row(token);
      std::copy_n(streams.row(token), size, sum);
      for (std::size_t s = 1; s < count; ++s) {
        const float* const stream = streams.row(token) + s * size;
        for (std::size_t i = 0; i < size; ++i) sum[i] += stream[i];
      }
      for (std::size_t i = 0; i < size; ++i) sum[i] *= part;
    }
  });
}

void add_to_streams(TensorView<const float> weights, TensorView<const float> y, TensorView<float> streams) {
  if (streams.empty()) return;
  const std::size_t size = y.columns();
  assert(streams.columns() == weights.columns() * size && streams.rows() == y.rows());
  for_thread_parts(streams.rows(), streams.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      const float* const addend = y.row(token);
      for (std::size_t s = 0; s < weights.columns(); ++s) {
        const float weight = weights(token, s);
        float* const stream = streams.row(token) + s * size;
        for (std::size_t i = 0; i < size; ++i) stream[i] += weight * addend[i];
      }
    }
  });
}

}  // namespace tp::kernels
