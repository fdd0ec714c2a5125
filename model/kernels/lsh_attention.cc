#include "model/kernels/lsh_attention.h"

#include "model/kernels/attention_scratch.h"
#include "model/kernels/simd/simd.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <numeric>

#include <omp.h>

namespace tp::kernels {
namespace {

constexpr float kOwnScore = -1e5F;           // a token's score with itself, as in the original code
constexpr float kSquaresEps = 1e-6F;         // added to the mean of a query's squares before taking the root
constexpr std::uint32_t kFill = UINT32_MAX;  // padding in place of a token

// The memory for one head of one sequence.
struct LshScratch {
  std::uint32_t* order;   // [num_hashes * padded] tokens by hash, sorted by bucket
  std::uint32_t* bucket;  // [tokens] buckets for one hash
  float* inverse;         // [tokens] factor from a query to its key
  float* maximum;         // [tokens] the highest score so far
  float* total;           // [tokens] sum of exponentials, relative to the maximum
  float* rotated;         // [sum of factors / 2]
  std::uint32_t* seen;    // [seen] tokens of a chunk and its neighbours
  float* key;             // [seen, head_dim]
  float* score;           // [seen]
  std::uint32_t* counts;  // [buckets]

  LshScratch(Carver& carve, const LshAttention& args)
      : order(carve.take<std::uint32_t>(args.num_hashes * args.limits.padded)),
        bucket(carve.take<std::uint32_t>(args.limits.tokens)),
        inverse(carve.take<float>(args.limits.tokens)),
        maximum(carve.take<float>(args.limits.tokens)),
        total(carve.take<float>(args.limits.tokens)),
        rotated(carve.take<float>(args.limits.rotated)),
        seen(carve.take<std::uint32_t>(seen_at_once(args))),
        key(carve.take<float>(seen_at_once(args) * args.head_dim)),
        score(carve.take<float>(seen_at_once(args))),
        counts(carve.take<std::uint32_t>(args.limits.buckets)) {}

  static std::size_t seen_at_once(const LshAttention& args) {
    return (args.chunks_before + 1 + args.chunks_after) * args.chunk_length;
  }
};

// One head of one sequence.
class HashedHead {
 public:
  HashedHead(const LshAttention& args, const LshSequence& sequence, std::size_t head, const LshScratch& own)
      : args_(args), sequence_(sequence), head_(head), own_(own) {}

  void run() const {
    for (std::size_t token = 0; token < sequence_.tokens; ++token) {
      own_.inverse[token] = key_scale(query(token));
      own_.maximum[token] = -INFINITY;
      own_.total[token] = 0.0F;
      std::fill_n(out(token), args_.head_dim, 0.0F);
    }
    if (sequence_.padded <= args_.chunk_length) {
      std::iota(own_.order, own_.order + sequence_.tokens, 0U);
      std::copy_n(own_.order, sequence_.tokens, own_.seen);
      attend(own_.order, sequence_.tokens, sequence_.tokens);
    } else {
      for (std::size_t hash = 0; hash < args_.num_hashes; ++hash) sort(hash);
      attend_in_chunks();
    }
    for (std::size_t token = 0; token < sequence_.tokens; ++token) {
      const float inverse = 1.0F / own_.total[token];
      for (std::size_t d = 0; d < args_.head_dim; ++d) out(token)[d] *= inverse;
    }
  }

 private:
  const float* query(std::size_t token) const {
    return args_.query_key.row(sequence_.first_token + token) + head_ * args_.head_dim;
  }
  const float* value(std::size_t token) const {
    return args_.value.row(sequence_.first_token + token) + head_ * args_.head_dim;
  }
  float* out(std::size_t token) const {
    return args_.out.row(sequence_.first_token + token) + head_ * args_.head_dim;
  }

  // The factor that scales a query to length 1, and by the root of the number of elements, like scores.
  float key_scale(const float* query) const {
    const auto size = static_cast<float>(args_.head_dim);
    float squares = 0.0F;
    for (std::size_t d = 0; d < args_.head_dim; ++d) squares += query[d] * query[d];
    return 1.0F / (std::sqrt(squares / size + kSquaresEps) * std::sqrt(size));
  }

  // For each factor, the index of the largest among the rotated elements and their negatives. These are the
  // digits of the bucket's number.
  std::uint32_t bucket_of(const float* query, std::size_t hash) const {
    const LshBuckets& buckets = sequence_.buckets;
    const std::size_t size = buckets.rotated_size();
    const float* const rotations =
        buckets.rotations.data() + (head_ * args_.num_hashes + hash) * size * args_.head_dim;
    simd().matvec(rotations, args_.head_dim, size, args_.head_dim, query, own_.rotated);
    std::size_t bucket = 0;
    std::size_t digit = 1;
    const float* rotated = own_.rotated;
    for (const std::size_t factor : buckets.factors) {
      const std::size_t half = factor / 2;
      const auto highest = static_cast<std::size_t>(std::max_element(rotated, rotated + half) - rotated);
      const auto lowest = static_cast<std::size_t>(std::min_element(rotated, rotated + half) - rotated);
      bucket += digit * (rotated[highest] >= -rotated[lowest] ? highest : half + lowest);
      digit *= factor;
      rotated += half;
    }
    return static_cast<std::uint32_t>(bucket);
  }

  // Tokens of equal buckets stay in order. Padding follows all tokens.
  void sort(std::size_t hash) const {
    std::size_t buckets = 1;
    for (const std::size_t factor : sequence_.buckets.factors) buckets *= factor;
    std::fill_n(own_.counts, buckets, 0U);
    for (std::size_t token = 0; token < sequence_.tokens; ++token) {
      own_.bucket[token] = bucket_of(query(token), hash);
      ++own_.counts[own_.bucket[token]];
    }
    std::exclusive_scan(own_.counts, own_.counts + buckets, own_.counts, 0U);
    std::uint32_t* const order = own_.order + hash * sequence_.padded;
    for (std::size_t token = 0; token < sequence_.tokens; ++token)
      order[own_.counts[own_.bucket[token]]++] = static_cast<std::uint32_t>(token);
    std::fill(order + sequence_.tokens, order + sequence_.padded, kFill);
  }

  void attend_in_chunks() const {
    const std::size_t length = args_.chunk_length;
    const std::size_t chunks = args_.num_hashes * sequence_.padded / length;
    const std::size_t neighbours = args_.chunks_before + 1 + args_.chunks_after;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      std::size_t seen = 0;
      for (std::size_t i = 0; i < neighbours; ++i) {
        // If there are fewer chunks than neighbours, some count twice.
        const std::size_t rounds = args_.chunks_before / chunks + 1;
        const std::size_t other = (chunk + i + rounds * chunks - args_.chunks_before) % chunks;
        for (std::size_t slot = other * length; slot < (other + 1) * length; ++slot) {
          if (own_.order[slot] != kFill) own_.seen[seen++] = own_.order[slot];
        }
      }
      attend(own_.order + chunk * length, length, seen);
    }
  }

  // Attention of the tokens in `slots` to the first `seen` tokens of own_.seen.
  void attend(const std::uint32_t* slots, std::size_t count, std::size_t seen) const {
    for (std::size_t i = 0; i < seen; ++i) {
      const float* const from = query(own_.seen[i]);
      const float factor = own_.inverse[own_.seen[i]];
      for (std::size_t d = 0; d < args_.head_dim; ++d) own_.key[i * args_.head_dim + d] = from[d] * factor;
    }
    for (std::size_t slot = 0; slot < count; ++slot) {
      if (slots[slot] != kFill) attend_token(slots[slot], seen);
    }
  }

  void attend_token(std::uint32_t token, std::size_t seen) const {
    simd().matvec(own_.key, args_.head_dim, seen, args_.head_dim, query(token), own_.score);
    float highest = -INFINITY;
    for (std::size_t i = 0; i < seen; ++i) {
      if (own_.seen[i] > token) own_.score[i] = -INFINITY;
      if (own_.seen[i] == token) own_.score[i] = kOwnScore;
      highest = std::max(highest, own_.score[i]);
    }
    // Weights are relative to the highest score so far, over all chunks and hashes.
    const float before = own_.maximum[token];
    const float maximum = std::max(before, highest);
    const float kept = std::exp(before - maximum);
    float* const sums = out(token);
    float total = own_.total[token] * kept;
    for (std::size_t d = 0; d < args_.head_dim; ++d) sums[d] *= kept;
    for (std::size_t i = 0; i < seen; ++i) {
      if (own_.score[i] == -INFINITY) continue;
      const float weight = std::exp(own_.score[i] - maximum);
      if (weight == 0.0F) continue;
      const float* const from = value(own_.seen[i]);
      total += weight;
#pragma omp simd
      for (std::size_t d = 0; d < args_.head_dim; ++d) sums[d] += weight * from[d];
    }
    own_.total[token] = total;
    own_.maximum[token] = maximum;
  }

  const LshAttention& args_;
  const LshSequence& sequence_;
  std::size_t head_;
  LshScratch own_;
};

}  // namespace

std::size_t LshBuckets::rotated_size() const {
  return std::accumulate(factors.begin(), factors.end(), std::size_t{0}) / 2;
}

std::size_t lsh_scratch(const LshAttention& args) {
  Carver count(nullptr);
  LshScratch(count, args);
  return count.used();
}

void lsh_attention(const LshAttention& args) {
  if (args.out.empty()) return;
  assert(args.scratch.columns() >= lsh_scratch(args));
  const std::size_t heads = args.out.columns() / args.head_dim;
  const std::size_t work = args.out.size() * args.num_hashes * LshScratch::seen_at_once(args);
#pragma omp parallel for schedule(dynamic) if (work >= kMinParallelWork)
  for (std::size_t i = 0; i < args.sequences.size() * heads; ++i) {
    Carver carve(args.scratch.row(static_cast<std::size_t>(omp_get_thread_num())));
    HashedHead(args, args.sequences[i / heads], i % heads, LshScratch(carve, args)).run();
  }
}

}  // namespace tp::kernels
