#include "model/kernels/favor.h"

#include "model/kernels/attention_scratch.h"
#include "model/kernels/simd/simd.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <omp.h>

namespace tp::kernels {
namespace {

constexpr std::size_t kVectorFloats = 16;
constexpr std::size_t kHeader = kVectorFloats;  // beginning of a KV head's state, with the logarithm

std::size_t whole_vectors(std::size_t size) {
  return (size + kVectorFloats - 1) / kVectorFloats * kVectorFloats;
}

// Columns of a state: values, then the 1.
std::size_t favor_columns(std::size_t head_dim) { return whole_vectors(head_dim + 1); }

std::size_t head_state_floats(std::size_t num_features, std::size_t head_dim) {
  return kHeader + num_features * favor_columns(head_dim);
}

struct FavorScratch {
  float* scaled;  // [head_dim] a query or key
  float* key;     // [features], padded to whole vectors like the arrays below
  float* query;   // [heads, features]
  float* value;   // [columns]
  float* out;     // [heads, columns]

  FavorScratch(Carver& carve, std::size_t heads, std::size_t num_features, std::size_t head_dim)
      : scaled(carve.take<float>(head_dim)),
        key(carve.take<float>(whole_vectors(num_features))),
        query(carve.take<float>(heads * whole_vectors(num_features))),
        value(carve.take<float>(favor_columns(head_dim))),
        out(carve.take<float>(heads * favor_columns(head_dim))) {}
};

// One KV head of one run, with the query heads that read it.
class FavorHead {
 public:
  FavorHead(const FavorAttention& args, const RecurrentRun& run, std::size_t kv_head, const FavorScratch& own)
      : args_(args),
        run_(run),
        kv_head_(kv_head),
        own_(own),
        state_floats_(head_state_floats(args.num_features, args.head_dim)),
        root_of_scale_(std::sqrt(args.scale)) {
    const auto begin = std::ranges::lower_bound(args.kv_of_head, kv_head);
    first_head_ = static_cast<std::size_t>(begin - args.kv_of_head.begin());
    heads_ = static_cast<std::size_t>(std::ranges::upper_bound(args.kv_of_head, kv_head) - begin);
  }

  void run() const {
    float* const state = state_of(run_.state);
    if (run_.begins()) {
      std::fill_n(state, state_floats_, 0.0F);
      state[0] = -INFINITY;
    }
    std::size_t done = 0;
    for (const StateCopy& copy : run_.copies) {
      for (; done < copy.tokens; ++done) advance(run_.first_token + done, state);
      std::copy_n(state, state_floats_, state_of(copy.state));
    }
    for (; done < run_.tokens; ++done) advance(run_.first_token + done, state);
  }

 private:
  float* state_of(float* states) const { return states + kv_head_ * state_floats_; }

  // w . x for each random vector w, where x is `vector` times the root of the scale. Returns |x|^2 / 2.
  float project(const float* vector, float* out) const {
    float squares = 0.0F;
    for (std::size_t d = 0; d < args_.head_dim; ++d) {
      own_.scaled[d] = vector[d] * root_of_scale_;
      squares += own_.scaled[d] * own_.scaled[d];
    }
    const float* const features = args_.features.data() + kv_head_ * args_.num_features * args_.head_dim;
    simd().matvec(features, args_.head_dim, args_.num_features, args_.head_dim, own_.scaled, out);
    std::fill(out + args_.num_features, out + whole_vectors(args_.num_features), -INFINITY);
    return squares / 2.0F;
  }

  void advance(std::size_t token, float* state) const {
    const std::size_t size = whole_vectors(args_.num_features);
    const std::size_t columns = favor_columns(args_.head_dim);
    const float half = project(args_.key.row(token) + kv_head_ * args_.head_dim, own_.key);
    // Keys' exponentials are relative to the largest so far. A query's common factor cancels out.
    const float before = state[0];
    state[0] = std::max(before, simd().largest(own_.key, size) - half);
    simd().exponentials(own_.key, size, state[0] + half);
    for (std::size_t head = 0; head < heads_; ++head) {
      float* const query = own_.query + head * size;
      project(args_.query.row(token) + (first_head_ + head) * args_.head_dim, query);
      simd().exponentials(query, size, simd().largest(query, size));
    }
    std::copy_n(args_.value.row(token) + kv_head_ * args_.head_dim, args_.head_dim, own_.value);
    own_.value[args_.head_dim] = 1.0F;
    std::fill(own_.value + args_.head_dim + 1, own_.value + columns, 0.0F);
    simd().favor({.state = state + kHeader,
                  .key = own_.key,
                  .value = own_.value,
                  .kept = before == state[0] ? 1.0F : std::exp(before - state[0]),
                  .query = own_.query,
                  .query_stride = size,
                  .heads = heads_,
                  .features = args_.num_features,
                  .columns = columns,
                  .out = own_.out});
    for (std::size_t head = 0; head < heads_; ++head) {
      const float* const sums = own_.out + head * columns;
      float* const out = args_.out.row(token) + (first_head_ + head) * args_.head_dim;
      for (std::size_t d = 0; d < args_.head_dim; ++d) out[d] = sums[d] / sums[args_.head_dim];
    }
  }

  const FavorAttention& args_;
  const RecurrentRun& run_;
  std::size_t kv_head_;
  FavorScratch own_;
  std::size_t state_floats_;
  float root_of_scale_;
  std::size_t first_head_ = 0;
  std::size_t heads_ = 0;
};

}  // namespace

std::size_t favor_scratch(std::size_t heads, std::size_t num_features, std::size_t head_dim) {
  Carver count(nullptr);
  FavorScratch(count, heads, num_features, head_dim);
  return count.used();
}

std::size_t favor_state_floats(std::size_t kv_heads, std::size_t num_features, std::size_t head_dim) {
  return kv_heads * head_state_floats(num_features, head_dim);
}

void favor_attention(const FavorAttention& args, std::span<const RecurrentRun> runs) {
  if (args.out.empty()) return;
  const std::size_t kv_heads = args.key.columns() / args.head_dim;
  const std::size_t heads = args.kv_of_head.size();
  const std::size_t work = args.out.size() * args.num_features * 3;
#pragma omp parallel for schedule(dynamic) if (work >= kMinParallelWork)
  for (std::size_t i = 0; i < runs.size() * kv_heads; ++i) {
    Carver carve(args.scratch.row(static_cast<std::size_t>(omp_get_thread_num())));
    const FavorScratch own(carve, heads, args.num_features, args.head_dim);
    assert(carve.used() <= args.scratch.columns());
    FavorHead(args, runs[i / kv_heads], i % kv_heads, own).run();
  }
}

}  // namespace tp::kernels
