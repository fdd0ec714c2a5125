#include "model/kernels/wkv.h"

#include "model/kernels/simd/simd.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <omp.h>

namespace tp::kernels {
namespace {

// Some columns of a head's matrix in one run.
class ColumnScan {
 public:
  // `blocks`: number of blocks of 16 columns.
  ColumnScan(const WkvScan& scan, const RecurrentRun& run, std::size_t head, std::size_t first_block,
             std::size_t blocks)
      : scan_(scan),
        run_(run),
        floats_(blocks * scan.head_dim * kWkvColumns),
        begin_(head * wkv_head_floats(scan.head_dim) + first_block * scan.head_dim * kWkvColumns),
        row_(head * scan.head_dim),
        column_(first_block * kWkvColumns),
        columns_(std::min(blocks * kWkvColumns, scan.head_dim - column_)) {}

  void run() const {
    if (run_.begins()) std::fill_n(run_.state + begin_, floats_, 0.0F);
    std::size_t done = 0;
    for (const StateCopy& copy : run_.copies) {
      advance(done, copy.tokens);
      std::copy_n(run_.state + begin_, floats_, copy.state + begin_);
      done = copy.tokens;
    }
    advance(done, run_.tokens);
  }

 private:
  void advance(std::size_t begin, std::size_t end) const {
    if (begin == end) return;
    const std::size_t token = run_.first_token + begin;
    const auto rows_of = [&](TensorView<const float> x, std::size_t at) {
      return WkvRows{x.row(token) + at, x.stride()};
    };
    simd().scan_wkv({.state = run_.state + begin_,
                     .head_dim = scan_.head_dim,
                     .columns = columns_,
                     .tokens = end - begin,
                     .receptance = rows_of(scan_.receptance, row_),
                     .decay = rows_of(scan_.decay, row_),
                     .key = rows_of(scan_.key, row_),
                     .removal = rows_of(scan_.removal, row_),
                     .correction = rows_of(scan_.correction, row_),
                     .value = rows_of(scan_.value, row_ + column_),
                     .out = scan_.out.row(token) + row_ + column_,
                     .out_stride = scan_.out.stride()});
  }

  const WkvScan& scan_;
  const RecurrentRun& run_;
  std::size_t floats_;  // floats of the columns' state
  std::size_t begin_;   // the first float
  std::size_t row_;     // the head's first element in a token's row
  std::size_t column_;  // the first column
  std::size_t columns_;
};

// A task gets all blocks of a head, or fewer if there are more threads than heads.
std::size_t blocks_of_task(std::size_t blocks, std::size_t heads, std::size_t work) {
  const std::size_t threads = work < kMinParallelWork ? 1 : static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t parts = std::clamp<std::size_t>((threads + heads - 1) / heads, 1, blocks);
  return (blocks + parts - 1) / parts;
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

// Calls body(token, the head's first element) for all heads of all tokens. x: [tokens, heads * head_dim]
template <class Body>
void for_heads(TensorView<const float> x, std::size_t head_dim, const Body& body) {
  if (x.empty()) return;
  constexpr std::size_t kWork = 64;  // approximate operations per element, with two exponentials
  const std::size_t heads = x.columns() / head_dim;
  for_thread_parts(x.rows() * heads, x.size() * kWork, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(i / heads, i % heads * head_dim);
  });
}

}  // namespace

void wkv_scan(const WkvScan& scan, std::span<const RecurrentRun> runs) {
  assert(scan.out.columns() == scan.value.columns() && scan.out.columns() % scan.head_dim == 0);
  if (scan.out.empty() || runs.empty()) return;
  constexpr std::size_t kWork = 5;  // multiplications for each element of a matrix
  const std::size_t work = scan.out.size() * scan.head_dim * kWork;
  const std::size_t heads = scan.out.columns() / scan.head_dim;
  const std::size_t blocks = padded(scan.head_dim) / kWkvColumns;
  const std::size_t per_task = blocks_of_task(blocks, runs.size() * heads, work);
  const std::size_t parts = (blocks + per_task - 1) / per_task;
  for_thread_parts(runs.size() * heads * parts, work, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t head = i / parts;
      const std::size_t first = i % parts * per_task;
      ColumnScan(scan, runs[head / heads], head % heads, first, std::min(per_task, blocks - first)).run();
    }
  });
}

void wkv_inputs(const WkvInputs& inputs) {
  constexpr float kFastest = 0.6065306597126334F;  // 1 / sqrt(e)
  constexpr float kMinLength = 1e-12F;             // as in torch's normalize
  for_heads(inputs.key, inputs.head_dim, [&](std::size_t token, std::size_t at) {
    float* const key = inputs.key.row(token) + at;
    float* const decay = inputs.decay.row(token) + at;
    float* const strength = inputs.strength.row(token) + at;
    float* const removal = inputs.removal.row(token) + at;
    float squares = 0.0F;
    for (std::size_t i = 0; i < inputs.head_dim; ++i) {
      removal[i] = key[i] * inputs.removal_gain[at + i];
      squares += removal[i] * removal[i];
    }
    const float scale = 1.0F / std::max(std::sqrt(squares), kMinLength);
    for (std::size_t i = 0; i < inputs.head_dim; ++i) {
      const float share = sigmoid(strength[i]);
      removal[i] *= scale;
      strength[i] = removal[i] * share;
      key[i] += key[i] * (share - 1.0F) * inputs.key_gain[at + i];
      decay[i] = std::exp(-kFastest * sigmoid(decay[i]));
    }
  });
}

void mix_values(TensorView<const float> first, TensorView<const float> share, TensorView<float> value) {
  for_heads(value, value.columns(), [&](std::size_t token, std::size_t) {
    for (std::size_t i = 0; i < value.columns(); ++i)
      value(token, i) += sigmoid(share(token, i)) * (first(token, i) - value(token, i));
  });
}

void add_wkv_bonus(const WkvBonus& bonus, TensorView<float> out) {
  for_heads(out, bonus.head_dim, [&](std::size_t token, std::size_t at) {
    const float* const receptance = bonus.receptance.row(token) + at;
    const float* const key = bonus.key.row(token) + at;
    float sum = 0.0F;
    for (std::size_t i = 0; i < bonus.head_dim; ++i) sum += receptance[i] * key[i] * bonus.weight[at + i];
    for (std::size_t i = at; i < at + bonus.head_dim; ++i) out(token, i) += sum * bonus.value(token, i);
  });
}

void mix_shifted(TensorView<const float> x, TensorView<const float> shift, std::span<const float> factors,
                 TensorView<float> out) {
  if (out.empty()) return;
  for_thread_parts(out.rows(), out.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      const float* const from = x.row(token);
      const float* const difference = shift.row(token);
      float* const to = out.row(token);
#pragma omp simd
      for (std::size_t i = 0; i < factors.size(); ++i) to[i] = from[i] + difference[i] * factors[i];
    }
  });
}

}  // namespace tp::kernels
