#include "bench/attention_problem.h"
#include "model/rates/peak_rates.h"

namespace tp::bench {
namespace {

// Shape of DeepSeek-V2's and V3's latents.
constexpr std::size_t kValueDim = 512;
constexpr std::size_t kRestDim = 64;
constexpr std::size_t kKeyDim = kValueDim + kRestDim;
constexpr std::size_t kChunkTokens = 64;  // tokens of a prompt's chunk
constexpr float kLatentScale = 0.05F;

// The last tokens of a sequence with several heads, which all read the same latents.
class LatentProblem : public CachedSequences {
 public:
  LatentProblem(std::size_t tokens, std::size_t queries, std::size_t heads, KvType type)
      : CachedSequences({type, 1, kBlockSize, kKeyDim, kValueDim, true}, tokens / kBlockSize, 1,
                        std::vector<std::size_t>(heads, 0)),
        tokens_(tokens),
        queries_(queries),
        heads_(heads),
        query_(random_buffer(queries * heads * kKeyDim, "queries", 1)),
        rest_(random_buffer(tokens * kRestDim, "keys", 2)),
        value_(random_buffer(tokens * kValueDim, "values", 3)),
        out_(queries * heads * kValueDim, "outputs") {
    kernels::store_keys_values({rest_.data(), tokens, kRestDim}, {value_.data(), tokens, kValueDim},
                               {{{0, tokens, 0, blocks()}}}, paged());
  }

  void run() const {
    const std::vector<kernels::AttentionSpan> spans = {{0, queries_, tokens_ - queries_, blocks()}};
    attend({query_.data(), queries_, heads_ * kKeyDim}, spans, kLatentScale,
           {out_.data(), queries_, heads_ * kValueDim});
  }

  // Compares one head of the last token with a softmax in double precision.
  void verify(std::size_t head) const {
    const std::size_t row = (queries_ - 1) * heads_ + head;
    const float* q = query_.data() + row * kKeyDim;
    const auto weight = [&](std::size_t t) {
      double score = 0.0;
      for (std::size_t d = 0; d < kValueDim; ++d) score += double{q[d]} * value_[t * kValueDim + d];
      for (std::size_t d = 0; d < kRestDim; ++d) score += double{q[kValueDim + d]} * rest_[t * kRestDim + d];
      return std::exp(score * kLatentScale);
    };
    const std::vector<double> expected = weighted_mean(
        tokens_, kValueDim, weight, [&](std::size_t t) { return value_.data() + t * kValueDim; });
    // Keys, queries and weights are rounded to 8 bits at worst. Over thousands of tokens, the errors cancel.
    require_close(difference(out_.data() + row * kValueDim, expected, kValueDim), 0.01,
                  fmt::format("attention with a {} cache of latents, head {}", name_of(type()), head));
  }

  // Returns the number of multiplications and additions.
  double operations() const {
    const double seen = static_cast<double>(queries_) *
                        (static_cast<double>(tokens_ - queries_) + static_cast<double>(queries_ + 1) / 2);
    return 2.0 * static_cast<double>((kKeyDim + kValueDim) * heads_) * seen;
  }

 private:
  std::size_t tokens_;
  std::size_t queries_;
  std::size_t heads_;
  Buffer<float> query_;
  Buffer<float> rest_;
  Buffer<float> value_;
  Buffer<float> out_;
};

// Int8 rows are also converted to pairs of bf16.
double peak_of(KvType type, const PeakRates& peaks) {
  return type == KvType::f32 ? peaks.f32_per_second : std::max(peaks.bf16_per_second, peaks.f32_per_second);
}

void report_token(const Options& options, std::size_t tokens, std::size_t heads, KvType type,
                  const PeakRates& peaks) {
  const LatentProblem problem(tokens, 1, heads, type);
  problem.run();
  problem.verify(heads - 1);
  const double seconds = best_seconds([&] { problem.run(); });
  const double reading = static_cast<double>(problem.cache_bytes()) / peaks.streaming_bytes_per_second;
  const double products = problem.operations() / peak_of(type, peaks);
  print_line(
      options.json,
      fmt::format(
          "{{\"phase\":\"latent_decode\",\"tokens\":{},\"heads\":{},\"kv_type\":\"{}\",\"threads\":{},"
          "\"microseconds\":{:.2f},\"reading_microseconds\":{:.2f},\"products_microseconds\":{:.2f}}}",
          tokens, heads, name_of(type), options.threads, seconds * 1e6, reading * 1e6, products * 1e6),
      fmt::format("{:>7} {:>6} {:>6} {:>10.0f} {:>8.2f} {:>9.0f} {:>12.0f} {:>12.0f} {:>9.2f}", tokens, heads,
                  name_of(type), seconds * 1e6, static_cast<double>(problem.cache_bytes()) / seconds / 1e9,
                  problem.operations() / seconds / 1e9, reading * 1e6, products * 1e6,
                  std::max(reading, products) / seconds));
}

void report_chunk(const Options& options, std::size_t tokens, std::size_t heads, KvType type,
                  const PeakRates& peaks) {
  const LatentProblem problem(tokens, kChunkTokens, heads, type);
  problem.run();
  problem.verify(heads - 1);
  const double seconds = best_seconds([&] { problem.run(); });
  const double rate = problem.operations() / seconds;
  print_line(
      options.json,
      fmt::format(
          "{{\"phase\":\"latent_prefill\",\"tokens\":{},\"heads\":{},\"kv_type\":\"{}\",\"threads\":{},"
          "\"microseconds\":{:.2f},\"gflop_s\":{:.2f},\"peak_gflop_s\":{:.2f}}}",
          tokens, heads, name_of(type), options.threads, seconds * 1e6, rate / 1e9,
          peak_of(type, peaks) / 1e9),
      fmt::format("{:>7} {:>6} {:>6} {:>10.0f} {:>9.0f} {:>8.2f}", tokens, heads, name_of(type),
                  seconds * 1e6, rate / 1e9, rate / peak_of(type, peaks)));
}

}  // namespace

void run_latent(const Options& options) {
  constexpr KvType kTypes[] = {KvType::f32, KvType::bf16, KvType::int8};
  const PeakRates peaks = local_peak_rates();
  if (!options.json) {
    fmt::print(
        "\nDecoding one token on latents of {} + {}, {}. Bounds: reading the latents at "
        "{:.1f} GB/s, and the\n"
        "products of all heads at {:.0f} Gop/s (with caches of bf16 and int8 {:.0f}).\n",
        kValueDim, kRestDim, setting(options), peaks.streaming_bytes_per_second / 1e9,
        peak_of(KvType::f32, peaks) / 1e9, peak_of(KvType::bf16, peaks) / 1e9);
    fmt::print("{:>7} {:>6} {:>6} {:>10} {:>8} {:>9} {:>12} {:>12} {:>9}\n", "tokens", "heads", "cache", "us",
               "GB/s", "GFLOP/s", "us, reading", "us, products", "of bound");
  }
  const std::size_t tokens = std::min<std::size_t>(options.max_tokens, 32768);
  for (const std::size_t heads : {std::size_t{8}, std::size_t{16}, std::size_t{64}, std::size_t{128}}) {
    for (const KvType type : kTypes) report_token(options, tokens, heads, type, peaks);
  }
  const std::size_t prompt = std::min<std::size_t>(options.max_tokens, 4096);
  if (!options.json) {
    fmt::print("\nThe last {} tokens of a prompt.\n", kChunkTokens);
    fmt::print("{:>7} {:>6} {:>6} {:>10} {:>9} {:>8}\n", "tokens", "heads", "cache", "us", "GFLOP/s",
               "of peak");
  }
  for (const std::size_t heads : {std::size_t{16}, std::size_t{128}}) {
    for (const KvType type : kTypes) report_chunk(options, prompt, heads, type, peaks);
  }
}

}  // namespace tp::bench
