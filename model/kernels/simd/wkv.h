// The inner loop of RWKV-7's recurrence, for simd_kernels.cc.
#pragma once

#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector/partial.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// Several sums in flight keep the multipliers busy.
constexpr std::size_t kWkvSums = 4 / kParts;

// Calls add(row, sum) for all rows, with several sums in turn. Returns the sum of all.
template <class Add>
inline Vector wkv_sum(std::size_t rows, const Add& add) {
  Vector sums[kWkvSums] = {};
  std::size_t row = 0;
  for (; row + kWkvSums <= rows; row += kWkvSums) {
    for (std::size_t i = 0; i < kWkvSums; ++i) add(row + i, sums[i]);
  }
  for (; row < rows; ++row) add(row, sums[0]);
  for (std::size_t i = 1; i < kWkvSums; ++i) sums[0] += sums[i];
  return sums[0];
}

inline const float* wkv_row(const WkvRows& rows, std::size_t token) {
  return rows.first + token * rows.stride;
}

// Rows of the next token: a batch's rows are far apart, so the processor doesn't fetch them by itself.
inline void fetch_wkv_rows(const WkvColumnScan& scan, std::size_t token) {
  constexpr std::size_t kLine = 16;  // floats of a cache line
  for (std::size_t i = 0; i < scan.head_dim; i += kLine) {
    __builtin_prefetch(wkv_row(scan.receptance, token) + i);
    __builtin_prefetch(wkv_row(scan.decay, token) + i);
    __builtin_prefetch(wkv_row(scan.key, token) + i);
    __builtin_prefetch(wkv_row(scan.removal, token) + i);
    __builtin_prefetch(wkv_row(scan.correction, token) + i);
  }
}

// A column's results don't depend on its lane, nor on the other columns.
void scan_wkv(const WkvColumnScan& scan) {
  for (std::size_t token = 0; token < scan.tokens; ++token) {
    if (token + 1 < scan.tokens) fetch_wkv_rows(scan, token + 1);
    const float* const receptance = wkv_row(scan.receptance, token);
    const float* const decay = wkv_row(scan.decay, token);
    const float* const key = wkv_row(scan.key, token);
    const float* const removal = wkv_row(scan.removal, token);
    const float* const correction = wkv_row(scan.correction, token);
    for (std::size_t column = 0; column < scan.columns; column += kLanes) {
      float* const state = scan.state + column * scan.head_dim;
      const Vector read = wkv_sum(scan.head_dim, [&](std::size_t j, Vector& sum) {
        multiply_add(load(state + j * kLanes), removal[j], sum);
      });
      const Vector value = load_some(wkv_row(scan.value, token) + column, scan.columns - column);
      const Vector out = wkv_sum(scan.head_dim, [&](std::size_t j, Vector& sum) {
        Vector row = load(state + j * kLanes);
        for (std::size_t i = 0; i < kParts; ++i)
          row.part[i] = row.part[i] * decay[j] - read.part[i] * correction[j] + value.part[i] * key[j];
        store(row, state + j * kLanes);
        multiply_add(row, receptance[j], sum);
      });
      store_some(out, scan.columns - column, scan.out + token * scan.out_stride + column);
    }
  }
}

}  // namespace
}  // namespace tp::kernels
