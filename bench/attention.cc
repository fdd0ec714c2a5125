// Tiled attention against naive attention, which stores the score matrix: time and memory by prompt length,
// sliding windows, and the bandwidth at which decoding reads the cache. Results are verified first.
//
//   bench_attention [--max-tokens N] [--threads N] [--json]
//
// Naive attention is two matmuls of OpenBLAS with a softmax in between, one head at a time. As it multiplies
// whole matrices, it also computes the scores above the diagonal.

#include "model/kernels/attention.h"

#include "model/kernels/isa.h"
#include "model/kernels/openblas.h"
#include "model/memory/buffer.h"
#include "model/peak_rates.h"
#include "parallel/stopwatch.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

namespace tp {
namespace {

// Four query heads of 64 elements on one KV head: a quarter of a layer of Llama-3.2-1B's shape.
constexpr std::size_t kHeads = 4;
constexpr std::size_t kHeadDim = 64;
constexpr std::size_t kBlockSize = 32;
constexpr float kScale = 0.125F;
constexpr std::size_t kWindow = 1024;
constexpr std::size_t kChunk = 512;  // tokens of a prefill step

struct Options {
  std::size_t max_tokens = 32768;
  std::size_t threads = 1;
  bool json = false;
};

// A sequence's queries, keys and values, and its paged cache.
class Problem {
 public:
  Problem(std::size_t tokens, KvType type)
      : tokens_(tokens),
        query_(tokens * kHeads * kHeadDim, "queries"),
        key_(tokens * kHeadDim, "keys"),
        value_(tokens * kHeadDim, "values"),
        out_(tokens * kHeads * kHeadDim, "outputs"),
        layout_{type, 1, kBlockSize, kHeadDim, kHeadDim},
        blocks_(tokens / kBlockSize),
        cache_(blocks_.size() * layout_.block_bytes(), "the cache"),
        kv_of_head_(kHeads, 0),
        scratch_columns_(kernels::attention_scratch(kv_of_head_, layout_, blocks_.size())),
        scratch_(static_cast<std::size_t>(omp_get_max_threads()) * scratch_columns_, "scratch") {
    std::uint32_t state = 1;
    for (const Buffer<float>* buffer : {&query_, &key_, &value_}) {
      for (std::size_t i = 0; i < buffer->size(); ++i) {
        state = state * 1664525U + 1013904223U;
        (*buffer)[i] = static_cast<float>(state >> 8) / static_cast<float>(1U << 23) - 1.0F;
      }
    }
    std::iota(blocks_.begin(), blocks_.end(), 0);
    kernels::store_keys_values(matrix(key_, kHeadDim), matrix(value_, kHeadDim), {{{0, tokens, 0, blocks_}}},
                               paged());
  }

  // Attention of the tokens [first, first + count).
  void tiled(std::size_t first, std::size_t count, std::optional<std::size_t> window = {}) const {
    const std::vector<kernels::AttentionSpan> spans = {{0, count, first, blocks_}};
    kernels::paged_attention(
        {.query = matrix(query_, kHeads * kHeadDim).rows_from(first, count),
         .cache = paged(),
         .spans = spans,
         .kv_of_head = kv_of_head_,
         .pattern = {.window = window},
         .scale = kScale,
         .scratch = {scratch_.data(), scratch_.size() / scratch_columns_, scratch_columns_},
         .out = matrix(out_, kHeads * kHeadDim).rows_from(first, count)});
  }

  // The prompt, in chunks.
  void prefill(std::optional<std::size_t> window = {}) const {
    for (std::size_t first = 0; first < tokens_; first += kChunk)
      tiled(first, std::min(kChunk, tokens_ - first), window);
  }

  // One head, with the whole score matrix, [tokens, tokens].
  void textbook(std::size_t head, TensorView<float> scores, TensorView<float> out) const {
    const auto size = [](std::size_t n) { return static_cast<blasint>(n); };
    const kernels::Sgemm sgemm = kernels::openblas_sgemm();
    sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, size(tokens_), size(tokens_), size(kHeadDim), kScale,
          query_.data() + head * kHeadDim, size(kHeads * kHeadDim), key_.data(), size(kHeadDim), 0.0F,
          scores.data(), size(tokens_));
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
    sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size(tokens_), size(kHeadDim), size(tokens_), 1.0F,
          scores.data(), size(tokens_), value_.data(), size(kHeadDim), 0.0F, out.data(), size(out.stride()));
  }

  std::size_t tokens() const { return tokens_; }
  TensorView<float> out() const { return matrix(out_, kHeads * kHeadDim); }
  // Besides queries and outputs.
  std::size_t tiled_bytes() const { return cache_.size() + scratch_.size() * sizeof(float); }
  std::size_t cache_bytes() const { return cache_.size(); }

 private:
  TensorView<float> matrix(const Buffer<float>& buffer, std::size_t columns) const {
    return {buffer.data(), tokens_, columns};
  }
  kernels::PagedCache paged() const { return {layout_, cache_.data(), blocks_.size()}; }

  std::size_t tokens_;
  Buffer<float> query_;  // [tokens, kHeads * kHeadDim]
  Buffer<float> key_;    // [tokens, kHeadDim]
  Buffer<float> value_;  // [tokens, kHeadDim]
  Buffer<float> out_;    // [tokens, kHeads * kHeadDim]
  kernels::KvLayout layout_;
  std::vector<std::int32_t> blocks_;
  Buffer<std::byte> cache_;
  std::vector<std::size_t> kv_of_head_;
  std::size_t scratch_columns_;
  Buffer<float> scratch_;
};

// Seconds of the fastest of a few runs; long ones run once.
double best_seconds(const std::function<void()>& run) {
  constexpr int kRuns = 5;
  constexpr double kLong = 2.0;
  double best = INFINITY;
  for (int i = 0; i < kRuns && (i == 0 || best < kLong); ++i) {
    const Stopwatch watch;
    run();
    best = std::min(best, watch.seconds());
  }
  return best;
}

// The tolerated error of a mean of values in [-1, 1), besides float32 rounding: scores are off by at most
// scale * 64 * 2^-9, but the errors of the keys are independent (the root of 64 of them, three deviations);
// values and weights by a unit each.
double tolerance(KvType type) {
  const double unit = type == KvType::f32 ? 0.0 : type == KvType::bf16 ? 0x1p-9 : 0.5 / 127;
  return 1e-4 + 2 * 3 * std::sqrt(static_cast<double>(kHeadDim)) * kScale * unit + 2 * unit;
}

void verify(const Problem& problem, std::size_t head, TensorView<const float> expected, KvType type) {
  for (std::size_t t = 0; t < problem.tokens(); ++t) {
    for (std::size_t d = 0; d < kHeadDim; ++d) {
      const float found = problem.out()(t, head * kHeadDim + d);
      require<ConfigError>(std::abs(found - expected(t, d)) <= tolerance(type),
                           "attention with a {} cache, token {}, element {}: found {}, expected {}",
                           name_of(type), t, d, found, expected(t, d));
    }
  }
}

void report_prompt(const Options& options, std::size_t tokens) {
  double textbook = 0.0;
  const Buffer<float> scores(tokens * tokens, "naive scores");
  const Buffer<float> expected(tokens * kHeadDim, "naive output");
  const TensorView<float> score_view(scores.data(), tokens, tokens);
  const TensorView<float> expected_view(expected.data(), tokens, kHeadDim);
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    const Problem problem(tokens, type);
    if (textbook == 0.0) {
      // All heads take as long as one of them.
      textbook = kHeads * best_seconds([&] { problem.textbook(1, score_view, expected_view); });
    }
    const double tiled = best_seconds([&] { problem.prefill(); });
    verify(problem, 1, expected_view, type);
    const double windowed = best_seconds([&] { problem.prefill(kWindow); });
    const std::size_t textbook_bytes = scores.size() * sizeof(float);
    if (options.json) {
      fmt::print(
          "{{\"phase\":\"prefill\",\"tokens\":{},\"kv_type\":\"{}\",\"threads\":{},\"naive_s\":{:.6f},"
          "\"tiled_s\":{:.6f},"
          "\"speedup\":{:.3f},\"naive_bytes\":{},\"tiled_bytes\":{},\"window\":{},\"window_s\":{:.6f}}}\n",
          tokens, name_of(type), options.threads, textbook, tiled, textbook / tiled, textbook_bytes,
          problem.tiled_bytes(), kWindow, windowed);
    } else {
      fmt::print("{:>7} {:>6} {:>12.2f} {:>10.2f} {:>8.2f} {:>13.1f} {:>10.2f} {:>12.2f} {:>10.3f}\n", tokens,
                 name_of(type), textbook * 1e3, tiled * 1e3, textbook / tiled,
                 static_cast<double>(textbook_bytes) / 0x1p20,
                 static_cast<double>(problem.tiled_bytes()) / 0x1p20, windowed * 1e3,
                 windowed * 1e6 / static_cast<double>(tokens));
    }
    std::fflush(stdout);
  }
}

void report_token(const Options& options, std::size_t tokens, double streaming) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    const Problem problem(tokens, type);
    const double seconds = best_seconds([&] { problem.tiled(tokens - 1, 1); });
    const double rate = static_cast<double>(problem.cache_bytes()) / seconds;
    if (options.json) {
      fmt::print(
          "{{\"phase\":\"decode\",\"tokens\":{},\"kv_type\":\"{}\",\"threads\":{},\"microseconds\":{:.2f},"
          "\"bandwidth_gb_s\":{:.2f},\"streaming_gb_s\":{:.2f}}}\n",
          tokens, name_of(type), options.threads, seconds * 1e6, rate / 1e9, streaming / 1e9);
    } else {
      fmt::print("{:>7} {:>6} {:>12.1f} {:>10.2f} {:>8.2f}\n", tokens, name_of(type), seconds * 1e6,
                 rate / 1e9, rate / streaming);
    }
    std::fflush(stdout);
  }
}

void run(const Options& options) {
  omp_set_num_threads(static_cast<int>(options.threads));
  const double streaming = local_peak_rates().streaming_bytes_per_second;
  if (!options.json) {
    fmt::print(
        "Causal prefill; {} query heads of {} on one KV head, {} thread{}, kernels {}. Memory besides "
        "queries and outputs;\n"
        "the last two columns are for a sliding window of {} tokens.\n",
        kHeads, kHeadDim, options.threads, options.threads == 1 ? "" : "s",
        kernels::name_of(kernels::active_isa()), kWindow);
    fmt::print("{:>7} {:>6} {:>12} {:>10} {:>8} {:>13} {:>10} {:>12} {:>10}\n", "tokens", "cache", "naive ms",
               "tiled ms", "speedup", "naive MiB", "tiled MiB", "windowed ms", "us/token");
  }
  for (std::size_t tokens = 1024; tokens <= options.max_tokens; tokens *= 2) report_prompt(options, tokens);
  if (!options.json) {
    fmt::print("\nDecoding one token after this many; peak memory bandwidth {:.1f} GB/s.\n", streaming / 1e9);
    fmt::print("{:>7} {:>6} {:>12} {:>10} {:>8}\n", "tokens", "cache", "us", "GB/s", "of peak");
  }
  for (std::size_t tokens = 1024; tokens <= options.max_tokens; tokens *= 2)
    report_token(options, tokens, streaming);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Tiled attention against naive attention, which stores the score matrix");
  tp::Options options;
  app.add_option("--max-tokens", options.max_tokens,
                 "Longest prompt; naive attention takes 4 bytes times its square")
      ->check(CLI::Range(1024, 131072))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_flag("--json", options.json, "One JSON object per line");
  CLI11_PARSE(app, argc, argv);
  try {
    tp::run(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_attention: {}\n", error.what());
    return 1;
  }
}
