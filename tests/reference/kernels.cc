#include "tests/reference/kernels.h"

#include <algorithm>
#include <cmath>

namespace tp::reference {

Matrix matmul(const Matrix& x, const Matrix& weight) {
  Matrix y(x.rows, weight.rows);
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t o = 0; o < weight.rows; ++o) {
      double sum = 0.0;
      for (std::size_t i = 0; i < x.columns; ++i) sum += x(t, i) * weight(o, i);
      y(t, o) = sum;
    }
  }
  return y;
}

Matrix rms_norm(const Matrix& x, std::span<const double> gain, double eps) {
  Matrix y(x.rows, x.columns);
  for (std::size_t t = 0; t < x.rows; ++t) {
    double squares = 0.0;
    for (std::size_t i = 0; i < x.columns; ++i) squares += x(t, i) * x(t, i);
    const double rms = std::sqrt(squares / static_cast<double>(x.columns) + eps);
    for (std::size_t i = 0; i < x.columns; ++i) y(t, i) = x(t, i) / rms * gain[i];
  }
  return y;
}

Matrix silu_multiply(const Matrix& gate_up) {
  const std::size_t size = gate_up.columns / 2;
  Matrix y(gate_up.rows, size);
  for (std::size_t t = 0; t < y.rows; ++t) {
    for (std::size_t i = 0; i < size; ++i) {
      const double gate = gate_up(t, i);
      y(t, i) = gate / (1.0 + std::exp(-gate)) * gate_up(t, size + i);
    }
  }
  return y;
}

void add(const Matrix& x, Matrix& y) {
  for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += x.values.at(i);
}

void add_bias(std::span<const double> bias, Matrix& y) {
  for (std::size_t t = 0; t < y.rows; ++t) {
    for (std::size_t i = 0; i < y.columns; ++i) y(t, i) += bias[i];
  }
}

Matrix rotate(const Matrix& x, const Matrix& angles, double magnitude) {
  const std::size_t half = angles.columns;
  Matrix y = x;
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t first = 0; first < x.columns; first += 2 * half) {
      for (std::size_t i = 0; i < half; ++i) {
        const double cosine = magnitude * std::cos(angles(t, i));
        const double sine = magnitude * std::sin(angles(t, i));
        const double a = x(t, first + i);
        const double b = x(t, first + half + i);
        y(t, first + i) = a * cosine - b * sine;
        y(t, first + half + i) = b * cosine + a * sine;
      }
    }
  }
  return y;
}

namespace {

// One token and head: softmax over the positions [begin, end), then the weighted sum of values.
void attend(const Matrix& query, const Matrix& key, const Matrix& value, std::size_t token, std::size_t head,
            std::size_t kv_head, std::size_t head_dim, std::size_t begin, std::size_t end, double scale,
            Matrix& out) {
  std::vector<double> weights;
  for (std::size_t position = begin; position < end; ++position) {
    double score = 0.0;
    for (std::size_t d = 0; d < head_dim; ++d)
      score += query(token, head * head_dim + d) * key(position, kv_head * head_dim + d);
    weights.push_back(score * scale);
  }
  const double highest = *std::max_element(weights.begin(), weights.end());
  double sum = 0.0;
  for (double& weight : weights) {
    weight = std::exp(weight - highest);
    sum += weight;
  }
  for (std::size_t d = 0; d < head_dim; ++d) {
    double mixed = 0.0;
    for (std::size_t position = begin; position < end; ++position)
      mixed += weights[position - begin] / sum * value(position, kv_head * head_dim + d);
    out(token, head * head_dim + d) = mixed;
  }
}

}  // namespace

Matrix attention(const Matrix& query, const Matrix& key, const Matrix& value,
                 std::span<const std::size_t> kv_of_head, std::size_t head_dim, Pattern pattern,
                 double scale) {
  Matrix out(query.rows, query.columns);
  const std::size_t length = key.rows;
  for (std::size_t token = 0; token < query.rows; ++token) {
    const std::size_t position = length - query.rows + token;
    const std::size_t end = pattern.causal ? position + 1 : length;
    const std::size_t begin =
        pattern.window.has_value() && *pattern.window < position + 1 ? position + 1 - *pattern.window : 0;
    for (std::size_t head = 0; head < kv_of_head.size(); ++head)
      attend(query, key, value, token, head, kv_of_head[head], head_dim, begin, end, scale, out);
  }
  return out;
}

}  // namespace tp::reference
