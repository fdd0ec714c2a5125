// Compiled once for every instruction set; see simd.h for what may not be used here.

#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector.h"

#include <math.h>

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2 or avx512"
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

// exp(x) to about 2 units in the last place, in a form that loops over it vectorize: 2^n times a polynomial
// in the remainder, |r| <= ln(2)/2 (coefficients: Taylor's, adjusted as in Cephes' expf). 0 below -87.3,
// saturates above 88.
inline float fast_exp(float x) {
  const float clamped = x < -87.3F ? -87.3F : (x > 88.0F ? 88.0F : x);
  const float scaled = clamped * 1.44269504088896341F;
  // Rounds to nearest by adding 1.5 * 2^23, whose unit in the last place is 1.
  const float shifted = scaled + 12582912.0F;
  const float n = shifted - 12582912.0F;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  union {
    std::int32_t bits;
    float value;
  } power;
  power.bits = (static_cast<std::int32_t>(n) + 127) << 23;
  return x < -87.3F ? 0.0F : p * power.value;
}

// The sum of `sum`'s elements and of a[i] * b[i] for the `size` < 16 elements that fill no vector.
inline float finish(const Vector& sum, const float* a, const float* b, std::size_t size) {
  float total = 0.0F;
  for (std::size_t i = 0; i < size; ++i) total += a[i] * b[i];
  float lanes[kLanes];
  store(sum, lanes);
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0] + total;
}

// This far ahead of its use a cache line of weights is fetched: behind the end of a row, the next one's
// begin.
constexpr std::size_t kPrefetchFloats = 256;

// One pass over a weight row serves `Tokens` tokens.
template <std::size_t Tokens>
inline void dot_row(const float* row, std::size_t in_features, const float* x, std::size_t x_stride, float* y,
                    std::size_t y_stride) {
  // A single token needs several sums in flight to keep the multipliers busy.
  constexpr std::size_t kChains = Tokens == 1 ? 4 / kParts + (kParts == 4) : 1;
  Vector sums[Tokens][kChains] = {};
  std::size_t i = 0;
  for (; i + 16 * kChains <= in_features; i += 16 * kChains) {
    for (std::size_t c = 0; c < kChains; ++c) {
      const Vector w = load(row + i + 16 * c);
      __builtin_prefetch(row + i + 16 * c + kPrefetchFloats);
      for (std::size_t t = 0; t < Tokens; ++t) {
        multiply_add(w, load(x + t * x_stride + i + 16 * c), sums[t][c]);
      }
    }
  }
  for (; i + 16 <= in_features; i += 16) {
    const Vector w = load(row + i);
    for (std::size_t t = 0; t < Tokens; ++t) multiply_add(w, load(x + t * x_stride + i), sums[t][0]);
  }
  for (std::size_t t = 0; t < Tokens; ++t) {
    Vector sum = sums[t][0];
    for (std::size_t c = 1; c < kChains; ++c) sum += sums[t][c];
    y[t * y_stride] = finish(sum, row + i, x + t * x_stride + i, in_features - i);
  }
}

void matvec(const float* weight, std::size_t w_stride, std::size_t out_features, std::size_t in_features,
            const float* x, std::size_t x_stride, std::size_t tokens, float* y, std::size_t y_stride) {
  for (std::size_t o = 0; o < out_features; ++o) {
    const float* row = weight + o * w_stride;
    std::size_t t = 0;
    for (; t + 4 <= tokens; t += 4) {
      dot_row<4>(row, in_features, x + t * x_stride, x_stride, y + t * y_stride + o, y_stride);
    }
    for (; t < tokens; ++t) {
      dot_row<1>(row, in_features, x + t * x_stride, x_stride, y + t * y_stride + o, y_stride);
    }
  }
}

void rms_norm(const float* x, const float* gain, std::size_t size, float eps, float* out) {
  float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
  for (std::size_t i = 0; i < size; ++i) squares += x[i] * x[i];
  const float scale = 1.0F / sqrtf(squares / static_cast<float>(size) + eps);
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) out[i] = x[i] * scale * gain[i];
}

void silu_multiply(const float* gate, const float* up, std::size_t size, float* out) {
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) out[i] = gate[i] / (1.0F + fast_exp(-gate[i])) * up[i];
}

void add(const float* x, std::size_t size, float* y) {
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) y[i] += x[i];
}

void rotate_halves(float* x, const float* cosine, const float* sine, std::size_t half) {
#pragma omp simd
  for (std::size_t i = 0; i < half; ++i) {
    const float first = x[i];
    const float second = x[i + half];
    x[i] = first * cosine[i] - second * sine[i];
    x[i + half] = second * cosine[i] + first * sine[i];
  }
}

// scores[j] = query . key[j], with keys as columns.
void block_scores(const float* query, const float* keys, std::size_t head_dim, std::size_t block_size,
                  float scale, float* scores) {
#pragma omp simd
  for (std::size_t j = 0; j < block_size; ++j) scores[j] = 0.0F;
  for (std::size_t d = 0; d < head_dim; ++d) {
    const float q = query[d] * scale;
    const float* row = keys + d * block_size;
#pragma omp simd
    for (std::size_t j = 0; j < block_size; ++j) scores[j] += q * row[j];
  }
}

// Tiled attention with an online softmax: a row keeps its running maximum m and sum of exponentials l, and
// rescales what it has when a block raises m. Memory does not grow with the number of blocks. Source: Dao et
// al., FlashAttention, 2022, algorithm 1; Milakov and Gimelshein, Online normalizer, 2018.
void attention(const AttentionTile& tile) {
  float* scores = tile.scratch;
  float* maxima = tile.scratch + tile.rows * tile.block_size;
  float* sums = maxima + tile.rows;
  for (std::size_t r = 0; r < tile.rows; ++r) {
    maxima[r] = -INFINITY;
    sums[r] = 0.0F;
    for (std::size_t d = 0; d < tile.head_dim; ++d) tile.out[r * tile.head_dim + d] = 0.0F;
  }
  for (std::size_t b = 0; b < tile.num_blocks; ++b) {
    const std::size_t start = tile.first_position + b * tile.block_size;
    const float* values = tile.value_blocks[b];
    for (std::size_t r = 0; r < tile.rows; ++r) {
      const std::size_t end = tile.visible_end[r];
      const std::size_t begin = tile.visible_begin[r];
      if (end <= start || begin >= start + tile.block_size) continue;
      const std::size_t from = begin > start ? begin - start : 0;
      const std::size_t to = end - start < tile.block_size ? end - start : tile.block_size;

      float* row = scores + r * tile.block_size;
      block_scores(tile.query + r * tile.head_dim, tile.key_blocks[b], tile.head_dim, tile.block_size,
                   tile.scale, row);
      float highest = maxima[r];
      for (std::size_t j = from; j < to; ++j) highest = row[j] > highest ? row[j] : highest;
      const float rescale = maxima[r] == highest ? 1.0F : fast_exp(maxima[r] - highest);
      maxima[r] = highest;
      float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
      for (std::size_t j = from; j < to; ++j) {
        row[j] = fast_exp(row[j] - highest);
        sum += row[j];
      }
      sums[r] = sums[r] * rescale + sum;

      float* out = tile.out + r * tile.head_dim;
#pragma omp simd
      for (std::size_t d = 0; d < tile.head_dim; ++d) out[d] *= rescale;
      for (std::size_t j = from; j < to; ++j) {
        const float p = row[j];
        const float* value = values + j * tile.head_dim;
#pragma omp simd
        for (std::size_t d = 0; d < tile.head_dim; ++d) out[d] += p * value[d];
      }
    }
  }
  for (std::size_t r = 0; r < tile.rows; ++r) {
    const float inverse = 1.0F / sums[r];
    float* out = tile.out + r * tile.head_dim;
#pragma omp simd
    for (std::size_t d = 0; d < tile.head_dim; ++d) out[d] *= inverse;
  }
}

}  // namespace

extern const SimdKernels kKernels;
const SimdKernels kKernels = {matvec, rms_norm, silu_multiply, add, rotate_halves, attention};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
