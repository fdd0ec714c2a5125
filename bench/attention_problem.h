// Shared parts of bench_attention.
#pragma once

#include "bench/harness.h"
#include "model/kernels/attention.h"
#include "model/kernels/openblas.h"
#include "model/kernels/simd/isa.h"
#include "model/memory/buffer.h"
#include "tp/internal/require.h"

#include <numeric>
#include <optional>
#include <utility>

namespace tp::bench {

// Four query heads of 64 elements on one KV head: a quarter of a layer of Llama-3.2-1B's shape.
inline constexpr std::size_t kHeads = 4;
inline constexpr std::size_t kHeadDim = 64;
inline constexpr std::size_t kBlockSize = 32;
inline constexpr float kScale = 0.125F;
inline constexpr std::size_t kWindow = 1024;
inline constexpr std::size_t kChunk = 512;  // tokens of a prefill step

struct Options {
  std::size_t max_tokens = 32768;
  std::size_t threads = 1;
  bool json = false;
  std::string only;  // name of the only part to run; empty: all parts
};

// "1 thread, kernels avx512"
inline std::string setting(const Options& options) {
  return fmt::format("{} thread{}, kernels {}", options.threads, options.threads == 1 ? "" : "s",
                     kernels::name_of(kernels::active_isa()));
}

inline Buffer<float> random_buffer(std::size_t count, const char* what, unsigned seed) {
  Buffer<float> numbers(count, what);
  fill_randomly({numbers.data(), count}, seed);
  return numbers;
}

// Returns the mean of rows [0, count) of `columns` elements, weighted by weight(row), in double precision.
template <class Weight, class Row>
std::vector<double> weighted_mean(std::size_t count, std::size_t columns, const Weight& weight,
                                  const Row& row) {
  std::vector<double> mean(columns);
  double total = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const double part = weight(i);
    total += part;
    for (std::size_t d = 0; d < columns; ++d) mean[d] += part * row(i)[d];
  }
  for (double& element : mean) element /= total;
  return mean;
}

// Returns the largest difference, or NaN.
template <class Expected>
double difference(const float* found, const Expected& expected, std::size_t columns) {
  double largest = 0.0;
  for (std::size_t d = 0; d < columns; ++d) {
    const double apart = std::abs(found[d] - static_cast<double>(expected[d]));
    if (std::isnan(apart)) return apart;
    largest = std::max(largest, apart);
  }
  return largest;
}

// `name`: "attention with a bf16 cache, head 3"
inline void require_close(double found, double tolerance, const std::string& name) {
  require<ConfigError>(found <= tolerance, "{}: expected a difference of at most {}, found {}", name,
                       tolerance, found);
}

// The paged cache of several sequences with equally many blocks.
class CachedSequences {
 public:
  CachedSequences(const kernels::KvLayout& layout, std::size_t blocks, std::size_t sequences,
                  std::vector<std::size_t> kv_of_head)
      : layout_(layout),
        blocks_(blocks),
        cache_(blocks * layout.block_bytes(), "the cache"),
        kv_of_head_(std::move(kv_of_head)),
        scratch_columns_(kernels::attention_scratch(kv_of_head_, layout, blocks / sequences)),
        scratch_(static_cast<std::size_t>(omp_get_max_threads()) * scratch_columns_, "scratch") {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  std::size_t cache_bytes() const { return cache_.size(); }

 protected:
  KvType type() const { return layout_.type; }
  kernels::PagedCache paged() const { return {layout_, cache_.data(), layout_.block_bytes()}; }
  std::size_t scratch_bytes() const { return scratch_.size() * sizeof(float); }

  void attend(TensorView<const float> query, std::span<const kernels::AttentionSpan> spans, float scale,
              TensorView<float> out, const kernels::AttentionPattern& pattern = {}) const {
    kernels::paged_attention(
        {.query = query,
         .cache = paged(),
         .spans = spans,
         .kv_of_head = kv_of_head_,
         .pattern = pattern,
         .scale = scale,
         .scratch = {scratch_.data(), scratch_.size() / scratch_columns_, scratch_columns_},
         .out = out});
  }

  std::vector<std::int32_t>& blocks() { return blocks_; }
  const std::vector<std::int32_t>& blocks() const { return blocks_; }
  const std::vector<std::size_t>& kv_of_head() const { return kv_of_head_; }

 private:
  kernels::KvLayout layout_;
  std::vector<std::int32_t> blocks_;
  Buffer<std::byte> cache_;
  std::vector<std::size_t> kv_of_head_;
  std::size_t scratch_columns_;
  Buffer<float> scratch_;
};

// A sequence's queries, keys and values, and its paged cache.
class Problem : public CachedSequences {
 public:
  Problem(std::size_t tokens, KvType type)
      : CachedSequences({type, 1, kBlockSize, kHeadDim, kHeadDim}, tokens / kBlockSize, 1,
                        std::vector<std::size_t>(kHeads, 0)),
        tokens_(tokens),
        query_(random_buffer(tokens * kHeads * kHeadDim, "queries", 1)),
        key_(random_buffer(tokens * kHeadDim, "keys", 2)),
        value_(random_buffer(tokens * kHeadDim, "values", 3)),
        out_(tokens * kHeads * kHeadDim, "outputs") {
    kernels::store_keys_values(matrix(key_, kHeadDim), matrix(value_, kHeadDim), {{{0, tokens, 0, blocks()}}},
                               paged());
  }

  // Computes attention of the tokens [first, first + count). key_bias, [tokens], adds keys outside the
  // pattern; null: none.
  void tiled(std::size_t first, std::size_t count, const kernels::AttentionPattern& pattern = {},
             const float* key_bias = nullptr) const {
    std::vector<kernels::AttentionSpan> spans = {{0, count, first, blocks()}};
    spans.front().key_bias = key_bias;
    attend(matrix(query_, kHeads * kHeadDim).rows_from(first, count), spans, kScale,
           matrix(out_, kHeads * kHeadDim).rows_from(first, count), pattern);
  }

  // Computes the prompt in chunks.
  void prefill(std::optional<std::size_t> window = {}) const {
    for (std::size_t first = 0; first < tokens_; first += kChunk)
      tiled(first, std::min(kChunk, tokens_ - first), {.window = window});
  }

  // Computes one head with the whole score matrix, [tokens, tokens].
  void textbook(std::size_t head, TensorView<float> scores, TensorView<float> out) const {
    const auto size = [](std::size_t n) { return static_cast<kernels::blasint>(n); };
    const kernels::Sgemm sgemm = kernels::openblas_sgemm();
    sgemm(kernels::CblasRowMajor, kernels::CblasNoTrans, kernels::CblasTrans, size(tokens_), size(tokens_),
          size(kHeadDim), kScale, query_.data() + head * kHeadDim, size(kHeads * kHeadDim), key_.data(),
          size(kHeadDim), 0.0F, scores.data(), size(tokens_));
#pragma omp parallel for schedule(dynamic, 16)
    for (std::size_t row = 0; row < tokens_; ++row) {
      float* line = scores.row(row);
      const float highest = *std::max_element(line, line + row + 1);
      float sum = 0.0F;
      for (std::size_t i = 0; i <= row; ++i) {
        line[i] = std::exp(line[i] - highest);
        sum += line[i];
      }
      for (std::size_t i = 0; i <= row; ++i) line[i] /= sum;
      std::fill(line + row + 1, line + tokens_, 0.0F);
    }
    sgemm(kernels::CblasRowMajor, kernels::CblasNoTrans, kernels::CblasNoTrans, size(tokens_), size(kHeadDim),
          size(tokens_), 1.0F, scores.data(), size(tokens_), value_.data(), size(kHeadDim), 0.0F, out.data(),
          size(out.stride()));
  }

  std::size_t tokens() const { return tokens_; }
  TensorView<const float> query() const { return matrix(query_, kHeads * kHeadDim); }
  TensorView<const float> key() const { return matrix(key_, kHeadDim); }
  TensorView<const float> value() const { return matrix(value_, kHeadDim); }
  TensorView<float> out() const { return matrix(out_, kHeads * kHeadDim); }
  // Does not count queries and outputs.
  std::size_t tiled_bytes() const { return cache_bytes() + scratch_bytes(); }

 private:
  TensorView<float> matrix(const Buffer<float>& buffer, std::size_t columns) const {
    return {buffer.data(), tokens_, columns};
  }

  std::size_t tokens_;
  Buffer<float> query_;  // [tokens, kHeads * kHeadDim]
  Buffer<float> key_;    // [tokens, kHeadDim]
  Buffer<float> value_;  // [tokens, kHeadDim]
  Buffer<float> out_;    // [tokens, kHeads * kHeadDim]
};

// The parts of bench_attention. Each verifies its results, and throws ConfigError if one is wrong.
//
// Decodes one token of each of several sequences after long contexts. Prints the rate at which the caches are
// read, relative to the memory's peak bandwidth, for every type of cache.
void run_decode(const Options& options);
// Attention whose cost grows linearly with the number of tokens: windows, blocks and random features. Prints
// the time per token by length, next to exact attention.
void run_sparse(const Options& options);
// Latents, which all heads share: decoding times next to two bounds, reading the latents and multiplying
// them.
void run_latent(const Options& options);

}  // namespace tp::bench
