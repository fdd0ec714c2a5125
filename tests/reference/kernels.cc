#include "tests/reference/kernels.h"

#include <algorithm>
#include <cmath>
#include <numbers>

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
    for (std::size_t first = 0; first < x.columns; first += gain.size()) {
      double squares = 0.0;
      for (std::size_t i = 0; i < gain.size(); ++i) squares += x(t, first + i) * x(t, first + i);
      const double rms = std::sqrt(squares / static_cast<double>(gain.size()) + eps);
      for (std::size_t i = 0; i < gain.size(); ++i) y(t, first + i) = x(t, first + i) / rms * gain[i];
    }
  }
  return y;
}

Matrix layer_norm(const Matrix& x, std::span<const double> gain, std::span<const double> bias, double eps) {
  Matrix centred = x;
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t first = 0; first < x.columns; first += gain.size()) {
      double mean = 0.0;
      for (std::size_t i = 0; i < gain.size(); ++i)
        mean += x(t, first + i) / static_cast<double>(gain.size());
      for (std::size_t i = 0; i < gain.size(); ++i) centred(t, first + i) -= mean;
    }
  }
  Matrix y = rms_norm(centred, gain, eps);
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t i = 0; i < x.columns; ++i) y(t, i) += bias[i % bias.size()];
  }
  return y;
}

double activated(kernels::Activation activation, double x) {
  switch (activation) {
    case kernels::Activation::silu:
      return x / (1.0 + std::exp(-x));
    case kernels::Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case kernels::Activation::gelu_tanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * std::pow(x, 3.0))));
    case kernels::Activation::relu_squared:
      return std::pow(std::max(x, 0.0), 2.0);
    case kernels::Activation::clamped_swiglu:
      return std::min(x, 7.0) / (1.0 + std::exp(-1.702 * std::min(x, 7.0)));
    case kernels::Activation::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case kernels::Activation::relu:
      break;
  }
  return std::max(x, 0.0);
}

Matrix activate(kernels::Activation activation, const Matrix& x) {
  Matrix y = x;
  for (double& value : y.values) value = activated(activation, value);
  return y;
}

Matrix xielu(const kernels::Xielu& function, const Matrix& x) {
  Matrix y = x;
  for (double& value : y.values) {
    const double curve =
        value > 0
            ? function.positive * value * value
            : function.negative * (std::expm1(std::min(value, static_cast<double>(function.eps))) - value);
    value = curve + function.linear * value;
  }
  return y;
}

// Returns the factor that multiplies the activated gate.
double gated(kernels::Activation activation, double up) {
  return activation == kernels::Activation::clamped_swiglu ? std::clamp(up, -7.0, 7.0) + 1.0 : up;
}

Matrix activate_and_multiply(kernels::Activation activation, const Matrix& gate_up) {
  const std::size_t size = gate_up.columns / 2;
  Matrix y(gate_up.rows, size);
  for (std::size_t t = 0; t < y.rows; ++t) {
    for (std::size_t i = 0; i < size; ++i)
      y(t, i) = activated(activation, gate_up(t, i)) * gated(activation, gate_up(t, size + i));
  }
  return y;
}

Matrix softcap(double cap, const Matrix& x) {
  Matrix y = x;
  for (double& value : y.values) value = cap * std::tanh(value / cap);
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

Matrix rotate(const Matrix& x, std::size_t head_dim, const Matrix& angles, double magnitude) {
  const std::size_t half = angles.columns;
  Matrix y = x;
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t first = 0; first < x.columns; first += head_dim) {
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

Matrix attention(const Matrix& query, const Matrix& key, const Matrix& value,
                 std::span<const std::size_t> kv_of_head, std::size_t key_dim, const Pattern& pattern,
                 double scale) {
  const std::size_t heads = kv_of_head.size();
  const std::size_t length = key.rows;
  const std::size_t value_dim = value.columns / (key.columns / key_dim);
  Matrix out(query.rows, heads * value_dim);
  for (std::size_t token = 0; token < query.rows; ++token) {
    const std::size_t position = length - query.rows + token;
    for (std::size_t head = 0; head < heads; ++head) {
      std::vector<double> weights(length, 0.0);
      double sum = pattern.sinks.empty() ? 0.0 : std::exp(static_cast<double>(pattern.sinks[head]));
      for (std::size_t other = 0; other < length; ++other) {
        if (!pattern.sees(position, other)) continue;
        double score = 0.0;
        for (std::size_t d = 0; d < key_dim; ++d)
          score += query(token, head * key_dim + d) * key(other, kv_of_head[head] * key_dim + d);
        score *= scale;
        if (pattern.softcap != 0.0) score = pattern.softcap * std::tanh(score / pattern.softcap);
        if (!pattern.alibi_slopes.empty()) {
          score += pattern.alibi_slopes[head] * (static_cast<double>(other) - static_cast<double>(position));
        }
        weights[other] = std::exp(score);  // double precision has room for scores of hundreds
        sum += weights[other];
      }
      for (std::size_t d = 0; d < value_dim; ++d) {
        double mixed = 0.0;
        for (std::size_t other = 0; other < length; ++other) {
          if (weights[other] != 0.0)
            mixed += weights[other] / sum * value(other, kv_of_head[head] * value_dim + d);
        }
        out(token, head * value_dim + d) = mixed;
      }
    }
  }
  return out;
}

}  // namespace tp::reference
