// The recurrence of the gated delta rule, of Kimi delta attention and of Mamba-2, for simd_kernels.cc.
#pragma once

#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// Two sums, of even and of odd rows, because the additions of a single sum would wait for each other. Rows
// are added in order, for any number of tokens.
constexpr std::size_t kDeltaSums = 2;

// Loads `count` floats, padded with zeros to whole vectors.
template <std::size_t kVectors>
inline void load_columns(const float* from, std::size_t count, Vector (&to)[kVectors]) {
  float columns[kVectors * kLanes] = {};
  for (std::size_t i = 0; i < count; ++i) columns[i] = from[i];
  for (std::size_t i = 0; i < kVectors; ++i) to[i] = load(columns + i * kLanes);
}

template <std::size_t kVectors>
inline void store_columns(const Vector (&from)[kVectors], std::size_t count, float* to) {
  float columns[kVectors * kLanes];
  for (std::size_t i = 0; i < kVectors; ++i) store(from[i], columns + i * kLanes);
  for (std::size_t i = 0; i < count; ++i) to[i] = columns[i];
}

// Calls row(vector of S, its row, its index in the row, partial sum) for all vectors of S, and stores the
// changed vectors. `sum`: the total of the partial sums.
template <std::size_t kVectors, class Row>
inline void for_state_rows(float* state, std::size_t stride, std::size_t rows, Vector (&sum)[kVectors],
                           const Row& row) {
  Vector sums[kDeltaSums][kVectors] = {};
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < kVectors; ++j) {
      float* const place = state + i * stride + j * kLanes;
      Vector s = load(place);
      row(s, i, j, sums[i % kDeltaSums][j]);
      store(s, place);
    }
  }
  for (std::size_t j = 0; j < kVectors; ++j) {
    sum[j] = sums[0][j];
    sum[j] += sums[1][j];
  }
}

// Without corrections, S^T k is not needed, and one pass over S is enough. With kChannels, each row of S has
// its own decay.
template <std::size_t kVectors, bool kCorrects, bool kChannels>
void delta_rule_of(const DeltaTokens& tokens, std::size_t first, std::size_t columns, float* state,
                   std::size_t stride) {
  for (std::size_t token = 0; token < tokens.tokens; ++token) {
    const float* const query = tokens.query + token * tokens.key_stride;
    const float* const key = tokens.key + token * tokens.key_stride;
    const float* const decay = tokens.decay + token * tokens.decay_stride;
    const float strength = tokens.strength[token * tokens.strength_stride];
    const auto fade = [&](Vector& s, std::size_t i) {
      for (FloatRegister& part : s.part) part *= decay[kChannels ? i : 0];
    };
    Vector known[kVectors] = {};  // S^T k
    if constexpr (kCorrects) {
      for_state_rows(state, stride, tokens.key_dim, known,
                     [&](Vector& s, std::size_t i, std::size_t, Vector& sum) {
                       fade(s, i);
                       multiply_add(s, key[i], sum);
                     });
    }
    Vector correction[kVectors];
    load_columns(tokens.value + token * tokens.value_stride + first, columns, correction);
    for (std::size_t j = 0; j < kVectors; ++j) {
      for (std::size_t p = 0; p < kParts; ++p)
        correction[j].part[p] = (correction[j].part[p] - known[j].part[p]) * strength;
    }
    Vector out[kVectors];  // S^T q
    for_state_rows(state, stride, tokens.key_dim, out,
                   [&](Vector& s, std::size_t i, std::size_t j, Vector& sum) {
                     if constexpr (!kCorrects) fade(s, i);
                     multiply_add(correction[j], key[i], s);
                     multiply_add(s, query[i], sum);
                   });
    store_columns(out, columns, tokens.out + token * tokens.out_stride + first);
  }
}

template <std::size_t kVectors>
constexpr auto delta_rule_for(const DeltaTokens& tokens) {
  if (tokens.decays_channels)
    return tokens.corrects ? delta_rule_of<kVectors, true, true> : delta_rule_of<kVectors, false, true>;
  return tokens.corrects ? delta_rule_of<kVectors, true, false> : delta_rule_of<kVectors, false, false>;
}

void delta_rule(const DeltaTokens& tokens, std::size_t first, std::size_t columns, float* state,
                std::size_t state_stride) {
  const auto rule = columns > kLanes ? delta_rule_for<2>(tokens) : delta_rule_for<1>(tokens);
  rule(tokens, first, columns, state, state_stride);
}

}  // namespace
}  // namespace tp::kernels
