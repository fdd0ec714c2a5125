// Multiplies the elements of a cache. For attention_kernels.cc only: everything is local to the translation
// unit.
#pragma once

#include "model/kernels/simd/attention/attention_softmax.h"
#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// 16 signed bytes as floats.
inline Vector load_bytes(const unsigned char* p) {
  Vector out;
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  out.part[0] =
      __builtin_convertvector((IntRegister)_mm512_maskz_cvtepi8_epi32(0xffff, bytes), FloatRegister);
#elif defined(__AVX2__)
  for (std::size_t i = 0; i < kParts; ++i) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i));
    out.part[i] = __builtin_convertvector((IntRegister)_mm256_cvtepi8_epi32(bytes), FloatRegister);
  }
#elif defined(TP_NEON)
  IntVector numbers;
  neon_widen(vld1q_s8(reinterpret_cast<const signed char*>(p)), numbers.part);
  for (std::size_t i = 0; i < kParts; ++i)
    out.part[i] = __builtin_convertvector(numbers.part[i], FloatRegister);
#else
  for (std::size_t i = 0; i < kParts; ++i) {
    for (std::size_t j = 0; j < kLanes / kParts; ++j) {
      out.part[i][j] = static_cast<float>(static_cast<signed char>(p[i * kLanes / kParts + j]));
    }
  }
#endif
  return out;
}

// Types of caches, and how to load their elements as vectors. kStep: key elements, or positions of values,
// that are stored together. load: the kStep vectors at p.
struct F32 {
  static constexpr std::size_t kStep = 1;
  static constexpr std::size_t kBytes = kVectorBytes;  // bytes of a vector in a step
  static constexpr bool kScaled = false;
  static void load(const unsigned char* p, Vector* out) {
    out[0] = kernels::load(reinterpret_cast<const float*>(p));
  }
};

struct Bf16 {
  static constexpr std::size_t kStep = 2;
  static constexpr std::size_t kBytes = kVectorBytes;
  static constexpr bool kScaled = false;
  static void load(const unsigned char* p, Vector* out) {
    const WordVector pairs = load_words(p);
    out[0] = even_bf16(pairs);
    out[1] = odd_bf16(pairs);
  }
};

struct Int8 {
  static constexpr std::size_t kStep = 4;
  static constexpr std::size_t kBytes = kVectorBytes;
  static constexpr bool kScaled = true;
  static void load(const unsigned char* p, Vector* out) {
    const WordVector quads = load_words(p);
    for (std::size_t i = 0; i < kParts; ++i) {
      for (std::size_t s = 0; s < kStep; ++s) {
        const auto byte = (IntRegister)(quads.part[i] << (24 - 8 * s)) >> 24;
        out[s].part[i] = __builtin_convertvector(byte, FloatRegister);
      }
    }
  }
};

struct LatentInt8 {
  static constexpr std::size_t kStep = 1;
  static constexpr std::size_t kBytes = kLanes;
  static constexpr bool kScaled = true;
  static void load(const unsigned char* p, Vector* out) { out[0] = load_bytes(p); }
};

// sums[r][v] += x[r * x_stride + i] * (element i of the vectors at `data`), for i in [begin, end), both
// multiples of kStep. step_bytes and vector_bytes: distances of steps and of vectors. Meanwhile prefetches
// the data `ahead` bytes further, unless `ahead` is 0.
template <class Cache, std::size_t Rows, std::size_t Vectors>
struct Widened {
  const float* x;
  std::size_t x_stride;
  std::ptrdiff_t ahead;

  void operator()(const unsigned char* data, std::size_t step_bytes, std::size_t vector_bytes,
                  std::size_t begin, std::size_t end, Vector (&sums)[Rows][Vectors]) const {
    for (std::size_t i = begin; i < end; i += Cache::kStep) {
      const unsigned char* step = data + i / Cache::kStep * step_bytes;
      Vector elements[Vectors][Cache::kStep];
      if (ahead != 0) fetch(step + ahead, Vectors, vector_bytes);
      for (std::size_t v = 0; v < Vectors; ++v) Cache::load(step + v * vector_bytes, elements[v]);
      for (std::size_t s = 0; s < Cache::kStep; ++s) {
        for (std::size_t r = 0; r < Rows; ++r) {
          const float factor = x[r * x_stride + i + s];
          for (std::size_t v = 0; v < Vectors; ++v) multiply_add(elements[v][s], factor, sums[r][v]);
        }
      }
    }
  }
};

// Multiplies in float32. Queries and weights are not rounded.
template <class CacheType>
struct WidenedProducts {
  using Cache = CacheType;
  static constexpr bool kInIntegers = false;
  static void round_query(const AttentionTile& /*tile*/) {}
  static void round_weights(const Step& /*step*/, std::size_t /*row*/) {}
  template <std::size_t Rows, std::size_t Vectors>
  static auto query(const AttentionTile& tile, std::size_t row, std::ptrdiff_t ahead) {
    return Widened<Cache, Rows, Vectors>{tile.query + row * tile.query_stride, tile.query_stride, ahead};
  }
  template <std::size_t Rows, std::size_t Vectors>
  static auto weights(const AttentionTile& tile, std::size_t row, std::size_t column, std::ptrdiff_t ahead) {
    const std::size_t stride = tile.blocks_per_step * tile.padded_block;
    return Widened<Cache, Rows, Vectors>{tile.scores + row * stride + column, stride, ahead};
  }
};

#if defined(__AVX512BF16__)
// Like Widened, with x in pairs of bf16.
template <std::size_t Rows, std::size_t Vectors>
struct Pairs {
  const std::uint32_t* x;
  std::size_t x_stride;
  std::ptrdiff_t ahead;

  void operator()(const unsigned char* data, std::size_t step_bytes, std::size_t vector_bytes,
                  std::size_t begin, std::size_t end, Vector (&sums)[Rows][Vectors]) const {
    for (std::size_t i = begin / 2; i < end / 2; ++i) {
      if (ahead != 0) fetch(data + i * step_bytes + ahead, Vectors, vector_bytes);
      __m512bh factors[Rows];
      for (std::size_t r = 0; r < Rows; ++r)
        factors[r] = (__m512bh)_mm512_set1_epi32(static_cast<std::int32_t>(x[r * x_stride + i]));
      for (std::size_t v = 0; v < Vectors; ++v) {
        const auto elements = (__m512bh)_mm512_loadu_si512(data + i * step_bytes + v * vector_bytes);
        for (std::size_t r = 0; r < Rows; ++r)
          sums[r][v].part[0] =
              (FloatRegister)_mm512_dpbf16_ps((__m512)sums[r][v].part[0], factors[r], elements);
      }
    }
  }
};

void round_row(const float* x, std::size_t size, std::uint32_t* pairs) {
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
    __builtin_memcpy(pairs + i / 2, &rounded, sizeof(rounded));
  }
  if (i == size) return;
  const auto mask = static_cast<__mmask16>((1U << (size - i)) - 1);
  const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
  __builtin_memcpy(pairs + i / 2, &rounded, (size - i) * 2);
}

struct PairProducts {
  using Cache = Bf16;
  static constexpr bool kInIntegers = false;
  static void round_query(const AttentionTile& tile) {
    for (std::size_t r = 0; r < tile.rows; ++r) {
      round_row(tile.query + r * tile.query_stride, tile.query_stride,
                tile.query_pairs + r * tile.query_stride / 2);
    }
  }
  static void round_weights(const Step& step, std::size_t row) {
    const std::size_t stride = step.score_stride();
    round_row(step.scores(row, step.begin), step.columns(), step.tile.weight_pairs + row * stride / 2);
  }
  template <std::size_t Rows, std::size_t Vectors>
  static auto query(const AttentionTile& tile, std::size_t row, std::ptrdiff_t ahead) {
    return Pairs<Rows, Vectors>{tile.query_pairs + row * tile.query_stride / 2, tile.query_stride / 2, ahead};
  }
  template <std::size_t Rows, std::size_t Vectors>
  static auto weights(const AttentionTile& tile, std::size_t row, std::size_t column, std::ptrdiff_t ahead) {
    const std::size_t stride = tile.blocks_per_step * tile.padded_block / 2;
    return Pairs<Rows, Vectors>{tile.weight_pairs + row * stride + column / 2, stride, ahead};
  }
};
#endif

}  // namespace
}  // namespace tp::kernels
