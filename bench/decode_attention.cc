#include "bench/attention_problem.h"
#include "model/rates/peak_rates.h"

#include <cstdint>

namespace tp::bench {
namespace {

// A layer of Llama-3.2-1B's shape.
constexpr std::size_t kKvHeads = 8;
constexpr std::size_t kQueryHeads = 4 * kKvHeads;
constexpr std::size_t kColumns = kKvHeads * kHeadDim;

// Decodes one token of each sequence after `tokens` - 1 others. All sequences have the same keys and values,
// but each has its own copy.
class DecodeProblem : public CachedSequences {
 public:
  DecodeProblem(std::size_t sequences, std::size_t tokens, KvType type)
      : CachedSequences({type, kKvHeads, kBlockSize, kHeadDim, kHeadDim}, sequences * tokens / kBlockSize,
                        sequences, kv_of_heads()),
        sequences_(sequences),
        tokens_(tokens),
        query_(random_buffer(sequences * kQueryHeads * kHeadDim, "queries", 1)),
        key_(random_buffer(tokens * kColumns, "keys", 2)),
        value_(random_buffer(tokens * kColumns, "values", 3)),
        out_(query_.size(), "outputs") {
    // The blocks of a sequence are scattered, like in a cache that has been in use for a while.
    std::shuffle(blocks().begin(), blocks().end(), std::mt19937(1));
    for (std::size_t sequence = 0; sequence < sequences; ++sequence) {
      kernels::store_keys_values({key_.data(), tokens, kColumns}, {value_.data(), tokens, kColumns},
                                 {{{0, tokens, 0, table_of(sequence)}}}, paged());
    }
  }

  void decode() const {
    std::vector<kernels::AttentionSpan> spans;
    for (std::size_t i = 0; i < sequences_; ++i) spans.push_back({i, 1, tokens_ - 1, table_of(i)});
    attend({query_.data(), sequences_, kQueryHeads * kHeadDim}, spans, kScale,
           {out_.data(), sequences_, kQueryHeads * kHeadDim});
  }

  // Compares one head of one sequence with a softmax in double precision.
  void verify(std::size_t sequence, std::size_t head) const {
    const std::size_t column = kv_of_head()[head] * kHeadDim;
    const float* q = query_.data() + (sequence * kQueryHeads + head) * kHeadDim;
    const auto weight = [&](std::size_t t) {
      double score = 0.0;
      for (std::size_t d = 0; d < kHeadDim; ++d) score += double{q[d]} * key_[t * kColumns + column + d];
      return std::exp(score * kScale);
    };
    const std::vector<double> expected = weighted_mean(
        tokens_, kHeadDim, weight, [&](std::size_t t) { return value_.data() + t * kColumns + column; });
    // Keys, queries and weights are rounded to 8 bits at worst. Over thousands of tokens, the errors cancel.
    require_close(
        difference(out_.data() + (sequence * kQueryHeads + head) * kHeadDim, expected, kHeadDim), 0.01,
        fmt::format("attention with a {} cache, sequence {}, head {}", name_of(type()), sequence, head));
  }

 private:
  static std::vector<std::size_t> kv_of_heads() {
    std::vector<std::size_t> kv_of_head(kQueryHeads);
    for (std::size_t head = 0; head < kQueryHeads; ++head) kv_of_head[head] = head / (kQueryHeads / kKvHeads);
    return kv_of_head;
  }
  std::span<const std::int32_t> table_of(std::size_t sequence) const {
    const std::size_t size = blocks().size() / sequences_;
    return std::span(blocks()).subspan(sequence * size, size);
  }

  std::size_t sequences_;
  std::size_t tokens_;
  Buffer<float> query_;  // [sequences, query heads * head_dim]
  Buffer<float> key_;    // [tokens, KV heads * head_dim]
  Buffer<float> value_;  // [tokens, KV heads * head_dim]
  Buffer<float> out_;    // [sequences, query heads * head_dim]
};

}  // namespace

void run_decode(const Options& options) {
  if (!options.json) {
    fmt::print(
        "\nDecoding one token of each sequence after so many; {} query heads of {} on {} KV heads, {}.\n",
        kQueryHeads, kHeadDim, kKvHeads, setting(options));
    fmt::print("{:>9} {:>7} {:>6} {:>12} {:>10} {:>10} {:>8}\n", "sequences", "tokens", "cache", "us", "GB/s",
               "peak GB/s", "of peak");
  }
  const std::size_t tokens = std::min<std::size_t>(options.max_tokens, 32768);
  for (const std::size_t sequences : {std::size_t{1}, std::size_t{16}}) {
    for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
      const DecodeProblem problem(sequences, tokens, type);
      problem.decode();
      problem.verify(sequences - 1, kQueryHeads - 1);
      const double before = local_peak_rates().streaming_bytes_per_second;
      const double seconds = best_seconds([&] { problem.decode(); });
      const double streaming = std::max(before, local_peak_rates().streaming_bytes_per_second);
      const double rate = static_cast<double>(problem.cache_bytes()) / seconds;
      print_line(
          options.json,
          fmt::format(
              "{{\"phase\":\"decode\",\"sequences\":{},\"tokens\":{},\"kv_type\":\"{}\",\"threads\":{},"
              "\"microseconds\":{:.2f},\"bandwidth_gb_s\":{:.2f},\"streaming_gb_s\":{:.2f}}}",
              sequences, tokens, name_of(type), options.threads, seconds * 1e6, rate / 1e9, streaming / 1e9),
          fmt::format("{:>9} {:>7} {:>6} {:>12.0f} {:>10.2f} {:>10.2f} {:>8.2f}", sequences, tokens,
                      name_of(type), seconds * 1e6, rate / 1e9, streaming / 1e9, rate / streaming));
    }
  }
}

}  // namespace tp::bench
